"""When a site may go: what it owes to others and who is silent go in, whether it may leave out.

A site that leaves sends until everybody has its messages, asks for a graph without it, and goes
when all have opened that and it owes nobody anything (PROP §5.1). Knows nothing of frames.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.propagation.affairs import Affairs
from semcast.protocol.propagation.config import FederationConfig, Seat
from semcast.protocol.propagation.neighbour import Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.turns import Turns


@final
class Departure:
    """Whether a site leaves, and whether anybody counts on it until then."""

    def __init__(
        self,
        me: Source,
        federation: FederationConfig,
        own: Own,
        turns: Turns,
        affairs: Affairs,
        neighbours: Neighbours,
    ) -> None:
        self._me: Final = int(me.sender)
        self._federation: Final = federation
        self._own: Final = own
        self._turns: Final = turns
        self._affairs: Final = affairs
        self._neighbours: Final = neighbours
        self.leaving = False

    def begin(self, now_ns: i64) -> None:
        """Send nothing new, and leave as soon as everybody has what was sent."""
        self.leaving = True
        if self._own.held == 0:
            self._leave(now_ns)

    def _leave(self, now_ns: i64) -> None:
        if not self._affairs.leaves:
            self._affairs.leaves = True
            self._affairs.ask(now_ns)

    @property
    def has_left(self) -> bool:
        """Whether nobody counts on this site any more."""
        opening = self._turns.opening
        return opening is None or self._alone or opening.seat(self._me) is None

    def settled(self, silent: list[int]) -> bool:
        """Whether nobody who is not silent lacks anything that this site has for it."""
        if self._alone:
            return True  # nobody else lacks anything
        if self._own.held > 0 or self._affairs.returning.out:
            return False
        for one in self._neighbours.all():
            present = any(seat.sender == one.to.sender for seat in self._seats)
            heard = one.to.sender not in silent
            if one.held > 0 or (present and heard and one.link.busy):
                return False
        return True

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        """Whether the others have a graph without this site, and it owes nobody anything."""
        if self._own.held == 0:
            self._leave(now_ns)
        opening = self._turns.opening
        if opening is None or self._affairs.returning.out:
            return True
        # A site that has left before this one hears nothing any more, and is not in any list.
        silent = [*silent, *self._unheard(now_ns)]
        for one in self._neighbours.all():
            # If that one is about to leave too, it waits to hear that what it passed on is here.
            if one.link.owes and one.to.sender not in silent:
                return False
        gone = opening.seat(self._me) is None and self._affairs.may_go(now_ns)
        # Those who are not heard have left, or will go on without this site.
        stuck = self._own.held == 0 and self._affairs.manager.is_minority(now_ns)
        return self._alone or ((gone or stuck) and self.settled(silent))

    def _unheard(self, now_ns: i64) -> list[int]:
        """The sites that this one dealt with, and has not heard for too long."""
        return [
            int(one.to.sender)
            for one in self._neighbours.all()
            if 0 <= one.link.heard_ns < now_ns - self._federation.silence_ns
        ]

    @property
    def _seats(self) -> tuple[Seat, ...]:
        opening = self._turns.opening
        return () if opening is None else opening.seats

    @property
    def _alone(self) -> bool:
        """Whether there is no other site."""
        return all(seat.sender == self._me for seat in self._seats)
