"""Pacing: how fast, and how far ahead of its receivers, a member may send.

The user may set an upper bound on the bandwidth of multicast (SRM §5.3). And whoever sends more at
once than a receiver's socket holds only sends it again later: requests tell.
"""

from typing import Final, final

from mypy_extensions import i64

_SECOND_NS: Final = 1_000_000_000


@final
class Pacer:
    """A token bucket that may go into debt by one datagram. A rate of 0 never holds anything up."""

    def __init__(self, bytes_s: i64) -> None:
        self._bytes_s: Final[i64] = bytes_s
        # What was sent is paid for up to here.
        self._paid_ns: i64 = 0

    def ready(self, now_ns: i64) -> bool:
        """Whether a datagram may be sent now."""
        return self._bytes_s == 0 or self._paid_ns <= now_ns

    def spend(self, size_bytes: i64, now_ns: i64) -> None:
        """A datagram of this size was sent."""
        if self._bytes_s > 0:
            start = max(self._paid_ns, now_ns)
            self._paid_ns = start + size_bytes * _SECOND_NS // self._bytes_s

    def next_ns(self) -> i64:
        """When the next datagram may be sent."""
        return self._paid_ns


# Losses of a receiver beyond this part of what was sent are not the network's: its socket is full.
_OVERRUN_PART: Final = 5
# The least that may be under way, as a part of the window; and at least so many messages.
_LEAST_PART: Final = 16
_LEAST: Final = 64
# How often to look, and at how many messages at the least.
LOOK_NS: Final = 10_000_000
_SENT_MIN: Final = 64


@final
class Flight:
    """How many messages may be under way: sent, and still kept because not everybody has them.

    Requests tell what did not arrive. When most receivers miss a large part of what was sent
    lately, their sockets overflow, and less is sent at once; as long as they do not, more and more,
    up to the window. A single receiver that loses much holds nobody else up, and neither do losses
    one by one, as networks have them: to send less would not help against those.
    """

    def __init__(self, window: i64, receivers: i64) -> None:
        self._window: Final[i64] = window
        self._receivers: Final[i64] = receivers
        self._least: Final[i64] = min(window, max(window // _LEAST_PART, _LEAST))
        # INV-FLIGHT: between the least and the window.
        self.limit: i64 = window
        self._looked_ns: i64 = 0
        self._looked_at: i64 = 0
        # By asker, how many messages it asked for since the last look.
        self._asked: Final[dict[int, int]] = {}

    def asked_for(self, asker: int, messages: i64) -> None:
        """Somebody has not got so many of the messages that were sent."""
        self._asked[asker] = self._asked.get(asker, 0) + int(messages)

    def look(self, sent: i64, now_ns: i64) -> None:
        """Now and then: `sent` is the number of the last message that was sent."""
        if now_ns - self._looked_ns < LOOK_NS:
            return
        count = sent - self._looked_at
        if count < _SENT_MIN and self.limit == self._window:
            return
        overrun: i64 = 0
        for messages in self._asked.values():
            if messages * _OVERRUN_PART > count:
                overrun += 1
        if 2 * overrun > self._receivers and count >= _SENT_MIN:
            self.limit = max(self.limit - self.limit // 4, self._least)
        else:
            self.limit = min(self.limit + self.limit // 4 + 1, self._window)
        self._asked.clear()
        self._looked_ns = now_ns
        self._looked_at = sent

    def next_ns(self) -> i64:
        """When more may be sent if nobody asks."""
        return self._looked_ns + LOOK_NS
