"""What the tests of the wire are made of: strategies for messages and frames, and small tools.

Values lean towards the edges of their ranges, where a codec breaks. Used by the tests beside it;
holds none itself.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX, Source
from semcast.wire.decode import Decoded, Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.agreement import Ballot, Join, Lack, PartOf, Wishes
from semcast.wire.families.epidemic import ROUND_MAX, Heard, Rumour, Stamp
from semcast.wire.families.lives import Lives
from semcast.wire.families.measures import Echo, MeasureFrame, Times, Tree
from semcast.wire.families.overlay import (
    Disconnect,
    Enter,
    Entry,
    Neighbor,
    OverlayFrame,
    Pulse,
    Shuffle,
)
from semcast.wire.families.pasts import Past
from semcast.wire.families.probes import Ask, Ping, ProbeFrame, Vouch
from semcast.wire.families.propagation import LANES, ROWS_MAX, Link, Out, Piece
from semcast.wire.families.pull import IHave, PullFrame, Summary, Want
from semcast.wire.families.readers import Begin, Have, Subscribe
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.rounds import Round
from semcast.wire.families.state import LAST, LIST, LISTED, PIECE, SNAPSHOT, Chunk, Need, Tell
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message

Item: TypeAlias = Message | ControlFrame

# Large things take their time to draw, and more so on a busy machine: slow is not wrong.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GOLDEN = Path(__file__).parent / "golden"
# The sender of every datagram here, and others whose messages it relays.
SENDER = Source(0xA11CE, 3)
OTHERS = (Source(0xB0B, 1), Source(0xB0B, 2), Source(0, 0), Source(ID_MAX, ID_MAX))
SOURCES = (SENDER, *OTHERS)
# The largest room that any limits allow, and the one of the default limits.
ROOM_MAX = 65_435
ROOM = 1_300

# Everything in front of a body: frame, source and run, then a record with all that it may have.
_RUN_BYTES = 4 + 16 + 16 + 12
_FILL = bytes(range(256)) * 257

SEQS = st.integers(1, SEQ_MAX) | st.integers(1, 200) | st.integers(SEQ_MAX - 200, SEQ_MAX)
COUNTS = SEQS | st.just(0)
# Of 32 bits, without a sign.
NUMBERS = st.integers(0, 0xFFFF_FFFF) | st.integers(0, 9)
RANKS = st.integers(-SEQ_MAX, SEQ_MAX) | st.sampled_from([0, -1, -SEQ_MAX, SEQ_MAX])
BITMAPS = (
    st.just(0)
    | st.integers(0, (1 << 1024) - 1)
    | st.integers(0, 1024).map(lambda bits: (1 << bits) - 1)
    | st.integers(60, 65).map(lambda bit: 1 << bit)
)
SOURCES_ANY = st.sampled_from(SOURCES) | st.builds(
    Source, st.integers(0, ID_MAX), st.integers(0, ID_MAX)
)
_SEQ_STEPS = st.sampled_from([1, 1, 1, 0, 2, -1, 65_535, 65_536, -65_536, 1 << 40])
_NS_STEPS = st.sampled_from([1_000, 0, -1, (1 << 32) - 1, 1 << 32, -(1 << 32), 1 << 50])


def body_of(size: int, salt: int = 0) -> bytes:
    """Bytes that differ from place to place, so that a shifted slice is seen."""
    start = salt % 251
    return _FILL[start : start + size]


def words_of(bitmap: int) -> int:
    """How many 64-bit words hold a bitmap."""
    return -(-bitmap.bit_length() // 64)


@st.composite
def messages(
    draw: st.DrawFn,
    source: st.SearchStrategy[Source] = SOURCES_ANY,
    seq: st.SearchStrategy[int] = SEQS,
    sent_ns: st.SearchStrategy[int] = COUNTS,
    room: int = ROOM,
) -> Message:
    """Any message that fits `room` bytes of frames, even when it is relayed."""
    bitmap, ranked = draw(BITMAPS), draw(st.booleans())
    left = room - _RUN_BYTES - 8 * words_of(bitmap) - (8 if ranked else 0)
    key_len = draw(st.integers(0, 255) | st.sampled_from([0, 1, 8, 255]))
    payload_max = left - key_len
    small = st.integers(0, min(100, payload_max))
    payload_len = draw(small | st.integers(0, payload_max) | st.just(payload_max))
    number = draw(seq)
    rank = draw(RANKS) if ranked else 0
    body = body_of(key_len + payload_len, number)
    several = not ranked and key_len >= 4 and draw(st.booleans())
    if several:
        body = cut_keys(body[:key_len]) + body[key_len:]
    by_key = not ranked and key_len > 0 and bitmap == 0 and draw(st.booleans())
    return Message(
        draw(source), number, body, key_len, bitmap, rank, ranked, draw(sent_ns), several, by_key
    )


def cut_keys(key: bytes) -> bytes:
    """Two keys in the place of one, as a message about several has them; 4 bytes at least."""
    first = len(key) // 2 - 1
    rest = len(key) - first - 2
    return bytes([first]) + key[:first] + bytes([rest]) + key[:rest]


@st.composite
def streams(draw: st.DrawFn, room: int = ROOM) -> list[Message]:
    """Messages as a sender or a relay has them: mostly one after the other, with every gap."""
    seq, sent_ns = draw(SEQS), draw(COUNTS)
    source = draw(st.sampled_from(SOURCES))
    found = []
    for _ in range(draw(st.integers(0, 12))):
        seq = min(max(seq + draw(_SEQ_STEPS), 1), SEQ_MAX)
        sent_ns = min(max(sent_ns + draw(_NS_STEPS), 0), SEQ_MAX)
        if draw(st.integers(0, 3)) == 0:
            source = draw(st.sampled_from(SOURCES))
        found.append(draw(messages(st.just(source), st.just(seq), st.just(sent_ns), room)))
    return found


@st.composite
def fragments(draw: st.DrawFn, room: int = ROOM) -> Fragment:
    count = draw(st.integers(1, 0xFFFF) | st.sampled_from([1, 2, 0xFFFF]))
    index = draw(st.integers(0, count - 1) | st.just(count - 1))
    size = draw(st.integers(1, room - 32) | st.just(room - 32))
    seq = draw(SEQS)
    return Fragment(draw(SOURCES_ANY), seq, index, count, body_of(size, seq))


def rows_max(room: int, head: int, row: int) -> int:
    """How many rows fit one frame, but no more than is quick to draw."""
    return min((room - 4 - head) // row, 20)


def naks(room: int = ROOM) -> st.SearchStrategy[Nak]:
    ranges = st.tuples(SEQS, SEQS).map(lambda ends: (min(ends), max(ends)))
    rows = st.lists(ranges, max_size=rows_max(room, 24, 16))
    return st.builds(Nak, SOURCES_ANY, st.integers(0, ID_MAX), st.booleans(), rows)


def covereds(room: int = ROOM) -> st.SearchStrategy[Covered]:
    cover = st.tuples(SEQS, SOURCES_ANY, SEQS)
    return st.builds(Covered, SOURCES_ANY, st.lists(cover, max_size=rows_max(room, 16, 32)))


def vectors(room: int = ROOM) -> st.SearchStrategy[Vector]:
    rows = rows_max(room - 4 * 16, 24, 40)
    voters_max = room - 28 - 4 * 16 - 40 * rows
    voters = (
        st.integers(0, voters_max * 8).map(lambda bits: (1 << bits) - 1)
        | st.integers(0, 1 << 70)
        | st.just(1 << (voters_max * 8 - 1))
    )
    row = st.builds(Progress, SOURCES_ANY, COUNTS, COUNTS, COUNTS)
    some = COUNTS, voters, st.lists(row, max_size=rows), st.lists(SOURCES_ANY, max_size=4)
    flags = st.booleans(), st.booleans(), st.booleans()
    stability = st.builds(Vector, COUNTS, NUMBERS, st.just(False), *some, *flags)
    return stability | st.builds(Vector, COUNTS, NUMBERS, st.just(True), *some)


def rounds(room: int = ROOM) -> st.SearchStrategy[Round]:
    rows = st.lists(st.tuples(SOURCES_ANY, COUNTS, COUNTS), max_size=rows_max(room, 48, 32))
    return st.builds(
        Round,
        COUNTS,
        NUMBERS,
        st.booleans(),
        st.integers(1, 4),
        st.integers(0, 3),
        st.integers(0, 0xFFFF),
        st.integers(-1, ID_MAX) | st.just(-1),
        COUNTS,
        COUNTS,
        NUMBERS,
        NUMBERS,
        rows,
        st.booleans(),
    )


@st.composite
def trees(draw: st.DrawFn, room: int = ROOM) -> Tree:
    """Any tree and ring over a few members, or over as many as there may be."""
    most = min(256, (room - 4 - 18) // 2)
    members = draw(st.integers(1, 9) | st.sampled_from([1, 2, most]))
    stream = draw(st.randoms(use_true_random=False))
    # Each hangs on somebody before it, in an order of its own.
    order = stream.sample(range(members), members)
    parents = bytearray(members)
    parents[order[0]] = order[0]
    for at in range(1, members):
        parents[order[at]] = order[stream.randrange(at)]
    ring = [order[0], *stream.sample(order[1:], members - 1)]
    return Tree(draw(COUNTS), draw(SEQS), stream.randrange(members), bytes(parents), bytes(ring))


def measures(room: int = ROOM) -> st.SearchStrategy[MeasureFrame]:
    rows = st.lists(NUMBERS, max_size=rows_max(room, 10, 4))
    return (
        st.builds(Echo, st.booleans(), COUNTS)
        | st.builds(Times, COUNTS, st.integers(0, 0xFFFF), rows)
        | trees(room)
    )


def lives(room: int = ROOM) -> st.SearchStrategy[Lives]:
    ids = st.integers(0, ID_MAX) | st.sampled_from([0, 1, ID_MAX])
    rows = st.lists(st.tuples(ids, ids, st.booleans()), max_size=rows_max(room, 12, 16))
    return st.builds(Lives, COUNTS, NUMBERS, rows)


def probes() -> st.SearchStrategy[ProbeFrame]:
    return (
        st.builds(Ping, st.integers(0, 7), COUNTS, NUMBERS)
        | st.builds(Ask, SOURCES_ANY, COUNTS)
        | st.builds(Vouch, SOURCES_ANY, COUNTS, NUMBERS)
    )


ENTRIES = st.builds(Entry, SOURCES_ANY, st.binary(max_size=20), st.integers(0, 255))


def overlays() -> st.SearchStrategy[OverlayFrame]:
    steps = st.integers(0, 16)
    some = st.lists(ENTRIES, max_size=10)
    return (
        st.builds(Enter, ENTRIES)
        | st.builds(Enter, ENTRIES, st.just(True), steps)
        | st.builds(Neighbor, st.sampled_from([0, 1, 2, 4]), NUMBERS, ENTRIES)
        | st.builds(Disconnect, st.booleans())
        | st.builds(Shuffle, ENTRIES, some, NUMBERS, steps, st.booleans())
        | st.builds(Pulse, st.integers(0, 7), NUMBERS, SOURCES_ANY, COUNTS, st.integers(0, 0xFFFF))
    )


def pulls() -> st.SearchStrategy[PullFrame]:
    ends = st.tuples(SEQS, SEQS).map(sorted)
    ranges = st.lists(
        st.tuples(SOURCES_ANY, ends).map(lambda row: (row[0], row[1][0], row[1][1])), max_size=14
    )
    told = st.lists(st.tuples(SOURCES_ANY, SEQS, st.integers(0, 0xFFFF)), max_size=17)
    return (
        st.builds(Summary, ranges, st.booleans())
        | st.builds(IHave, told)
        | st.builds(Want, ranges, st.sampled_from([0, 1, 2]))
    )


def _spans() -> st.SearchStrategy[tuple[int, int, int]]:
    """Three numbers, of which the first is smaller than the second."""
    three = st.tuples(COUNTS, COUNTS, COUNTS).map(sorted)
    return three.filter(lambda ends: ends[0] < ends[1]).map(
        lambda ends: (ends[0], ends[1], ends[2])
    )


@st.composite
def states(draw: st.DrawFn, room: int = ROOM) -> Need | Chunk | Tell:
    """Requests for state, chunks of it and lists."""
    kind = draw(st.sampled_from(["need", "chunk", "piece", "tell"]))
    after, upto, cut = draw(_spans())
    source, number = draw(SOURCES_ANY), draw(NUMBERS)
    if kind == "need":
        wants = draw(st.sampled_from([0, LIST, SNAPSHOT, 4, 5, 6]))
        return Need(wants, number, draw(NUMBERS), source, after, upto, cut, draw(NUMBERS))
    if kind == "tell":
        rows = draw(st.lists(st.tuples(SOURCES_ANY, st.booleans()), max_size=rows_max(room, 8, 24)))
        answer = LISTED if rows else draw(st.integers(0, 4))
        return Tell(draw(st.sampled_from([0, LAST, 8, 9])), number, answer, rows)
    content = draw(st.binary(min_size=1, max_size=min(40, room - 60)))
    marks = draw(st.sampled_from([0, LAST, 8]))
    chunk = Chunk(marks, number, draw(NUMBERS), source, after, upto, cut, content)
    if kind == "piece":
        chunk.marks |= draw(st.sampled_from([PIECE, PIECE | SNAPSHOT]))
        chunk.offset = draw(st.integers(0, 0xFFFF_FFFF - 40))
        chunk.total = draw(st.integers(chunk.offset + len(content), 0xFFFF_FFFF))
    return chunk


@st.composite
def ballots(draw: st.DrawFn) -> Ballot:
    """A step, with a parcel if it needs one."""
    step, ballot = draw(st.integers(1, 6)), draw(st.integers(0, 1 << 48))
    voted = draw(st.integers(-1, ballot)) if step == 2 else -1
    needs = step in (4, 6) or voted >= 0
    return Ballot(draw(COUNTS), draw(NUMBERS), step, ballot, voted, draw(SEQS) if needs else 0)


@st.composite
def parts(draw: st.DrawFn) -> PartOf:
    count = draw(st.integers(1, 4096) | st.sampled_from([1, 2, 4096]))
    index = draw(st.integers(0, count - 1) | st.just(count - 1))
    data = body_of(draw(st.integers(1, 400) | st.just(400)), index)
    return PartOf(draw(SEQS), draw(st.integers(1, 2)), draw(NUMBERS), index, count, data)


def agreements(room: int = ROOM) -> st.SearchStrategy[ControlFrame]:
    ids = st.integers(0, ID_MAX) | st.sampled_from([0, 1, ID_MAX])
    rows = st.lists(st.tuples(st.integers(1, 6), ids, ids), max_size=rows_max(room, 24, 17))
    places = st.integers(0, 4095)
    ranges = st.tuples(places, places).map(lambda ends: (min(ends), max(ends)))
    names = st.text(max_size=60)
    return (
        st.builds(
            Join, SOURCES_ANY, names, st.integers(0, 255), st.booleans(), st.integers(0, ID_MAX)
        )
        | st.builds(Wishes, COUNTS, NUMBERS, COUNTS, NUMBERS, rows, st.booleans())
        | ballots()
        | parts()
        | st.builds(Lack, COUNTS, NUMBERS, st.lists(ranges, max_size=rows_max(room, 12, 4)))
    )


def readers(room: int = ROOM) -> st.SearchStrategy[ControlFrame]:
    names = st.text(max_size=16) | st.just("x" * 64)
    totals = st.integers(0, 0xFFFF)
    rows = st.lists(st.tuples(SOURCES_ANY, COUNTS), max_size=rows_max(room, 72, 24))
    begins = st.lists(st.tuples(SOURCES_ANY, COUNTS, COUNTS), max_size=rows_max(room, 72, 32))
    flags = st.booleans(), st.booleans(), st.booleans()
    return (
        st.builds(Subscribe, NUMBERS, names, *flags, rows, totals)
        | st.builds(Begin, NUMBERS, names, st.booleans(), begins, totals)
        | st.builds(Have, rows, st.booleans(), st.booleans())
    )


@st.composite
def rumours(draw: st.DrawFn, room: int = ROOM) -> Rumour:
    size = draw(st.integers(16, 100) | st.integers(16, room - 32) | st.just(room - 32))
    seq = draw(SEQS)
    return Rumour(draw(SOURCES_ANY), seq, draw(st.integers(0, ROUND_MAX)), body_of(size, seq))


def epidemic(room: int = ROOM) -> st.SearchStrategy[ControlFrame]:
    return rumours(room) | st.builds(Stamp, NUMBERS) | st.builds(Heard, NUMBERS, NUMBERS)


def links(room: int = ROOM) -> st.SearchStrategy[ControlFrame]:
    """What sites of a federation send each other."""
    lane = st.integers(0, LANES - 1)
    three = st.tuples(SEQS, COUNTS, COUNTS)
    row = st.tuples(lane, SEQS, SEQS).map(lambda row: (row[0], min(row[1:]), max(row[1:])))
    rows = st.lists(row, max_size=min(ROWS_MAX, rows_max(room, 80, 24)))
    data = st.binary(min_size=1, max_size=40) | st.integers(1, room - 20).map(body_of)
    return (
        st.builds(Piece, COUNTS, lane, SEQS, st.booleans(), st.booleans(), data)
        | st.builds(Link, COUNTS, st.lists(three, min_size=LANES, max_size=LANES), rows)
        | st.builds(Out, COUNTS, SEQS)
    )


def controls(room: int = ROOM) -> st.SearchStrategy[ControlFrame]:
    votes: st.SearchStrategy[ControlFrame] = vectors(room) | rounds(room) | measures(room)
    membership: st.SearchStrategy[ControlFrame] = lives(room) | probes() | states(room)
    pasts = st.builds(Past, st.sampled_from([0, 1, 2, 4, 8, 9]), SOURCES_ANY, COUNTS)
    membership = membership | agreements(room) | readers(room) | pasts
    gossip: st.SearchStrategy[ControlFrame] = epidemic(room) | overlays() | pulls()
    return fragments(room) | naks(room) | covereds(room) | votes | membership | gossip | links(room)


def items(room: int = ROOM) -> st.SearchStrategy[list[Item]]:
    """Messages and control frames in any order."""
    runs: st.SearchStrategy[Sequence[Item]] = streams(room)
    alone: st.SearchStrategy[Sequence[Item]] = controls(room).map(lambda frame: [frame])
    return st.lists(runs | alone, max_size=6).map(lambda parts: [i for part in parts for i in part])


def add(writer: FrameWriter, item: Item) -> bool:
    if isinstance(item, Message):
        return writer.add_message(item)
    return writer.add(item)


def encoded(all_items: Iterable[Item], source: Source = SENDER, room: int = ROOM_MAX) -> bytes:
    """The frames of one datagram that holds all of these."""
    writer = FrameWriter(source, room)
    for item in all_items:
        assert add(writer, item), f"{item!r} does not fit"
    return writer.take()


def frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    """One frame, written by other means than the code under test."""
    return struct.pack("<BBH", kind, flags, len(body)) + body


def frame_starts(frames: bytes) -> list[int]:
    """Where each frame of a valid datagram starts; the end, too."""
    starts, at = [0], 0
    while at < len(frames):
        at += 4 + struct.unpack_from("<H", frames, at + 2)[0]
        starts.append(at)
    return starts


def golden(name: str) -> bytes:
    """The bytes of a golden file: hex digits; from # on, a line explains itself."""
    lines = (GOLDEN / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def decode_or_refuse(frames: bytes, source: Source = SENDER) -> Decoded | None:
    """What the bytes say, or None if they were refused, and then in one clear line."""
    try:
        return Decoder().decode(frames, source)
    except RemoteProtocolError as error:
        assert_clear(error)
        return None


def assert_clear(error: RemoteProtocolError) -> None:
    """One line with the numbers in it, short enough for a log."""
    text = str(error)
    assert "\n" not in text
    assert 10 <= len(text) <= 160
    assert any(character.isdigit() for character in text), text
