"""Genuine records of every kind, for tests that read them back or damage them."""

from semcast.ids import Source
from semcast.protocol.propagation.config import Seat, groups_of
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.records import (
    ACCEPT,
    BOUNCE,
    DONE,
    FETCH,
    FLOOR,
    FREEZE,
    OPENED,
    POLL,
    PROMISE,
    PROPOSE,
    REACHED,
    REFER,
    ROLLBACK,
    SETTLED,
    Opening,
    write_close,
    write_entry_ids,
    write_fetched,
    write_motion,
    write_numbers,
    write_opening,
    write_passed,
    write_places,
    write_report,
    write_submit,
    write_want,
)
from semcast.protocol.propagation.recovering import Report
from semcast.protocol.propagation.rule_names import make_graph
from semcast.wire.message import Message
from semcast.wire.record_fields import RecordWriter

# Figure 6 of PROP: a is 1.
SEATS = (
    Seat(1, 1, "a", ("alpha", "gamma")),
    Seat(2, 1, "b", ("alpha", "gamma")),
    Seat(3, 1, "c", ("alpha", "beta")),
    Seat(4, 1, "d", ("alpha", "beta")),
    Seat(5, 1, "e", ("alpha", "beta")),
)
GROUPS = groups_of(SEATS)
STREAMS = Streams()


def entry(group: str, place: int, graph: int = 1, seq: int = 0, site: int = 1) -> Entry:
    """A message of a site at its place; its number is its place unless it is said."""
    stream = STREAMS.stream(site, 1, group)
    number = seq or place
    return Entry(
        graph, group, place, stream, number, Message(stream, number, b"k1", 1, by_key=True)
    )


def opening(number: int = 2, recovers: bool = False) -> Opening:
    """The graph of Figure 6, or what follows after c failed."""
    if not recovers:
        return Opening(make_graph("greedy", GROUPS, number, None, 1), SEATS, 1)
    seats = tuple(seat for seat in SEATS if seat.name != "c")
    graph = make_graph("greedy", groups_of(seats), number, None, 1)
    history = ((entry("alpha", 3), 1), (entry("beta", 1).purged(2), 4))
    ordered = ((STREAMS.stream(1, 1, "alpha"), 3),)
    floors = ((1, "alpha", 3),)
    return Opening(graph, seats, 1, ((3, 1),), True, history, {1: GROUPS}, ordered, floors)


def bounce() -> bytes:
    """A source is told where to begin anew."""
    out = RecordWriter(BOUNCE)
    out.source(Source(1, 1))
    out.text("alpha")
    for number in (1, 1, 2, 4):
        out.number(number)
    return out.take()


def settled() -> bytes:
    """A source is told what became of its messages."""
    out = RecordWriter(SETTLED)
    out.number(1)
    out.count(1)
    out.number(1)
    out.text("alpha")
    out.number(1)
    out.number(1)
    return out.take()


def rollback() -> bytes:
    """A site is told what to undo and what to do again."""
    out = RecordWriter(ROLLBACK)
    out.number(1)
    out.number(2)
    out.count(1)
    STREAMS.write_id(out, entry("beta", 2))
    out.count(1)
    STREAMS.write_id(out, entry("alpha", 3))
    out.number(4)
    return out.take()


def refer() -> bytes:
    """A newcomer is told who the manager is."""
    out = RecordWriter(REFER)
    out.source(Source(2, 1))
    return out.take()


def every_record() -> list[bytes]:
    """At least one of every kind."""
    entries = [entry("alpha", 1), entry("alpha", 2), entry("beta", 1)]
    report = Report(1, {"alpha": 2, "beta": 1}, entries, {STREAMS.stream(1, 1, "alpha"): 2})
    opened, recovered = write_opening(opening(), STREAMS), write_opening(opening(2, True), STREAMS)
    return [
        opened,
        recovered,
        write_close(1),
        write_passed(entry("alpha", 1), STREAMS),
        write_passed(entry("alpha", 2).purged(3), STREAMS),
        write_submit(entry("alpha", 1), 1, 1, STREAMS),
        bounce(),
        settled(),
        write_places(REACHED, 1, [("alpha", 1), ("beta", 0)]),
        write_places(FLOOR, 1, [("alpha", 1)]),
        write_want(Seat(1, 1, "a", ("beta",), 2), False, 0, [], STREAMS),
        write_want(Seat(3, 2, "c", ("beta",)), True, 1, entries, STREAMS),
        refer(),
        write_numbers(POLL, 2, 2, 1),
        write_motion(PROMISE, (2, 2), [opened, write_numbers(ACCEPT, 1, 1), recovered]),
        write_motion(PROPOSE, (2, 1), [opened]),
        write_numbers(ACCEPT, 1, 1, 2),
        write_numbers(FREEZE, 1, 1, 1),
        write_report((1, 1), 1, report, {1: GROUPS}, STREAMS),
        write_entry_ids(FETCH, entries, STREAMS),
        write_fetched(entry("alpha", 3), STREAMS),
        write_numbers(OPENED, 1),
        write_numbers(DONE, 1),
        rollback(),
    ]
