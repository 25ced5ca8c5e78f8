"""Patience: when an application was here goes in; when to look whether it still is comes out.

While an application reads the sockets itself, the engine's thread has only to see that this remains
so. But a look takes a processor from somebody, and one that falls on a message that is passing
holds it up. So one who is never long away is looked after more and more rarely, as far as the
sockets have room for what may come meanwhile; and whoever comes at regular times is looked after
halfway between two of them.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER

_MS: Final = 1_000_000
# How long an application may stay away: when there is much to do, as a rule, and if it never was.
BUSY_NS: Final = 1 * _MS
USUAL_NS: Final = 5 * _MS
LONG_NS: Final = 40 * _MS
# Between two visits there is a pause if it is at least so long.
PAUSE_NS: Final = 300_000
# Part of the room that may be taken before somebody looks.
_ROOM_PART: Final = 4
_ROOM_BYTES_MAX: Final = 1 << 30
_LOOK_NS_MAX: Final = 1000 * _MS


@final
class Patience:
    """With one application, as far as its sockets have `room_bytes`."""

    def __init__(self, room_bytes: i64 = _ROOM_BYTES_MAX) -> None:
        # How long it may stay away as things are.
        self.ns: i64 = USUAL_NS
        self._room_bytes: i64 = room_bytes // _ROOM_PART
        # When it was last here; when it last came after a pause, and how long after the time before
        # that.
        self._here_ns: i64 = -FOREVER
        self._came_ns: i64 = -FOREVER
        self._period_ns: i64 = 0
        self._looked_ns: i64 = 0
        self._came_bytes: i64 = 0

    def fit(self, room_bytes: i64) -> None:
        """There are sockets with no more room than this."""
        self._room_bytes = min(self._room_bytes, room_bytes // _ROOM_PART)

    def came(self, now_ns: i64) -> bool:
        """It is here again; whether after a pause."""
        pause = now_ns - self._here_ns >= PAUSE_NS
        if pause:
            self._period_ns = now_ns - self._came_ns
            self._came_ns = now_ns
        self._here_ns = now_ns
        return pause

    def stays(self, now_ns: i64) -> None:
        """It is still here."""
        self._here_ns = now_ns

    def away_ns(self, now_ns: i64) -> i64:
        """How long it has been away."""
        return now_ns - self._here_ns

    def look_ns(self, now_ns: i64, waits: bool) -> i64:
        """When to look next; `waits` if it is here now, and waits for something to come."""
        due_ns = self.ns + (now_ns if waits else self._here_ns)
        period_ns = self._period_ns
        if PAUSE_NS <= period_ns <= self.ns:
            due_ns -= (due_ns - self._came_ns) % period_ns
            due_ns += period_ns // 2
            if due_ns <= now_ns:
                due_ns += period_ns
        return due_ns

    def looked(self, now_ns: i64, attentive: bool, busy: bool, came_bytes: i64) -> None:
        """Somebody looked: whether it is never long away, whether it is sending as much as it can,
        and what had come to the sockets by now, in all.
        """
        elapsed_ns = min(now_ns - self._looked_ns, _LOOK_NS_MAX)
        room_ns = elapsed_ns * self._room_bytes // max(came_bytes - self._came_bytes, 1)
        self._looked_ns, self._came_bytes = now_ns, came_bytes
        wanted_ns: i64 = min(2 * self.ns, LONG_NS) if attentive else USUAL_NS
        self.ns = BUSY_NS if busy else max(BUSY_NS, min(wanted_ns, room_ns))
