"""Heartbeats: what a member sends in; who of its watchers is due a sign of life, out.

A member sends something to each of its watchers at least once in a period. Whatever goes to
everybody, or to that watcher, counts; only who had nothing gets a heartbeat.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX
from semcast.protocol.membership.waits import WatchConfig

# A heartbeat that is due within this part of a period goes out with one that is due now, so that
# all of them are due together from then on, and the member wakes up once for them.
_TOGETHER_PART: Final = 4


@final
class Heartbeats:
    """The signs of life that one member owes."""

    def __init__(self, config: WatchConfig, members: int) -> None:
        self._config: Final = config
        self.period_ns: i64 = 0
        # What is due may wait for the next heartbeat if that is no later than this.
        self._slack_ns: i64 = 0
        # Who watches this member, and when something was last sent to each of them alone.
        self.watchers: dict[int, int] = {}
        # When to look whom something is due.
        self.next_ns: i64 = 0
        self._sent_all_ns: i64 = -SEQ_MAX
        self.suit(members)

    def suit(self, members: int) -> None:
        """From now on there are so many members."""
        self.period_ns = self._config.period_ns(members)
        few = members <= self._config.few
        self._slack_ns = 0 if few else self.period_ns // 2

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

    def or_next_ns(self, due_ns: i64) -> i64:
        """When to do what is due then: if it can wait for the next heartbeat, with that. In a large
        group, where periods are long, a member should not wake up for each thing by itself.
        """
        waits = self.watchers and due_ns <= self.next_ns <= due_ns + self._slack_ns
        return self.next_ns if waits else due_ns

    def due(self, now_ns: i64, all_of_them: bool) -> list[int]:
        """Who is to be sent a sign of life now: those who had none for a period, or all."""
        due_ns = {
            to: max(self._sent_all_ns, sent_ns) + self.period_ns
            for to, sent_ns in self.watchers.items()
        }
        soon_ns = now_ns
        if min(due_ns.values(), default=SEQ_MAX) <= now_ns:
            soon_ns += self.period_ns // _TOGETHER_PART
        self.next_ns = now_ns + self.period_ns
        found = []
        for to, at_ns in due_ns.items():
            if all_of_them or at_ns <= soon_ns:
                found.append(to)
            else:
                self.next_ns = min(self.next_ns, at_ns)
        return found
