"""Records of a federation: what is written is read, and bytes that make no sense do no harm."""

import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.company import MS, Company
from tests.protocol.propagation.samples import (
    GROUPS,
    SEATS,
    STREAMS,
    entry,
    every_record,
    opening,
)

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation import records
from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import (
    CLOSE,
    FETCH,
    OPEN,
    PASSED,
    POLL,
    PROMISE,
    REACHED,
    REPORT,
    RESUME,
    SUBMIT,
    WANT,
    Opening,
    read_entry_ids,
    read_motion,
    read_opening,
    read_places,
    read_report,
    read_want,
    write_motion,
    write_numbers,
    write_opening,
    write_passed,
    write_places,
    write_report,
    write_want,
)
from semcast.protocol.propagation.recovering import Report
from semcast.protocol.propagation.returning import Returning
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.wire.encode import FrameWriter
from semcast.wire.families.propagation import Link, Out, Piece
from semcast.wire.frames import ControlFrame
from semcast.wire.record_fields import RecordReader, RecordWriter

_BYTES_MAX = 1 << 20


def _returning(streams: Streams) -> Returning:
    me, memory = Source(1, 1), Memory(None, streams)
    return Returning(me, streams, SiteDelivery(MemberConfig(), me, memory, None), memory, None)


def _read_all(record: bytes) -> None:
    """Every reader that there is, whatever the record says it is."""
    readers: list[Callable[[Streams, RecordReader], object]] = [
        lambda streams, _: read_opening(record, streams),
        lambda _, body: read_places(body),
        lambda _, body: read_motion(body),
        lambda streams, body: read_want(body, streams),
        lambda streams, body: read_report(body, streams),
        lambda streams, body: read_entry_ids(body, streams),
        lambda streams, body: streams.read(body, _BYTES_MAX),
        lambda streams, body: _returning(streams).told(body),
    ]
    for reader in readers:
        with suppress(RemoteProtocolError):
            reader(Streams(), RecordReader(record))


def _damaged(rng: random.Random, record: bytes) -> bytes:
    """A record with some bytes changed, cut, doubled or put in."""
    data = bytearray(record)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 8] = rng.choice([SEQ_MAX, -1, 0, 1, 1 << 32]).to_bytes(
                    8, "little", signed=True
                )
            case 2:
                del data[at:]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                data[at:at] = data[at : at + rng.randrange(1, 60)]
    return bytes(data) or b"\x01"


# What is written is read


def test_there_is_a_sample_of_every_kind_of_record() -> None:
    kinds = {
        value
        for name, value in vars(records).items()
        if isinstance(value, int) and name.isupper() and 0 < value < 64 and name != "ENTRY_BYTES"
    }
    assert {record[0] for record in every_record()} == kinds - {RESUME}


@pytest.mark.parametrize("recovers", [False, True])
def test_an_opening_comes_back_as_it_was_written(recovers: bool) -> None:
    one = opening(7, recovers)
    back = read_opening(write_opening(one, STREAMS), STREAMS)
    assert back.graph.parents == one.graph.parents
    assert back.graph.primaries == one.graph.primaries
    assert back.graph.groups == one.graph.groups
    assert (back.number, back.manager, back.seats, back.gone) == (7, 1, one.seats, one.gone)
    assert (back.recovers, back.past, back.ordered) == (recovers, one.past, one.ordered)
    assert back.floors == one.floors
    assert [(found.at, found.id, found.cover, site) for found, site in back.history] == [
        (found.at, found.id, found.cover, site) for found, site in one.history
    ]


