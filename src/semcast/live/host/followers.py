"""Followers: threads that wait for something of one group while another thread reads the sockets.

Who waits for which seat goes in; those who have reason to look again are woken. Whether a thread
has to follow is for `waiting` to say.
"""

import threading
from typing import Final, final

from semcast.live.host.seat import Seat


@final
class Followers:
    """All threads of a host that do not read the sockets themselves; callers hold its lock."""

    def __init__(self) -> None:
        # Seats that somebody waits for, so that one of all who wait is found at once.
        self._seats: Final[dict[Seat, None]] = {}

    @property
    def waiting(self) -> bool:
        """Whether any thread follows."""
        return len(self._seats) > 0

    def add(self, seat: Seat) -> threading.Lock:
        """Add the calling thread, which waits until it can acquire what this returns."""
        waiter = threading.Lock()
        waiter.acquire()
        seat.followers.append(waiter)
        self._seats[seat] = None
        return waiter

    def remove(self, seat: Seat, waiter: threading.Lock) -> None:
        """The thread waits no longer; harmless if it was woken."""
        if waiter in seat.followers:
            seat.followers.remove(waiter)
            if not seat.followers:
                self._seats.pop(seat, None)

    def wake(self, seat: Seat) -> None:
        """Wake all threads that wait for this seat."""
        self._seats.pop(seat, None)
        followers, seat.followers = seat.followers, []
        for waiter in followers:
            waiter.release()

    def wake_one(self) -> bool:
        """Wake one thread, of any seat. Returns whether there was one."""
        for seat in self._seats:
            waiter = seat.followers.pop()
            if not seat.followers:
                del self._seats[seat]
            waiter.release()
            return True
        return False
