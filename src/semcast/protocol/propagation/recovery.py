"""One recovery: who failed and what the survivors report goes in, the opening that follows out.

The survivors of a failure go on from one history, which is made of what all of them have (PROP
§5.2.1; `recovering`). Knows nothing of when a recovery begins, nor of how its opening is decided.
"""

from typing import Final, final

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.hands import Sites
from semcast.protocol.propagation.records import Opening
from semcast.protocol.propagation.recovering import (
    Past,
    Report,
    installed_floors,
    merge,
    newest,
)


@final
class Recovery:
    """A recovery that runs: who failed, and what the others have reported."""

    def __init__(self, attempt: int, failed: set[int]) -> None:
        self.attempt: Final = attempt
        # Of those who have a seat. Nobody may have failed but sites that were about to leave.
        self.failed: Final = failed
        self._reports: Final[dict[int, Report]] = {}
        self._past: Final[Past] = {}

    def reported(self, site: int, report: Report, past: Past) -> None:
        """A survivor says what it has."""
        self._reports[site] = report
        self._past.update(past)

    def is_complete(self, opening: Opening) -> bool:
        """Whether all survivors have reported."""
        survivors = {seat.sender for seat in opening.seats} - self.failed
        return survivors <= self._reports.keys()

    def outcome(self, opening: Opening, leavers: list[Seat], manager: int, sites: Sites) -> Opening:
        """The opening that the survivors go on with."""
        number = opening.number + 1
        seats = tuple(seat for seat in opening.seats if seat.sender not in self.failed)
        gone = tuple(
            (seat.sender, seat.life) for seat in opening.seats if seat.sender in self.failed
        )
        # Nobody has asked those who were about to leave, or waits for them any more.
        gone += tuple((seat.sender, seat.life) for seat in leavers)
        reports = self._reports
        floors = installed_floors(reports, self._past)
        return Opening(
            graph=sites.graph_for(seats, opening.graph, number),
            seats=seats,
            manager=manager,
            gone=gone,
            recovers=True,
            history=tuple(merge(reports, self._past)),
            past=dict(self._past),
            ordered=tuple(newest(reports).items()),
            floors=tuple((graph, group, place) for (graph, group), place in sorted(floors.items())),
            begun=opening.begun,
        )
