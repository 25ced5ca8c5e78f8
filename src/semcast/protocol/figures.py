"""What a member counts and measures for people, beside what its buffers count themselves.

Nothing that a member does depends on it, so two members that differ only here behave alike
(`sim/exhausting/digest.py` passes over it).
"""

from typing import Final, final

from mypy_extensions import i64

# Clocks drift apart by some 0.1 ms a second at the most. Measurements older than two windows are
# forgotten, so that ages stay right to some milliseconds.
WINDOW_NS: Final = 10_000_000_000
_UNKNOWN_NS: Final = (1 << 62) - 1


@final
class Figures:
    """Counters of one member."""

    def __init__(self) -> None:
        # Requests for messages: those of this member, and those that it was to answer.
        self.naks_sent: i64 = 0
        self.naks_received: i64 = 0
        self.retransmitted: i64 = 0
        # How often a message found no room, and for how long none did: each time from the first
        # one that was refused to the next that was accepted.
        self.blocked_times: i64 = 0
        self._blocked_ns: i64 = 0
        self._blocked_since_ns: i64 = -1

    def counted(self) -> dict[str, int]:
        """The counters, by name."""
        return {
            "naks_sent": int(self.naks_sent),
            "naks_received": int(self.naks_received),
            "retransmitted": int(self.retransmitted),
            "blocked_times": int(self.blocked_times),
        }

    def blocked(self, now_ns: i64) -> None:
        """From now on there is no room."""
        self.blocked_times += 1
        self._blocked_since_ns = now_ns

    def unblocked(self, now_ns: i64) -> None:
        """There is room again."""
        self._blocked_ns = self.blocked_ns(now_ns)
        self._blocked_since_ns = -1

    def blocked_ns(self, now_ns: i64) -> i64:
        """For how long there was no room, until now."""
        if self._blocked_since_ns < 0:
            return self._blocked_ns
        return self._blocked_ns + max(now_ns - self._blocked_since_ns, 0)


@final
class Transit:
    """How long a source's messages take to get here at the least, by its clock and by ours.

    This is how far the two clocks are apart, and the quickest way between them. Without it an age
    would be as wrong as these clocks. INV-TRANSIT: the least of all that came in this window and
    in the last one in which anything came; a source that rests is remembered.
    """

    def __init__(self) -> None:
        self._began_ns: i64 = -WINDOW_NS
        self._least_ns: i64 = _UNKNOWN_NS
        self._before_ns: i64 = _UNKNOWN_NS

    def arrived(self, sent_ns: i64, now_ns: i64) -> None:
        """A message sent at that time is here; called once for each run of messages."""
        took_ns = now_ns - sent_ns
        if now_ns - self._began_ns >= WINDOW_NS:
            self._began_ns = now_ns
            self._before_ns = self._least_ns
            self._least_ns = took_ns
        elif took_ns < self._least_ns:
            self._least_ns = took_ns

    def age_ns(self, sent_ns: i64, now_ns: i64) -> i64:
        """How long ago a message was sent, less the shortest time that one took to get here."""
        return max(now_ns - sent_ns - min(self._least_ns, self._before_ns), 0)
