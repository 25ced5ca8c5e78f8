"""Repair: requests for messages, what replaces those that are gone, and pieces of large ones.

    0x02 FRAGMENT   seq i64 · index u16 · count u16 · piece bytes
    0x03 NAK        source · target i64 · then (first i64, last i64)*
    0x04 COVERED    source · then (seq i64, source of the cover, seq of the cover i64)*

A FRAGMENT has flag RELAYED when its source is not the sender of the datagram; the source then
comes first. A NAK has flag PRIVATE when nobody but the asker misses these messages.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u32
from semcast.wire.frames import RELAYED, SOURCE_BYTES, ControlFrame

FRAGMENT: Final = 0x02
NAK: Final = 0x03
COVERED: Final = 0x04

FRAGMENT_HEAD_BYTES: Final = 12
FRAGMENTS_MAX: Final = 0xFFFF
# Flag of NAK frames.
PRIVATE: Final = 0x01
_NAK_HEAD_BYTES: Final = 24
_RANGE_BYTES: Final = 16
_COVER_BYTES: Final = 32


@final
@dataclass(init=False)
class Fragment(ControlFrame):
    """One piece of a message too large for a datagram."""

    source: Source
    seq: i64
    index: i64
    count: i64
    piece: bytes

    def __init__(self, source: Source, seq: i64, index: i64, count: i64, piece: bytes) -> None:
        self.source = source
        self.seq = seq
        self.index = index
        self.count = count
        self.piece = piece

    def frame_kind(self) -> i64:
        return FRAGMENT

    def origin(self) -> Source | None:
        return self.source

    def size_bytes(self) -> i64:
        return FRAGMENT_HEAD_BYTES + len(self.piece)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.seq)
        write_u32(out, self.index | (self.count << 16))
        out.write(self.piece)

    @staticmethod
    def read(body: Body) -> "Fragment":
        """A piece of at least one byte."""
        source = body.take_origin()
        at = body.at
        if body.size() <= FRAGMENT_HEAD_BYTES:
            raise RemoteProtocolError(f"fragment has {body.size()} bytes left: cut short or empty")
        seq = body.seq(at)
        place = body.u32(at + 8)
        index = place & 0xFFFF
        count = place >> 16
        if index >= count:
            raise RemoteProtocolError(f"fragment {index} of {count}")
        return Fragment(
            source, seq, index, count, body.bytes_of(at + FRAGMENT_HEAD_BYTES, body.end)
        )


@final
@dataclass(init=False)
class Nak(ControlFrame):
    """A request to send again every seq of `source` in these ranges, both ends included."""

    source: Source
    # The sender id of the one member that should answer; the others hear it and keep quiet.
    target: i64
    # Whether nobody else misses these, so that the answer need not be multicast.
    private: bool
    ranges: list[tuple[int, int]]

    def __init__(
        self, source: Source, target: i64, private: bool, ranges: list[tuple[int, int]]
    ) -> None:
        self.source = source
        self.target = target
        self.private = private
        self.ranges = ranges

    def frame_kind(self) -> i64:
        return NAK

    def flags(self) -> i64:
        return PRIVATE if self.private else 0

    def size_bytes(self) -> i64:
        return _NAK_HEAD_BYTES + _RANGE_BYTES * len(self.ranges)

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        write_i64_le(out, self.target)
        for first, last in self.ranges:
            write_i64_le(out, first)
            write_i64_le(out, last)

    @staticmethod
    def read(body: Body) -> "Nak":
        """A request, if no range ends before it begins."""
        at = body.at
        source = body.source(at)
        if body.size() < _NAK_HEAD_BYTES:
            raise RemoteProtocolError(f"NAK has {body.size()} bytes left for its head")
        target = body.number(at + SOURCE_BYTES)
        if target < 0 or target > ID_MAX:
            raise RemoteProtocolError(f"NAK for member {target} to answer")
        ranges = []
        for row in body.rows(at + _NAK_HEAD_BYTES, _RANGE_BYTES, "NAK"):
            first = body.seq(row)
            last = body.seq(row + 8)
            if last < first:
                raise RemoteProtocolError(f"NAK for seq {first} to {last}")
            ranges.append((int(first), int(last)))
        return Nak(source, target, body.flags & PRIVATE != 0, ranges)


@final
@dataclass(init=False)
class Covered(ControlFrame):
    """These messages of `source` were purged: do not wait for them, but for their covers."""

    source: Source
    # (seq, the source and seq of the message that replaces it)
    covers: list[tuple[int, Source, int]]

    def __init__(self, source: Source, covers: list[tuple[int, Source, int]]) -> None:
        self.source = source
        self.covers = covers

    def frame_kind(self) -> i64:
        return COVERED

    def size_bytes(self) -> i64:
        return SOURCE_BYTES + _COVER_BYTES * len(self.covers)

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        for seq, by_source, by_seq in self.covers:
            write_i64_le(out, seq)
            write_source(out, by_source)
            write_i64_le(out, by_seq)

    @staticmethod
    def read(body: Body) -> "Covered":
        """The answer to a NAK for purged messages."""
        source = body.source(body.at)
        covers = []
        for row in body.rows(body.at + SOURCE_BYTES, _COVER_BYTES, "COVERED"):
            by_source = body.source(row + 8)
            covers.append((int(body.seq(row)), by_source, int(body.seq(row + 24))))
        return Covered(source, covers)


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("FRAGMENT", FRAGMENT, RELAYED, Fragment.read),
    FrameType("NAK", NAK, PRIVATE, Nak.read),
    FrameType("COVERED", COVERED, 0, Covered.read),
)
