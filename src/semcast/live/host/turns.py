"""Turns: ready sockets and a time go in; the seats that are concerned read, do what is due, send.

Idle seats cost nothing: a turn concerns those that something came for and those that are due. An
error in one seat's session is a bug of ours; it ends that seat, and the others go on. Callers hold
the host's lock, and wake the threads that wait for the seats that had a turn.
"""

import logging
from typing import Final, cast, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER
from semcast.live.host.deadlines import Deadlines
from semcast.live.host.inlets import Inlets
from semcast.live.host.seat import Seat

log: Final = logging.getLogger("semcast")

# A turn serves at most so many seats that are only due, so that the lock is not held for long. The
# others are first in the next turn.
_DUE_PER_TURN: Final = 8


@final
class Turns:
    """Takes turns for all seats of a host."""

    def __init__(self, inlets: Inlets) -> None:
        self.seats: Final[dict[Seat, None]] = {}
        # When sockets were last read, and how many bytes have come since the host began.
        self.read_ns: i64 = -FOREVER
        self.came_bytes: i64 = 0
        # When the next turn was due when somebody last asked. It may be read without the lock.
        self.known_due_ns: i64 = FOREVER
        self._inlets: Final = inlets
        # The seat, if there is only one.
        self._alone: Seat | None = None
        self._deadlines: Final = Deadlines()
        # The seats whose deadlines may have changed, and those that the present turn concerns.
        self._stale: Final[list[Seat]] = []
        self._active: list[Seat] = []

    def add(self, seat: Seat) -> None:
        """Look after this seat from now on."""
        self._inlets.add(seat)
        seat.seated = True
        self.seats[seat] = None
        self._count()
        self.outdate(seat)

    def remove(self, seat: Seat) -> None:
        """Look after this seat no longer; harmless when repeated."""
        if seat.seated:
            seat.seated = False
            self._inlets.remove(seat)
            self._deadlines.remove(seat)
            del self.seats[seat]
            self._count()

    def _count(self) -> None:
        self._alone = next(iter(self.seats)) if len(self.seats) == 1 else None

    # -- when --------------------------------------------------------------------------------------

    def put(self, seat: Seat, due_ns: i64) -> None:
        """The seat is due then."""
        if seat.seated:
            self._deadlines.put(seat, due_ns)
            self.known_due_ns = self._deadlines.first_ns()

    def outdate(self, seat: Seat) -> None:
        """The seat's deadline may have changed, and is asked for when somebody needs it."""
        if not seat.stale:
            seat.stale = True
            self._stale.append(seat)

    def first_due_ns(self) -> i64:
        """By when the next turn is due."""
        if self._stale:
            for seat in self._stale:
                seat.stale = False
                try:
                    self.put(seat, seat.next_deadline_ns())
                except Exception as error:
                    self.fail(seat, error)
                    self.activate(seat)
            self._stale.clear()
        self.known_due_ns = self._deadlines.first_ns()
        return self.known_due_ns

    # -- what --------------------------------------------------------------------------------------

    def read_in(self, now_ns: i64, ready: list[int], calm: bool) -> None:
        """Read the sockets that are ready, and hand what came to the seats it is for."""
        self.read_ns = now_ns
        if self._inlets.reporting:
            self._tell_closed(now_ns)
        alone = self._alone
        if alone is not None:
            if ready:
                self._take_in(alone, now_ns, ready, calm)
            return
        for fileno in ready:
            inlet = self._inlets.at(fileno)
            if inlet is None:
                continue
            only = inlet.only
            if only is not None:
                self._take_in(only, now_ns, [fileno], calm)
                continue
            for seat, received in inlet.read(calm):
                try:
                    seat.session.take_in(received, now_ns)
                except Exception as error:
                    self.fail(seat, error)
                self.activate(seat)

    def _tell_closed(self, now_ns: i64) -> None:
        """Tell seats that nobody listens any more where some members of their groups were."""
        for seat, addresses in self._inlets.take_closed():
            try:
                seat.session.on_closed(addresses, now_ns)
            except Exception as error:
                self.fail(seat, error)
            self.activate(seat)

    def _take_in(self, seat: Seat, now_ns: i64, ready: list[int], calm: bool) -> None:
        try:
            seat.session.on_readable(now_ns, ready, calm)
        except Exception as error:
            self.fail(seat, error)
        self.activate(seat)

    def activate(self, seat: Seat) -> None:
        """The present turn concerns this seat."""
        if not seat.active:
            seat.active = True
            self._active.append(seat)

    def end(self, now_ns: i64, owing: Seat | None) -> list[Seat]:
        """Settle the seats that something came for, but for one that may owe its part, and some of
        those that are due. Returns the seats that the turn concerned.
        """
        if self.first_due_ns() <= now_ns:
            for _ in range(_DUE_PER_TURN):
                due = self._deadlines.take(now_ns)
                if due is None:
                    break
                self.activate(cast(Seat, due))
        active, self._active = self._active, []
        for seat in active:
            seat.active = False
            self.came_bytes += seat.came_bytes()
            if seat is owing:
                self.outdate(seat)
            else:
                self.settle(seat, now_ns)
        return active

    def settle(self, seat: Seat, now_ns: i64) -> None:
        """Do what is due in this seat, and send what is to be sent."""
        if seat.seated:
            try:
                seat.settle(now_ns)
            except Exception as error:
                self.fail(seat, error)
            self.outdate(seat)

    def fail(self, seat: Seat, error: Exception) -> None:
        """End a seat because of a bug of ours: a member must not look alive when it is not."""
        group = seat.session.config.group
        log.error("the engine of %r failed", group, exc_info=error)
        self.remove(seat)
        seat.session.end(f"the engine of {group!r} failed: {error!r}; join again")
