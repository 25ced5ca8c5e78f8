"""Heartbeats: what a member sends in; who of its watchers is due a sign of life, out.

A member sends something to each of its watchers at least once in a period. Whatever goes to
everybody, or to that watcher, counts; only who had nothing gets a heartbeat.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX


@final
class Heartbeats:
    """The signs of life that one member owes."""

    def __init__(self, period_ns: i64) -> None:
        self._period_ns: Final[i64] = period_ns
        # Who watches this member, and when something was last sent to each of them alone.
        self.watchers: dict[int, int] = {}
        # When to look whom something is due.
        self.next_ns: i64 = 0
        self._sent_all_ns: i64 = -SEQ_MAX

    def follow(self, watchers: list[int]) -> None:
        """From now on these watch."""
        self.watchers = {to: self.watchers.get(to, -SEQ_MAX) for to in watchers}

    def sent_to_all(self, now_ns: i64) -> None:
        """A datagram went to everybody."""
        self._sent_all_ns = now_ns

    def sent_to(self, to: int, now_ns: i64) -> None:
        """A datagram went to one other member."""
        if to in self.watchers:
            self.watchers[to] = int(now_ns)

    def due(self, now_ns: i64, all_of_them: bool) -> list[int]:
        """Who is to be sent a sign of life now: those who had none for a period, or all."""
        self.next_ns = now_ns + self._period_ns
        found = []
        for to, sent_ns in self.watchers.items():
            due_ns = max(self._sent_all_ns, sent_ns) + self._period_ns
            if all_of_them or due_ns <= now_ns:
                found.append(to)
            else:
                self.next_ns = min(self.next_ns, due_ns)
        return found
