"""What sites want of the next graph: wishes to come, to be in other groups or to leave in, it out.

Wishes are gathered until the manager acts on them, so that those which come together share a graph
(PROP §5.1). Knows nothing of when that is, nor of how an opening is decided.
"""

from typing import Final, final

from semcast.errors import ConfigError
from semcast.protocol.propagation.config import Seat, check_groups, groups_of
from semcast.protocol.propagation.hands import Sites
from semcast.protocol.propagation.records import Opening


@final
class Wishes:
    """What each site wants to be, until the manager acts on it."""

    def __init__(self) -> None:
        # By site: what it wants to be; None: to leave.
        self._wishes: Final[dict[int, Seat | None]] = {}

    def note(self, site: int, seat: Seat | None) -> None:
        """A site wants to have this seat, or none."""
        self._wishes[site] = seat

    def grant(self, opening: Opening, manager: int, sites: Sites) -> Opening | None:
        """The opening that comes next if all wishes are granted; None: nothing is to change. None
        is left afterwards.
        """
        seats = self._wished(opening)
        if seats == opening.seats:
            return None
        number = opening.number + 1
        try:
            check_groups(groups_of(seats), len(seats))
            graph = sites.graph_for(seats, opening.graph, number)
        except ConfigError:
            # One of the wishes cannot be granted; none of them is, until sites ask again.
            return None
        return Opening(graph, seats, manager, begun=opening.begun)

    def _wished(self, opening: Opening) -> tuple[Seat, ...]:
        seats: list[Seat] = []
        for seat in opening.seats:
            wish = self._wishes.pop(seat.sender, seat)
            if wish is not None:
                seats.append(wish)
        for sender in sorted(self._wishes):
            wish = self._wishes[sender]
            if wish is not None:
                seats.append(wish)
        self._wishes.clear()
        return tuple(seats)
