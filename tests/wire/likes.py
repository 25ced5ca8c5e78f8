"""Bytes in the shape of frames: parts of the right sizes, mostly, whose values are anything.

Used by the fuzz tests beside it; holds none itself. Every frame has a shape here, so that bytes
which are nearly right get past the first check of its reader.
"""

import struct

from hypothesis import strategies as st
from tests.wire.material import OTHERS

from semcast.ids import SEQ_MAX
from semcast.wire.families.agreement import BALLOT, JOIN, LACK, PART, WISHES
from semcast.wire.families.epidemic import HEARD, RUMOUR, STAMP
from semcast.wire.families.lives import LIVES
from semcast.wire.families.measures import ECHO, TIMES, TREE
from semcast.wire.families.overlay import DISCONNECT, ENTER, NEIGHBOR, PULSE, SHUFFLE
from semcast.wire.families.pasts import PAST
from semcast.wire.families.probes import ASK, PING, VOUCH
from semcast.wire.families.propagation import LINK, OUT
from semcast.wire.families.propagation import PIECE as LINK_PIECE
from semcast.wire.families.pull import IHAVE, SUMMARY, WANT
from semcast.wire.families.readers import BEGIN, HAVE, SUBSCRIBE
from semcast.wire.families.repair import COVERED, FRAGMENT, NAK
from semcast.wire.families.rounds import ROUND
from semcast.wire.families.state import CHUNK, NEED, TELL
from semcast.wire.families.votes import SAFETY, STABILITY
from semcast.wire.frames import DATA, RELAYED

_EDGES = [0, 1, -1, 2, SEQ_MAX - 65_535, SEQ_MAX, SEQ_MAX + 1, (1 << 63) - 1, -(1 << 63), -SEQ_MAX]
NUMBERS = (st.sampled_from(_EDGES) | st.integers(-(1 << 63), (1 << 63) - 1)).map(
    lambda number: struct.pack("<q", number)
)
U8 = st.integers(0, 255)
U16 = st.integers(0, 0xFFFF) | st.integers(0, 64) | st.just(0xFFFF)
ROWS = st.lists(NUMBERS, max_size=12).map(b"".join)


