"""Pull: what a member of a gossiping group has, tells of, and wants.

    0x3d SUMMARY     (source, first i64, last i64)*
    0x3e IHAVE      (source, seq i64, hops u16)*
    0x3f WANT       (source, first i64, last i64)*

A SUMMARY says of which messages its sender has received all, lately; flag ANSWER: its receiver
should say the same of itself. IHAVE tells of single messages that go over other links, and how far
each has come. WANT asks for the messages of these ranges that the receiver has. With flag EAGER its
sender wants all further messages over this link as well, as they come; with flag LAZY it wants to
be told of them only, by IHAVE.

Messages come in answer as DATA, and those that were replaced as COVERED (`families/repair.py`).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u16
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

SUMMARY: Final = 0x3D
IHAVE: Final = 0x3E
WANT: Final = 0x3F

# Flag of SUMMARY frames.
ANSWER: Final = 0x01
# Flags of WANT frames.
EAGER: Final = 0x01
LAZY: Final = 0x02

# The smallest datagram has room for these.
RANGES_MAX: Final = 14
TOLD_MAX: Final = 17
_RANGE_BYTES: Final = SOURCE_BYTES + 16
_TOLD_BYTES: Final = SOURCE_BYTES + 10

# The messages of a source from one number to another, both included.
Range: TypeAlias = tuple[Source, int, int]
# A message and how many members it went through.
Told: TypeAlias = tuple[Source, int, int]


@final
@dataclass(init=False)
class Summary(ControlFrame):
    """What its sender has received lately."""

    ranges: list[Range]
    answer: bool

    def __init__(self, ranges: list[Range], answer: bool = False) -> None:
        self.ranges = ranges
        self.answer = answer

    def frame_kind(self) -> i64:
        return SUMMARY

    def flags(self) -> i64:
        return ANSWER if self.answer else 0

    def size_bytes(self) -> i64:
        return _RANGE_BYTES * len(self.ranges)

    def write(self, out: BytesWriter) -> None:
        _write_ranges(out, self.ranges)

    @staticmethod
    def read(body: Body) -> "Summary":
        """Ranges may be as long as they like: nobody counts through them."""
        return Summary(_ranges(body, "SUMMARY"), body.flags & ANSWER != 0)


@final
@dataclass(init=False)
class IHave(ControlFrame):
    """Messages that its sender has and did not send over this link."""

    told: list[Told]

    def __init__(self, told: list[Told]) -> None:
        self.told = told

    def frame_kind(self) -> i64:
        return IHAVE

    def size_bytes(self) -> i64:
        return _TOLD_BYTES * len(self.told)

    def write(self, out: BytesWriter) -> None:
        for source, seq, hops in self.told:
            write_source(out, source)
            write_i64_le(out, seq)
            write_u16(out, hops)

    @staticmethod
    def read(body: Body) -> "IHave":
        """Single messages, a bounded number of them."""
        told = []
        for at in body.rows(body.at, _TOLD_BYTES, "IHAVE"):
            seq, hops = body.seq(at + SOURCE_BYTES), body.u16(at + SOURCE_BYTES + 8)
            told.append((body.source(at), int(seq), int(hops)))
        _check_count(len(told), TOLD_MAX, "IHAVE")
        return IHave(told)


@final
@dataclass(init=False)
class Want(ControlFrame):
    """What its sender lacks, and what it wants of a link."""

    ranges: list[Range]
    # EAGER or LAZY, or 0 if the link is to stay as it is.
    marks: i64

    def __init__(self, ranges: list[Range], marks: i64 = 0) -> None:
        self.ranges = ranges
        self.marks = marks

    def frame_kind(self) -> i64:
        return WANT

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        return _RANGE_BYTES * len(self.ranges)

    def write(self, out: BytesWriter) -> None:
        _write_ranges(out, self.ranges)

    @staticmethod
    def read(body: Body) -> "Want":
        """A link is one of two kinds, or stays as it is."""
        if body.flags == EAGER | LAZY:
            raise RemoteProtocolError(f"WANT frame with flags {body.flags:#x}: eager and lazy")
        return Want(_ranges(body, "WANT"), body.flags)


def _write_ranges(out: BytesWriter, ranges: list[Range]) -> None:
    for source, first, last in ranges:
        write_source(out, source)
        write_i64_le(out, first)
        write_i64_le(out, last)


def _ranges(body: Body, what: str) -> list[Range]:
    ranges = []
    for at in body.rows(body.at, _RANGE_BYTES, what):
        first, last = body.seq(at + SOURCE_BYTES), body.seq(at + SOURCE_BYTES + 8)
        if first > last:
            raise RemoteProtocolError(f"{what} range ends at {last} before it begins at {first}")
        ranges.append((body.source(at), int(first), int(last)))
    _check_count(len(ranges), RANGES_MAX, what)
    return ranges


def _check_count(count: i64, most: i64, what: str) -> None:
    if count > most:
        raise RemoteProtocolError(f"{what} frame has {count} rows; {most} are the most")


PullFrame: TypeAlias = Summary | IHave | Want

FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("SUMMARY", SUMMARY, ANSWER, Summary.read),
    FrameType("IHAVE", IHAVE, 0, IHave.read),
    FrameType("WANT", WANT, EAGER | LAZY, Want.read),
)
