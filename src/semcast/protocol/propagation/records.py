"""What sites tell each other on their links: records, written and read, each checked.

    on TREE     PASSED an entry · CLOSE graph · OPEN an opening
    on SOURCE   SUBMIT attempt, and an entry without a place
    on CONTROL  the rest

Bytes that make no sense raise RemoteProtocolError, and nothing else. Knows nothing of what is done
about a record.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, final

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.entries import ENTRY_BYTES, Entry, Streams, read_group
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.recovering import Past, Report, meant_for
from semcast.protocol.propagation.seating import (
    read_graph,
    read_past,
    read_seat,
    write_graph,
    write_past,
    write_seat,
)
from semcast.wire.record_fields import RecordReader, RecordWriter

OPEN: Final = 1
CLOSE: Final = 2
PASSED: Final = 3
SUBMIT: Final = 4
BOUNCE: Final = 5
SETTLED: Final = 6
REACHED: Final = 7
FLOOR: Final = 8
WANT: Final = 9
REFER: Final = 10
POLL: Final = 11
PROMISE: Final = 12
PROPOSE: Final = 13
ACCEPT: Final = 14
FREEZE: Final = 15
REPORT: Final = 16
FETCH: Final = 17
FETCHED: Final = 18
OPENED: Final = 19
DONE: Final = 20
RESUME: Final = 21
ROLLBACK: Final = 22

# A term of office: a number, and the site that wants to be the manager.
Term: TypeAlias = tuple[int, int]
NO_TERM: Final = (0, 0)


@final
@dataclass(frozen=True)
class Opening:
    """A graph with its sites, as the manager opens it (PROP §5.1); after a failure also with what
    the histories of the survivors have in common from now on (PROP §5.2.1).
    """

    graph: Graph
    # In the order in which they came: the first is the first to be the manager.
    seats: tuple[Seat, ...]
    manager: int
    # Sites, in their lives, that the others go on without. Empty if nobody failed.
    gone: tuple[tuple[int, int], ...] = ()
    # After a failure: entries in the order that all are to have, each with a site that has it; by
    # graph, the groups of these; and by stream the newest number that has a place.
    recovers: bool = False
    history: tuple[tuple[Entry, int], ...] = ()
    past: Past = field(default_factory=dict)
    ordered: tuple[tuple[Source, int], ...] = ()
    # By graph and group: up to which place the survivors together have everything.
    floors: tuple[tuple[int, str, int], ...] = ()
    # Who began the federation: a life and its site. So two that were begun apart are told apart.
    begun: tuple[int, int] = (0, 0)

    @property
    def number(self) -> int:
        """The number of the graph."""
        return self.graph.number

    def seat(self, sender: int) -> Seat | None:
        """The seat of a site."""
        for seat in self.seats:
            if seat.sender == sender:
                return seat
        return None

    def missing_at(self, site: int, report: Report) -> list[tuple[Entry, int]]:
        """What a survivor has to install before it goes on with this, and who has it."""
        providers = {entry.at: provider for entry, provider in self.history}
        meant = meant_for(site, [entry for entry, _ in self.history], self.past)
        return [(entry, providers[entry.at]) for entry in report.lacked(meant)]


def with_life(opening: Opening, site: int, life: int) -> Opening:
    """The same opening, in which a site is in another life."""
    seats = tuple(
        Seat(seat.sender, life, seat.name, seat.groups, seat.version)
        if seat.sender == site and seat.life < life
        else seat
        for seat in opening.seats
    )
    return replace(opening, seats=seats)


# -- openings --------------------------------------------------------------------------------------


def write_opening(opening: Opening, streams: Streams) -> bytes:
    """An opening as a record."""
    out = RecordWriter(OPEN)
    out.number(opening.number)
    out.number(opening.manager)
    for part in opening.begun:
        out.number(part)
    out.count(len(opening.seats))
    for seat in opening.seats:
        write_seat(out, seat)
    write_graph(out, opening.graph)
    out.count(len(opening.gone))
    for site, life in opening.gone:
        out.number(site)
        out.number(life)
    out.number(1 if opening.recovers else 0)
    write_past(out, opening.past)
    out.count(len(opening.history))
    for entry, provider in opening.history:
        streams.write_id(out, entry)
        out.number(provider)
    _write_newest(out, opening.ordered)
    out.count(len(opening.floors))
    for graph, name, place in opening.floors:
        out.number(graph)
        out.text(name)
        out.number(place)
    return out.take()


def read_opening(record: bytes, streams: Streams) -> Opening:
    """An opening from a record."""
    body = RecordReader(record)
    number = body.seq()
    manager = body.site()
    begun = (body.site(), body.site())
    seats = tuple(read_seat(body) for _ in range(body.count(24)))
    try:
        graph = read_graph(body, number, seats)
    except ConfigError as error:
        raise RemoteProtocolError(f"a graph that makes no sense: {error}") from error
    gone = tuple((body.site(), body.site()) for _ in range(body.count(16)))
    recovers = body.number() == 1
    past = read_past(body)
    history = tuple((streams.read_id(body), body.site()) for _ in range(body.count(ENTRY_BYTES)))
    ordered = tuple(_read_newest(body, streams))
    floors = tuple(
        (body.seq_or_none(), read_group(body), body.seq_or_none()) for _ in range(body.count(21))
    )
    body.end()
    return Opening(graph, seats, manager, gone, recovers, history, past, ordered, floors, begun)


def _write_newest(out: RecordWriter, newest: Collection[tuple[Source, int]]) -> None:
    """By stream, the newest number that has a place."""
    out.count(len(newest))
    for stream, seq in newest:
        out.source(stream)
        out.text(stream.group)
        out.number(seq)


def _read_newest(body: RecordReader, streams: Streams) -> list[tuple[Source, int]]:
    found: list[tuple[Source, int]] = []
    for _ in range(body.count(29)):
        site, life = body.site(), body.site()
        stream = streams.stream(site, life, read_group(body))
        found.append((stream, body.seq()))
    return found


def check_order(record: bytes, streams: Streams) -> None:
    """Raise RemoteProtocolError unless this is an Open or a Close."""
    if record[0] == OPEN:
        read_opening(record, streams)
        return
    body = RecordReader(record)
    body.seq()
    body.end()


# -- messages --------------------------------------------------------------------------------------


def write_passed(entry: Entry, streams: Streams) -> bytes:
    """An entry on its way down the tree."""
    out = RecordWriter(PASSED)
    streams.write(out, entry)
    return out.take()


def write_submit(entry: Entry, graph: int, attempt: int, streams: Streams) -> bytes:
    """A message on its way to the primary destination, as the source knows it in this graph."""
    out = RecordWriter(SUBMIT)
    out.number(attempt)
    streams.write(out, entry.placed(graph, 0))
    return out.take()


def write_close(graph: int) -> bytes:
    """Nothing more comes in this graph."""
    out = RecordWriter(CLOSE)
    out.number(graph)
    return out.take()


def write_fetched(entry: Entry, streams: Streams) -> bytes:
    """An entry that was asked for."""
    out = RecordWriter(FETCHED)
    streams.write(out, entry)
    return out.take()


def write_numbers(kind: int, *numbers: int) -> bytes:
    """A record of a few numbers."""
    out = RecordWriter(kind)
    for number in numbers:
        out.number(number)
    return out.take()


def write_places(kind: int, graph: int, places: list[tuple[str, int]]) -> bytes:
    """By group, a place in a graph."""
    out = RecordWriter(kind)
    out.number(graph)
    out.count(len(places))
    for name, place in places:
        out.text(name)
        out.number(place)
    return out.take()


def read_places(body: RecordReader) -> tuple[int, list[tuple[str, int]]]:
    """The graph, and a place by group."""
    graph = body.seq_or_none()
    places = [(read_group(body), body.seq_or_none()) for _ in range(body.count(13))]
    body.end()
    return graph, places


def write_entry_ids(kind: int, entries: list[Entry], streams: Streams) -> bytes:
    """Entries without their messages."""
    out = RecordWriter(kind)
    _write_ids(out, entries, streams)
    return out.take()


def _write_ids(out: RecordWriter, entries: list[Entry], streams: Streams) -> None:
    out.count(len(entries))
    for entry in entries:
        streams.write_id(out, entry)


def read_entry_ids(body: RecordReader, streams: Streams) -> list[Entry]:
    """Entries without their messages."""
    return [streams.read_id(body) for _ in range(body.count(ENTRY_BYTES))]


# -- managers --------------------------------------------------------------------------------------


def write_want(
    seat: Seat, leaves: bool, former: int, entries: list[Entry], streams: Streams
) -> bytes:
    """What a site wants to be; `former`: its last life, if the others went on without that, and
    the last entries that it installed in it.
    """
    out = RecordWriter(WANT)
    write_seat(out, seat)
    out.number(1 if leaves else 0)
    out.number(former)
    _write_ids(out, entries, streams)
    return out.take()


def read_want(body: RecordReader, streams: Streams) -> tuple[Seat, bool, int, list[Entry]]:
    """What a site wants to be."""
    seat = read_seat(body)
    leaves = body.number() == 1
    former = body.site()
    entries = read_entry_ids(body, streams)
    body.end()
    return seat, leaves, former, entries


def write_report(term: Term, attempt: int, report: Report, past: Past, streams: Streams) -> bytes:
    """What a site has when it stops for a recovery, and the groups of the graphs it knows."""
    out = RecordWriter(REPORT)
    out.number(term[0])
    out.number(term[1])
    out.number(attempt)
    write_past(out, past)
    out.number(report.graph)
    out.count(len(report.installed))
    for name, place in report.installed.items():
        out.text(name)
        out.number(place)
    _write_ids(out, report.entries, streams)
    _write_newest(out, report.last.items())
    return out.take()


def read_report(body: RecordReader, streams: Streams) -> tuple[Term, int, Report, Past]:
    """What a site has when it stops for a recovery."""
    term = (body.seq_or_none(), body.site())
    attempt = body.seq_or_none()
    past = read_past(body)
    graph = body.seq_or_none()
    installed = {read_group(body): body.seq_or_none() for _ in range(body.count(13))}
    entries = read_entry_ids(body, streams)
    last = dict(_read_newest(body, streams))
    body.end()
    return term, attempt, Report(graph, installed, entries, last), past


def write_motion(kind: int, term: Term, parts: list[bytes]) -> bytes:
    """A term, and records: of a poll's answer, or of a proposal."""
    out = RecordWriter(kind)
    out.number(term[0])
    out.number(term[1])
    out.count(len(parts))
    for part in parts:
        out.data(part)
    return out.take()


def read_motion(body: RecordReader) -> tuple[Term, list[bytes]]:
    """A term, and records."""
    term = (body.seq_or_none(), body.site())
    parts = [body.data() for _ in range(body.count(4))]
    body.end()
    return term, parts
