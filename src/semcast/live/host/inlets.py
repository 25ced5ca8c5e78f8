"""Inlets: the sockets that datagrams come in by. Seats go in; ready sockets, and datagrams by seat,
come out.

A socket that several groups share is read once, and the group id in a datagram's header says whose
it is; a socket of one group is left to that group's transport. Nothing here takes longer the more
seats there are.
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import Clock
from semcast.live.host.seat import Seat
from semcast.live.host.timing import YIELD_NS
from semcast.live.host.waker import Waker
from semcast.live.sockets.address import Address

# A turn reads at most so many sockets. The next time the kernel first names those that were not
# read, so a few that are never empty do not keep the others waiting.
SOCKETS_PER_TURN: Final = 8
# A turn reads at most so many datagrams of a shared socket; of others the session decides.
_DATAGRAMS_PER_TURN: Final = 64
# Where a datagram's group stands in its header; see wire/header.py.
_GROUP_FROM: Final = 4
_GROUP_TO: Final = 12
# `select` knows only file descriptors below this.
_SELECTED_MAX: Final = 1024
# The kernel cannot wait for ever: it counts milliseconds in 32 bits.
_WAIT_NS_MAX: Final = 1000 * 1_000_000_000

Received = list[tuple[bytes, Address]]


@final
class Inlet:
    """One socket, and the seats whose datagrams come in by it."""

    def __init__(self, fileno: int) -> None:
        self.fileno: Final = fileno
        self.seats: Final[dict[bytes, Seat]] = {}
        # The only seat, if there is just one.
        self.only: Seat | None = None

    def add(self, seat: Seat) -> None:
        group = group_bytes(seat)
        assert group not in self.seats, "a shared socket serves one member of a group"
        self.seats[group] = seat
        self._see()

    def remove(self, seat: Seat) -> None:
        self.seats.pop(group_bytes(seat), None)
        self._see()

    def _see(self) -> None:
        self.only = next(iter(self.seats.values())) if len(self.seats) == 1 else None

    def read(self, calm: bool) -> list[tuple[Seat, Received]]:
        """The datagrams that wait there, by seat. Those that are for none of the seats go to the
        first, which counts them as refused.
        """
        first = next(iter(self.seats.values()))
        transport = first.session.transport
        parts: dict[Seat, Received] = {}
        for one in transport.receive(_DATAGRAMS_PER_TURN, [self.fileno], calm):
            seat = self.seats.get(one[0][_GROUP_FROM:_GROUP_TO], first)
            part = parts.get(seat)
            if part is None:
                parts[seat] = [one]
            else:
                part.append(one)
        for seat, part in parts.items():
            if seat is not first:
                transport.pass_on(seat.session.transport, part)
        return list(parts.items())


def _seconds(wait_ns: i64) -> float:
    return int(min(max(wait_ns, 0), _WAIT_NS_MAX)) / 1e9


def group_bytes(seat: Seat) -> bytes:
    """The seat's group as it stands in a header."""
    return seat.session.group_id.to_bytes(_GROUP_TO - _GROUP_FROM, "little")


@final
class Inlets:
    """All sockets of a host. Two threads may wait for them: one that leads, and the engine's own,
    each in a set of its own, since of two that wait in one set the kernel wakes only one.
    """

    def __init__(self, leader_waker: Waker, waker: Waker, clock: Clock) -> None:
        """`leader_waker` ends a leader's wait, `waker` that of the engine's thread."""
        self._clock: Final = clock
        self._leaders: Final = select.epoll()
        self._own: Final = select.epoll()
        self._leaders.register(leader_waker.fileno(), select.EPOLLIN)
        self._own.register(waker.fileno(), select.EPOLLIN)
        self._by_fileno: Final[dict[int, Inlet]] = {}
        self._by_seat: Final[dict[Seat, list[Inlet]]] = {}
        # Held here, since they are called again and again.
        self._poll_leaders: Final[Callable[[float, int], list[tuple[int, int]]]] = (
            self._leaders.poll
        )
        # Sockets that have something to report, which is read in the next turn.
        self.reporting: Final[set[int]] = set()
        # Whether `doze` can wait for them.
        self.can_doze: Final = self._leaders.fileno() < _SELECTED_MAX

    def add(self, seat: Seat) -> None:
        """Wait for the sockets of this seat from now on."""
        found: list[Inlet] = []
        for fileno in seat.session.transport.filenos():
            inlet = self._by_fileno.get(fileno)
            if inlet is None:
                inlet = self._by_fileno[fileno] = Inlet(fileno)
                self._leaders.register(fileno, select.EPOLLIN)
                self._own.register(fileno, select.EPOLLIN)
            inlet.add(seat)
            found.append(inlet)
        self._by_seat[seat] = found

    def remove(self, seat: Seat) -> None:
        """Wait for them no longer; to be called before they are closed. A thread that has just
        heard that one of them is ready finds no inlet for it.
        """
        for inlet in self._by_seat.pop(seat, []):
            inlet.remove(seat)
            if not inlet.seats:
                del self._by_fileno[inlet.fileno]
                for waiting in (self._leaders, self._own):
                    with suppress(OSError, ValueError):
                        waiting.unregister(inlet.fileno)

    def at(self, fileno: int) -> Inlet | None:
        """The inlet with this number; None if it is a waker, or gone."""
        return self._by_fileno.get(fileno)

    def look(self) -> list[int]:
        """What can be read now."""
        return self.sleep(0)

    def sleep(self, wait_ns: i64) -> list[int]:
        """A leader sleeps until a socket is ready. Returns those that are."""
        # Without a number Python makes room for a thousand events in each call.
        return self._ready(self._poll_leaders(_seconds(wait_ns), SOCKETS_PER_TURN))

    def doze(self, wait_ns: i64) -> list[int]:
        """The same, but exact to some microseconds, where `sleep` counts whole milliseconds."""
        ready = select.select([self._leaders.fileno()], [], [], int(wait_ns) / 1e9)[0]
        return self.look() if ready else []

    def watch(self, until_ns: i64) -> list[int]:
        """A leader stays awake until a socket is ready, but no longer than until then, and not if
        somebody else wants the processor. Returns the sockets that are ready.
        """
        alone = True
        while True:
            ready = self.look()
            now_ns = self._clock.now_ns()
            if ready or not alone or now_ns >= until_ns:
                return ready
            os.sched_yield()
            alone = self._clock.now_ns() - now_ns < YIELD_NS

    def stand_in(self, wait_ns: i64) -> list[int]:
        """The engine's thread sleeps until a socket is ready. Returns those that are."""
        return self._ready(self._own.poll(_seconds(wait_ns), SOCKETS_PER_TURN))

    def _ready(self, events: list[tuple[int, int]]) -> list[int]:
        found = []
        for fileno, event in events:
            found.append(fileno)
            if event & select.EPOLLERR:
                self.reporting.add(fileno)
        return found

    def take_closed(self) -> list[tuple[Seat, list[Address]]]:
        """Where nobody listens any more, by what the sockets report, for each seat that may have
        sent something there.
        """
        told: list[tuple[Seat, list[Address]]] = []
        while self.reporting:
            inlet = self._by_fileno.get(self.reporting.pop())
            if inlet is None:
                continue
            first = next(iter(inlet.seats.values()))
            closed = first.session.transport.take_closed(inlet.fileno)
            if closed:
                told += [(seat, closed) for seat in inlet.seats.values()]
        return told

    def close(self) -> None:
        """Close both sets, but leave the sockets in them: in a forked child the sets are also the
        parent's, which goes on waiting.
        """
        self._leaders.close()
        self._own.close()
