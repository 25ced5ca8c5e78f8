"""A manager alone: what it tells others when it takes over from one that failed (PROP §5.1)."""

from tests.protocol.propagation.samples import STREAMS, opening

from semcast.ids import Source
from semcast.protocol.propagation.config import FederationConfig, Seat
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.manager import Manager, Sites
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import (
    ACCEPT,
    CLOSE,
    FREEZE,
    PROPOSE,
    Opening,
    read_motion,
    read_opening,
    write_close,
    write_numbers,
    write_opening,
)
from semcast.protocol.propagation.recovering import Report
from semcast.protocol.propagation.rule_names import make_graph
from semcast.wire.record_fields import RecordReader

MS = 1_000_000


class Told(Sites):
    """Notes what a manager tells other sites, all of which are there."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[int, bytes]] = []
        self.now_ns = 0

    def tell(self, site: int, record: bytes, now_ns: int) -> None:  # noqa: ARG002
        self.records.append((site, record))

    def heard_ns(self, seat: Seat) -> int:  # noqa: ARG002
        return self.now_ns

    def graph_for(self, seats: tuple[Seat, ...], old: Graph, number: int) -> Graph:  # noqa: ARG002
        return make_graph("greedy", old.groups, number, None, 2)

    def learn(self, opening: Opening, record: bytes, now_ns: int) -> None:
        pass

    def of(self, kind: int) -> list[tuple[int, bytes]]:
        return [one for one in self.records if one[1][0] == kind]


def taking_over(accepted: Opening | None) -> tuple[Manager, Told]:
    """Site 2 becomes the manager of five. `accepted`: what the last one had begun."""
    told = Told()
    manager = Manager(Source(2, 1), FederationConfig(), STREAMS, Memory(None, STREAMS), told)
    manager.begin(opening(1), 0)
    late = 3_600_000 * MS
    told.now_ns = -1
    manager.on_timer(late)
    told.now_ns = late
    manager.on_poll((2, 2), 1, 2, late)
    parts = [b""]
    if accepted is not None:
        parts += [write_numbers(ACCEPT, 1, 1), write_opening(accepted, STREAMS)]
    for site in (2, 3, 4):
        manager.on_promise((2, 2), parts, site, late)
    assert manager.active
    return manager, told


def test_what_had_been_decided_is_finished_and_not_closed() -> None:
    """Site 2 has the former manager's opening decided again, and hears meanwhile that it was: to
    close the newest graph would leave all sites without one.
    """
    accepted = opening(2)
    manager, told = taking_over(accepted)
    manager.decided(accepted, told.now_ns)
    manager.on_accept(manager.ballots.promised, 2, 3, told.now_ns)
    assert {record for _, record in told.of(CLOSE)} == {write_close(1)}
    assert manager.opening is not None
    assert manager.opening.number == 2


def test_who_stands_still_for_a_former_manager_is_set_free() -> None:
    """Its recovery was given up with that manager, and nobody has failed."""
    manager, told = taking_over(None)
    report = Report(1, dict.fromkeys(opening(1).graph.groups, 0), [], {})
    past = {1: dict(opening(1).graph.groups)}
    manager.on_report((1, 1), 1, report, past, 3, told.now_ns)
    assert manager.recovering
    assert [site for site, _ in told.of(FREEZE)] == [1, 2, 3, 4, 5]
    for site in (1, 2, 3, 4, 5):
        manager.on_report(manager.ballots.promised, 1, report, past, site, told.now_ns)
    motion = RecordReader(told.of(PROPOSE)[0][1])
    _, parts = read_motion(motion)
    proposed = read_opening(parts[0], STREAMS)
    assert proposed.recovers
    assert proposed.gone == ()
    assert len(proposed.seats) == 5