def test_a_report_a_wish_and_places_come_back_as_they_were_written() -> None:
    entries = [entry("alpha", 1), entry("beta", 1)]
    report = Report(3, {"alpha": 9}, entries, {STREAMS.stream(1, 1, "alpha"): 4})
    body = RecordReader(write_report((2, 5), 6, report, {3: GROUPS}, STREAMS))
    term, attempt, back, past = read_report(body, STREAMS)
    assert (term, attempt, past) == ((2, 5), 6, {3: GROUPS})
    assert (back.graph, back.installed, back.last) == (3, report.installed, report.last)
    assert [one.at for one in back.entries] == [one.at for one in entries]
    seat = Seat(3, 2, "c", ("beta",), 4)
    body = RecordReader(write_want(seat, True, 1, entries, STREAMS))
    wanted, leaves, former, installed = read_want(body, STREAMS)
    assert (wanted, leaves, former, len(installed)) == (seat, True, 1, 2)
    places = [("alpha", 3), ("beta", 0)]
    assert read_places(RecordReader(write_places(REACHED, 5, places))) == (5, places)
    parts = [b"", b"one", b"\x00" * 9]
    assert read_motion(RecordReader(write_motion(PROMISE, (1, 2), parts))) == ((1, 2), parts)


def test_an_entry_has_its_message_or_what_replaced_it() -> None:
    """What a purged message did to the numbers is told (PROP Appendix I numbers them)."""
    for one in (entry("alpha", 4), entry("alpha", 4).purged(9)):
        back = STREAMS.read(RecordReader(write_passed(one, STREAMS)), _BYTES_MAX)
        assert (back.at, back.id, back.cover) == (one.at, one.id, one.cover)
        assert (back.message is None) == (one.message is None)
    out = RecordWriter(PASSED)
    STREAMS.write_id(out, entry("alpha", 4))
    out.data(b"")
    with pytest.raises(RemoteProtocolError, match="either its message or its cover"):
        STREAMS.read(RecordReader(out.take()), _BYTES_MAX)


# What makes no sense


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_are_read_or_refused(record: bytes) -> None:
    _read_all(record)