def joined(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """These parts, one after the other."""
    return st.tuples(*parts).map(b"".join)


def a_byte(most: int) -> st.SearchStrategy[bytes]:
    return st.integers(0, most).map(lambda value: bytes([value]))


_U16 = U16.map(lambda value: struct.pack("<H", value))
_U32 = U16.map(lambda value: struct.pack("<I", value)) | st.just(b"\xff" * 4)
_VIEWS = joined(NUMBERS, st.just(bytes(4)))
# Sources that are some, mostly: of two numbers that are anything, few are.
_SOURCES = joined(NUMBERS, NUMBERS) | st.sampled_from(
    [struct.pack("<qq", source.sender, source.incarnation) for source in OTHERS]
)
# Numbers that are often in order.
_SMALL = st.integers(0, 9).map(lambda number: struct.pack("<q", number))
_SPANS = joined(_SMALL, _SMALL, _SMALL) | joined(NUMBERS, NUMBERS, NUMBERS)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A message of a run, or nearly: sizes that may lie, fields that may be out of range."""
    flags = draw(st.sampled_from([0, 1, 1, 2, 255]))
    words = draw(st.sampled_from([0, 0, 1, 2, 16, 17, 255]))
    body = draw(st.binary(max_size=30))
    honest = draw(st.integers(0, 4)) > 0
    body_len = len(body) if honest else draw(U16)
    key_len = draw(st.integers(0, len(body))) if honest else draw(U8)
    reserved = draw(st.sampled_from([0, 0, 0, 0, 1, 255]))
    head = struct.pack("<BBHHBB", flags, key_len, body_len, draw(U16), words, reserved)
    sent = draw(st.sampled_from([bytes(4), b"\xff" * 4, b"\x00\x00\x00\x80"]))
    rank = draw(NUMBERS) if flags & 1 else b""
    return head + sent + draw(st.binary(min_size=words * 8, max_size=words * 8)) + rank + body


@st.composite
def vectors(draw: st.DrawFn) -> bytes:
    """The body of a STABILITY or a SAFETY, whose counts may lie."""
    voters = draw(st.binary(max_size=20))
    length = len(voters) if draw(st.integers(0, 4)) else draw(U16)
    ended = draw(st.integers(0, 2)) if draw(st.integers(0, 4)) else draw(U16)
    head = draw(_VIEWS) + draw(NUMBERS) + struct.pack("<HH", length, ended)
    return head + voters + draw(ROWS)


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """The body of a TREE over a few members, which may be no tree."""
    members = draw(st.integers(0, 5))
    index = st.integers(0, 5)
    around = draw(st.lists(index, min_size=2 * members, max_size=2 * members))
    return draw(NUMBERS) + draw(NUMBERS) + struct.pack("<H", draw(index)) + bytes(around)


@st.composite
def named_rows(draw: st.DrawFn) -> bytes:
    """The body of a SUBSCRIBE or a BEGIN: a name that may be no text, and a length that may lie."""
    name = draw(st.binary(max_size=70) | st.text(max_size=9).map(str.encode))
    length = len(name) if draw(st.integers(0, 4)) else draw(U16)
    return struct.pack("<IHH", draw(U16), length, draw(U16)) + name + draw(ROWS)


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """An entry of a view, whose length may lie."""
    address = draw(st.binary(max_size=22))
    length = len(address) if draw(st.integers(0, 4)) else draw(U8)
    return draw(_SOURCES) + bytes([draw(U8), length]) + address


SHAPES: dict[int, st.SearchStrategy[bytes]] = {
    DATA: joined(NUMBERS, NUMBERS, st.lists(records(), max_size=4).map(b"".join)),
    FRAGMENT: joined(NUMBERS, _U16, _U16, st.binary()),
    NAK: joined(_SOURCES, NUMBERS, ROWS),
    COVERED: joined(_SOURCES, ROWS),
    STABILITY: vectors(),
    SAFETY: vectors(),
    ROUND: joined(
        *(_VIEWS, a_byte(5), a_byte(4), _U16, NUMBERS, NUMBERS, NUMBERS, _U32, _U32, ROWS)
    ),
    ECHO: NUMBERS,
    TIMES: joined(NUMBERS, _U16, _U32),
    TREE: trees(),
    LIVES: joined(_VIEWS, ROWS),
    JOIN: joined(a_byte(255), st.binary(max_size=20) | st.text(max_size=9).map(str.encode)),
    WISHES: joined(
        *(_VIEWS, NUMBERS, _U32),
        st.lists(joined(a_byte(7), NUMBERS, NUMBERS), max_size=3).map(b"".join),
    ),
    BALLOT: joined(_VIEWS, a_byte(8), NUMBERS, NUMBERS, NUMBERS),
    PART: joined(NUMBERS, a_byte(3), _U32, _U16, _U16, st.binary(max_size=420)),
    LACK: joined(NUMBERS, _U32, st.lists(joined(_U16, _U16), max_size=4).map(b"".join)),
    PING: joined(NUMBERS, _U32),
    ENTER: joined(a_byte(17), entries()),
    NEIGHBOR: joined(_U32, entries()),
    DISCONNECT: st.binary(max_size=1),
    SHUFFLE: joined(_U32, a_byte(17), st.lists(entries(), max_size=12).map(b"".join)),
    PULSE: joined(_U32, _U16, _SOURCES, NUMBERS),
    SUMMARY: st.lists(joined(_SOURCES, _SMALL, _SMALL), max_size=16).map(b"".join),
    IHAVE: st.lists(joined(_SOURCES, _SMALL, _U16), max_size=19).map(b"".join),
    WANT: st.lists(joined(_SOURCES, _SMALL, _SMALL), max_size=16).map(b"".join),
    ASK: joined(_SOURCES, NUMBERS),
    VOUCH: joined(_SOURCES, NUMBERS, _U32),
    SUBSCRIBE: named_rows(),
    BEGIN: named_rows(),
    HAVE: ROWS,
    NEED: joined(_U32, _U32, _SOURCES, _SPANS, _U32),
    # With flag PIECE, the first two of these say where the bytes begin and how many there are.
    CHUNK: joined(_U32, _U32, _SOURCES, _SPANS, _U32, _U32, st.binary(max_size=40)),
    PAST: joined(_SOURCES, NUMBERS),
    TELL: joined(_U32, a_byte(5), st.just(bytes(3)), ROWS),
    RUMOUR: joined(NUMBERS, _U32, st.binary(min_size=12, max_size=40)),
    STAMP: _U32,
    HEARD: joined(_U32, _U32),
    LINK_PIECE: joined(NUMBERS, NUMBERS, st.binary(max_size=40)),
    LINK: joined(
        *(NUMBERS, _SPANS, _SPANS, _SPANS),
        st.lists(joined(_SMALL, _SMALL, _SMALL), max_size=14).map(b"".join),
    ),
    OUT: joined(NUMBERS, NUMBERS),
}
# Flag RELAYED puts a source in front of the body of these. In others, that bit means another thing.
_WITH_ORIGIN = (DATA, FRAGMENT, JOIN, RUMOUR)


@st.composite
def frame_likes(draw: st.DrawFn) -> bytes:
    """A frame of any kind, mostly of one that is known."""
    kind = draw(st.sampled_from(sorted(SHAPES)) | U8)
    flags = draw(st.sampled_from([0, 0, 0, RELAYED, RELAYED, 2, 4, 255]))
    body = draw(_SOURCES) if kind in _WITH_ORIGIN and flags & RELAYED else b""
    body += draw(SHAPES.get(kind, st.binary(max_size=40)))
    length = len(body) if draw(st.integers(0, 5)) else draw(U16)
    return struct.pack("<BBH", kind, flags, length) + body
