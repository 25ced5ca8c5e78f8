"""Who has left: openings go in; whom this site need not deal with any more comes out.

A site that has left goes when the others have heard what of its messages has a place. Until it is
silent it may still say so; after that nothing waits for it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.graph import NO_SITE
from semcast.protocol.propagation.neighbour import Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.records import Opening

# Of how many sites that have left it is known how the links to them stand.
LEFT_MAX: Final = 32


@final
class Departed:
    """The sites that have no seat any more."""

    def __init__(self, me: int, silence_ns: i64, own: Own, neighbours: Neighbours) -> None:
        """`silence_ns`: who was not heard for so long is gone."""
        self._me: Final = me
        self._silence_ns: Final[i64] = silence_ns
        self._own: Final = own
        self._neighbours: Final = neighbours
        # The seats of the newest graph; and the sites that have left, in the lives that did.
        self._seated: tuple[Seat, ...] = ()
        self._left: Final[dict[int, int]] = {}

    def note(self, opening: Opening) -> None:
        """Note who has no seat any more."""
        for seat in self._seated:
            if opening.seat(seat.sender) is None:
                self._left[seat.sender] = seat.life
        self._seated = opening.seats

    def _is_gone(self, site: int, now_ns: i64) -> bool:
        neighbour = self._neighbours.find(site)
        heard_ns = -1 if neighbour is None else neighbour.link.heard_ns
        return now_ns - heard_ns > self._silence_ns

    def forget(self, now_ns: i64) -> None:
        """Nothing waits any longer for sites that have left and are not heard any more; and of many
        only the last ones stay neighbours.
        """
        for site, life in list(self._left.items()):
            neighbour = self._neighbours.find(site)
            if neighbour is None or neighbour.to.incarnation > life:
                del self._left[site]
            elif self._is_gone(site, now_ns):
                neighbour.forward.clear()
                if len(self._left) > LEFT_MAX and site not in self._own.targets():
                    self._neighbours.forget(site, life)
                    del self._left[site]

    def send_elsewhere(self, opening: Opening, now_ns: i64) -> None:
        """What this site sends to sites that are gone goes to others."""
        for target in self._own.targets():
            left = target not in (NO_SITE, self._me) and opening.seat(target) is None
            if left and self._is_gone(target, now_ns):
                self._own.give_up_on(target, opening.graph)
