"""Links between the sites of a federation: pieces of numbered records, and how a link stands.

    0x41 PIECE  to_life i64 · number i64 · a piece of a record
    0x42 LINK   to_life i64 · for each of three lanes: next i64, acked i64, limit i64 ·
                rows of what is missing: lane i64, first i64, last i64
    0x43 OUT    to_life i64 · graph i64: the others have gone on without that life, in this graph

`to_life` is the life of the site that it is for: what is meant for a former life is ignored. The
flags of a PIECE say which lane it is on, and whether a record begins or ends with it. A LINK says
the next number that its sender will use on each lane, so that the loss of a last piece is noticed;
it is the null message of PROP Appendix I. It also says up to which number everything came, and up
to which number the other may send.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.wire.body import Body, FrameType
from semcast.wire.frames import ControlFrame

PIECE: Final = 0x41
LINK: Final = 0x42
OUT: Final = 0x43

# Flags of a PIECE.
BEGINS: Final = 0x02
ENDS: Final = 0x04
_LANE_SHIFT: Final = 3
_LANE_BITS: Final = 0x18

LANES: Final = 3
PIECE_HEAD_BYTES: Final = 16
_LANE_BYTES: Final = 24
_LINK_HEAD_BYTES: Final = 8 + LANES * _LANE_BYTES
_ROW_BYTES: Final = 24
ROWS_MAX: Final = 12
_OUT_BYTES: Final = 16


@final
@dataclass(init=False)
class Piece(ControlFrame):
    """One numbered piece of a record on a lane."""

    to_life: i64
    lane: i64
    number: i64
    begins: bool
    ends: bool
    data: bytes

    def __init__(
        self, to_life: i64, lane: i64, number: i64, begins: bool, ends: bool, data: bytes
    ) -> None:
        self.to_life = to_life
        self.lane = lane
        self.number = number
        self.begins = begins
        self.ends = ends
        self.data = data

    def frame_kind(self) -> i64:
        return PIECE

    def flags(self) -> i64:
        flags: i64 = self.lane << _LANE_SHIFT
        if self.begins:
            flags |= BEGINS
        if self.ends:
            flags |= ENDS
        return flags

    def size_bytes(self) -> i64:
        return PIECE_HEAD_BYTES + len(self.data)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.to_life)
        write_i64_le(out, self.number)
        out.write(self.data)

    @staticmethod
    def read(body: Body) -> "Piece":
        """A piece of a lane that there is, with at least one byte."""
        lane = (body.flags & _LANE_BITS) >> _LANE_SHIFT
        if lane >= LANES or body.size() <= PIECE_HEAD_BYTES:
            raise RemoteProtocolError(f"PIECE frame of {body.size()} bytes on lane {lane}")
        at = body.at
        return Piece(
            body.count(at),
            lane,
            body.seq(at + 8),
            (body.flags & BEGINS) != 0,
            (body.flags & ENDS) != 0,
            body.bytes_of(at + PIECE_HEAD_BYTES, body.end),
        )


@final
@dataclass(init=False)
class Link(ControlFrame):
    """How the lanes between two sites stand, as one of them sees it."""

    to_life: i64
    lanes: list[tuple[int, int, int]]
    missing: list[tuple[int, int, int]]

    def __init__(
        self,
        to_life: i64,
        lanes: list[tuple[int, int, int]],
        missing: list[tuple[int, int, int]],
    ) -> None:
        """`lanes`: next, acked and limit of each; `missing`: lane, first and last number."""
        self.to_life = to_life
        self.lanes = lanes
        self.missing = missing

    def frame_kind(self) -> i64:
        return LINK

    def size_bytes(self) -> i64:
        return _LINK_HEAD_BYTES + _ROW_BYTES * len(self.missing)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.to_life)
        for first, second, third in self.lanes:
            write_i64_le(out, first)
            write_i64_le(out, second)
            write_i64_le(out, third)
        for lane, first, last in self.missing:
            write_i64_le(out, lane)
            write_i64_le(out, first)
            write_i64_le(out, last)

    @staticmethod
    def read(body: Body) -> "Link":
        """All lanes, and ranges that are none too long."""
        at = body.at
        rows = body.rows(at + _LINK_HEAD_BYTES, _ROW_BYTES, "LINK")
        if len(rows) > ROWS_MAX:
            raise RemoteProtocolError(f"LINK frame with {len(rows)} rows; {ROWS_MAX} are the most")
        lanes = [
            (int(body.seq(place)), int(body.count(place + 8)), int(body.count(place + 16)))
            for place in range(at + 8, at + _LINK_HEAD_BYTES, _LANE_BYTES)
        ]
        missing: list[tuple[int, int, int]] = []
        for row in rows:
            lane, first, last = body.number(row), body.seq(row + 8), body.seq(row + 16)
            if lane < 0 or lane >= LANES or last < first:
                raise RemoteProtocolError(f"LINK frame asks for {first} to {last} on lane {lane}")
            missing.append((int(lane), int(first), int(last)))
        return Link(body.count(at), lanes, missing)


@final
@dataclass(init=False)
class Out(ControlFrame):
    """To a site that is not part of the federation any more, in the life that it is in."""

    to_life: i64
    graph: i64

    def __init__(self, to_life: i64, graph: i64) -> None:
        self.to_life = to_life
        self.graph = graph

    def frame_kind(self) -> i64:
        return OUT

    def size_bytes(self) -> i64:
        return _OUT_BYTES

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.to_life)
        write_i64_le(out, self.graph)

    @staticmethod
    def read(body: Body) -> "Out":
        """A life and a number, and nothing else."""
        if body.size() != _OUT_BYTES:
            raise RemoteProtocolError(f"OUT frame has {body.size()} bytes; it takes {_OUT_BYTES}")
        return Out(body.count(body.at), body.seq(body.at + 8))


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("PIECE", PIECE, BEGINS | ENDS | _LANE_BITS, Piece.read),
    FrameType("LINK", LINK, 0, Link.read),
    FrameType("OUT", OUT, 0, Out.read),
)