@pytest.mark.parametrize("record", every_record(), ids=lambda record: f"kind {record[0]}")
def test_damaged_records_are_read_or_refused(record: bytes) -> None:
    rng = random.Random(f"damage/{record.hex()}")
    for _ in range(60):
        _read_all(_damaged(rng, record))
    for size in range(1, len(record), 1 + len(record) // 60):
        _read_all(record[:size])


@pytest.mark.parametrize("kind", [OPEN, WANT, REPORT, FETCH, REACHED, PROMISE])
def test_a_count_that_lies_makes_no_reader_take_memory(kind: int) -> None:
    """Every place where a count may stand says a million, and nothing comes of it."""
    for filling in range(0, 120, 4):
        record = bytes([kind]) + bytes(filling) + (1 << 20).to_bytes(4, "little") + bytes(64)
        tracemalloc.start()
        _read_all(record)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


# At a site


def _frames(*control: ControlFrame) -> bytes:
    writer = FrameWriter(Source(1, 1), 60_000)
    for one in control:
        assert writer.add(one)
    return writer.take()


class _Hostile:
    """A neighbour that sends what it likes, on lanes that are in order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/hostile")
        self.company = Company({"alpha": "abcde", "beta": "cde", "gamma": "ab"}, seed=seed)
        self.company.run(20)
        self.site = self.company.sites["c"]
        self.next = {site: [1, 1, 1] for site in (1, 2, 4, 7, 8)}

    def give(self, site: int, lane: int, record: bytes) -> None:
        """A record in one piece; whatever is wrong with it, only `receive` may say so."""
        company = self.company
        company.now_ns += MS // 10
        number = self.next[site][lane]
        self.next[site][lane] += 1
        piece = Piece(1, lane, number, True, True, record)
        with suppress(RemoteProtocolError):
            self.site.receive(_frames(piece), Source(site, 9), company.now_ns)
        self.site.datagrams(company.now_ns)
        if self.site.next_deadline_ns() <= company.now_ns:
            self.site.on_timer(company.now_ns)
        self.site.take(100, company.now_ns)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_records_of_a_neighbour_do_a_site_no_harm(seed: int) -> None:
    hostile = _Hostile(seed)
    genuine = every_record()
    for _ in range(150):
        record = hostile.rng.choice(genuine)
        if hostile.rng.random() < 0.9:
            record = _damaged(hostile.rng, record)
        site = hostile.rng.choice(sorted(hostile.next))
        lane = {PASSED: 2, SUBMIT: 1}.get(record[0], 0)
        # Damaged orders on TREE: `test_an_order_that_makes_no_sense_is_refused_as_it_comes`.
        if hostile.rng.random() < 0.1 and record[0] not in (OPEN, CLOSE):
            lane = hostile.rng.randrange(3)
        hostile.give(site, lane, record)


@pytest.mark.parametrize("seed", range(4))
def test_random_frames_do_a_site_no_harm(seed: int) -> None:
    rng = random.Random(f"{seed}/frames")
    company = Company({"alpha": "abc", "beta": "bc"}, seed=seed)
    company.run(20)
    site = company.sites["b"]
    numbers = [0, 1, 2, 255, 256, 257, 1 << 40, SEQ_MAX]
    for _ in range(300):
        company.now_ns += MS // 10
        match rng.randrange(4):
            case 0:
                frames = rng.randbytes(rng.randrange(60))
            case 1:
                lanes = [
                    (rng.choice(numbers[1:]), rng.choice(numbers), rng.choice(numbers))
                    for _ in range(3)
                ]
                rows = [(rng.randrange(3), 1, rng.choice(numbers[1:])) for _ in range(3)]
                frames = _frames(Link(1, lanes, rows))
            case 2:
                number = rng.choice(numbers[1:])
                flags = rng.random() < 0.5, rng.random() < 0.5
                lane = rng.randrange(3)
                frames = _frames(Piece(1, lane, number, *flags, rng.randbytes(20)))
            case _:
                frames = _frames(Out(rng.choice(numbers), rng.choice(numbers[1:])))
        with suppress(RemoteProtocolError):
            site.receive(frames, Source(rng.choice([1, 3, 9]), 1), company.now_ns)
        site.datagrams(company.now_ns)


@pytest.mark.parametrize("record", [bytes([OPEN, 1]), bytes([CLOSE, 1])], ids=["open", "close"])
def test_an_order_that_makes_no_sense_is_refused_as_it_comes(record: bytes) -> None:
    """Else it stays at the head of its line, and every later call of the site raises."""
    hostile = _Hostile(0)
    hostile.give(1, 2, record)


def test_a_graph_with_a_site_that_has_no_seat_is_refused() -> None:
    hostile = _Hostile(0)
    graph = opening(2).graph
    parents = {**graph.parents, 77: 3}
    odd = Graph(2, dict(graph.groups), parents, dict(graph.primaries))
    hostile.give(1, 0, write_opening(Opening(odd, SEATS, 1, recovers=True), STREAMS))


def test_a_seat_that_names_a_group_twice_is_refused() -> None:
    record = write_want(Seat(7, 9, "z", ("alpha", "alpha")), False, 0, [], STREAMS)
    with pytest.raises(RemoteProtocolError):
        read_want(RecordReader(record), STREAMS)


def test_orders_that_are_never_due_do_not_fill_the_memory() -> None:
    hostile = _Hostile(0)
    record = write_opening(opening(50), STREAMS)
    for _ in range(1_000):
        hostile.give(1, 2, record)
    assert hostile.site.stats()["retained_held"] < 600


def test_streams_that_do_not_exist_are_not_remembered() -> None:
    streams = Streams()
    tracemalloc.start()
    for number in range(20_000):
        read_entry_ids(_one_id(number + 1), streams)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1 << 20


def _one_id(life: int) -> RecordReader:
    out = RecordWriter(FETCH)
    out.count(1)
    out.number(1)
    out.text("alpha")
    for number in (1, 1, life, 1, 0):
        out.number(number)
    return RecordReader(out.take())


def test_a_term_at_the_end_of_its_range_does_not_stop_a_site() -> None:
    hostile = _Hostile(0)
    hostile.give(2, 0, write_numbers(POLL, SEQ_MAX, 2, 1))
    for letter in "abde":
        hostile.company.crash(letter)
    hostile.company.run(5_000)
