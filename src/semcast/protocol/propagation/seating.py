"""Who is in which groups, as fields of records: seats, graphs, and the groups of former graphs.

What makes no sense raises RemoteProtocolError, as in `records`, which puts these together; the
groups of a graph may be refused by ConfigError too. Knows nothing of the records they are part of.
"""

from typing import Final

from semcast.errors import RemoteProtocolError
from semcast.protocol.propagation.config import Seat, check_groups, groups_of
from semcast.protocol.propagation.federated import GROUP_NAME_BYTES_MAX, GROUPS_MAX, SITES_MAX
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.recovering import Past
from semcast.wire.record_fields import RecordReader, RecordWriter

NAME_BYTES_MAX: Final = 255


def write_seat(out: RecordWriter, seat: Seat) -> None:
    """A site, and which groups it wants to be a member of."""
    out.number(seat.sender)
    out.number(seat.life)
    out.number(seat.version)
    out.text(seat.name)
    out.count(len(seat.groups))
    for name in seat.groups:
        out.text(name)


def read_seat(body: RecordReader) -> Seat:
    """A site, and which groups it wants to be a member of."""
    sender, life, version = body.site(), body.site(), body.seq()
    name = body.text(NAME_BYTES_MAX)
    groups = tuple(body.text(GROUP_NAME_BYTES_MAX) for _ in range(body.count(4)))
    if len(groups) > GROUPS_MAX or len(set(groups)) != len(groups) or "" in groups:
        raise RemoteProtocolError(f"a seat with {len(groups)} groups, one twice or without a name")
    return Seat(sender, life, name, groups, version)


def write_graph(out: RecordWriter, graph: Graph) -> None:
    """A forest of sites, and the primary destinations; its groups follow from the seats."""
    out.count(len(graph.parents))
    for site, parent in graph.parents.items():
        out.number(site)
        out.number(parent)
    out.count(len(graph.primaries))
    for name, primary in graph.primaries.items():
        out.text(name)
        out.number(primary)


def read_graph(body: RecordReader, number: int, seats: tuple[Seat, ...]) -> Graph:
    """A graph of these seats."""
    if len(seats) > SITES_MAX or len({seat.sender for seat in seats}) != len(seats):
        raise RemoteProtocolError(f"{len(seats)} seats, or one site twice")
    parents: dict[int, int] = {}
    for _ in range(body.count(16)):
        site, parent = body.site(), body.number()
        parents[site] = parent if parent >= 0 else NO_SITE
    primaries: dict[str, int] = {}
    for _ in range(body.count(12)):
        name = body.text(GROUP_NAME_BYTES_MAX)
        primaries[name] = body.site()
    groups = groups_of(seats)
    check_groups(groups, len(seats))
    if not parents.keys() <= {seat.sender for seat in seats}:
        raise RemoteProtocolError("a graph with a site that has no seat")
    if set(primaries) != set(groups):
        raise RemoteProtocolError("a graph whose primaries are of other groups than its seats")
    return Graph(number, groups, parents, primaries)


def write_past(out: RecordWriter, past: Past) -> None:
    """The groups of some graphs."""
    out.count(len(past))
    for number, groups in sorted(past.items()):
        out.number(number)
        out.count(len(groups))
        for name, members in groups.items():
            out.text(name)
            _write_sites(out, members)


def read_past(body: RecordReader) -> Past:
    """The groups of some graphs."""
    past: Past = {}
    for _ in range(body.count(12)):
        number = body.seq()
        past[number] = {
            body.text(GROUP_NAME_BYTES_MAX): _read_sites(body) for _ in range(body.count(8))
        }
    return past


def _write_sites(out: RecordWriter, sites: tuple[int, ...]) -> None:
    out.count(len(sites))
    for site in sites:
        out.number(site)


def _read_sites(body: RecordReader) -> tuple[int, ...]:
    return tuple(body.site() for _ in range(body.count(8)))
