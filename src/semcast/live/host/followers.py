"""Followers: threads that wait for something of one group while another thread reads the sockets.

Who waits for which seat goes in; those who have reason to look again are woken.

A reader that is never long away is to read the sockets itself: a message that somebody else reads
for it takes two wake-ups. So while it is away its place is kept for it, for a moment, and none of
the others takes it.
"""

import threading
from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER
from semcast.live.host.seat import Seat

# How long a place is kept. Nobody reads the sockets meanwhile, so it is also what others wait
# longer for a message if the reader does not come back after all.
KEPT_NS: Final = 2_000_000
# A reader that was not here for so long is none for whom a place has to be kept.
_GONE_NS: Final = 200_000_000


@final
class Followers:
    """All threads of a host that do not read the sockets themselves; callers hold its lock."""

    def __init__(self) -> None:
        # Seats that somebody waits for, so that one of all who wait is found at once.
        self._seats: Final[dict[Seat, None]] = {}
        # Whose reader's place is kept, if anybody's, and until when.
        self._kept_for: Seat | None = None
        self._kept_until_ns: i64 = -FOREVER

    @property
    def waiting(self) -> bool:
        """Whether there is anybody."""
        return len(self._seats) > 0

    def add(self, seat: Seat) -> threading.Lock:
        """One more; it waits until it can acquire what this returns."""
        waiter = threading.Lock()
        waiter.acquire()
        seat.followers.append(waiter)
        self._seats[seat] = None
        return waiter

    def remove(self, seat: Seat, waiter: threading.Lock) -> None:
        """It waits no longer; harmless if it was woken."""
        if waiter in seat.followers:
            seat.followers.remove(waiter)
            if not seat.followers:
                self._seats.pop(seat, None)

    def wake(self, seat: Seat) -> None:
        """All that wait for this seat."""
        self._seats.pop(seat, None)
        followers, seat.followers = seat.followers, []
        for waiter in followers:
            waiter.release()

    def keep_place(self, seat: Seat, now_ns: i64) -> i64:
        """The reader of this seat will be back soon; says until when its place is kept."""
        self._kept_for = seat
        self._kept_until_ns = now_ns + KEPT_NS
        return self._kept_until_ns

    def give_up_place(self) -> None:
        """It is kept for nobody."""
        self._kept_for = None

    def forget(self, seat: Seat) -> bool:
        """Nobody waits for this seat any more; whether a place was kept for it."""
        kept = self._kept_for is seat
        if kept:
            self._kept_for = None
        return kept

    def place_is_kept(self, now_ns: i64) -> bool:
        """Whether somebody is expected to take it."""
        return self._kept_for is not None and now_ns < self._kept_until_ns

    def place_is_taken(self, seat: Seat, now_ns: i64) -> bool:
        """Whether a reader of this seat has to leave it to another."""
        return self._kept_for is not seat and self.place_is_kept(now_ns)

    def look_ns(self, until_ns: i64, now_ns: i64) -> i64:
        """When to look whether the place was taken, by then at the latest."""
        if self._kept_for is None:
            return until_ns
        if now_ns - self._kept_until_ns > _GONE_NS:
            self._kept_for = None
            return until_ns
        return min(until_ns, now_ns + KEPT_NS)

    def is_overdue(self, now_ns: i64) -> bool:
        """Whether the one for whom the place was kept should have come by now."""
        return self._kept_for is not None and now_ns >= self._kept_until_ns

    def wake_one(self) -> bool:
        """Somebody, of any seat; whether there is anybody."""
        for seat in self._seats:
            waiter = seat.followers.pop()
            if not seat.followers:
                del self._seats[seat]
            waiter.release()
            return True
        return False
