"""Measures: round-trip times between members, and the tree that comes of them.

    0x08 ECHO       token i64
    0x09 TIMES      view i64 · first u16 · then time_us u32*
    0x0a TREE       view i64 · number i64 · maker u16 · parents u8 each · ring u8 each, as many

An ECHO has flag ANSWER when it is one: it has the token of what it answers. In a TREE the root
hangs on itself, and the ring begins there.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_u16, write_u32
from semcast.wire.frames import ControlFrame
from semcast.wire.trees import tree_fault

ECHO: Final = 0x08
TIMES: Final = 0x09
TREE: Final = 0x0A

# Flag of ECHO frames.
ANSWER: Final = 0x01
TIME_US_MAX: Final = 0xFFFF_FFFF
TREE_HEAD_BYTES: Final = 18
# A member of a tree is one byte.
TREE_MEMBERS_MAX: Final = 256
_TOKEN_BYTES: Final = 8
_TIMES_HEAD_BYTES: Final = 10
_TIME_BYTES: Final = 4


@final
@dataclass(init=False)
class Echo(ControlFrame):
    """A token that the receiver should send back at once; or the answer, with the same token."""

    answer: bool
    # When the asker asked, by its own clock.
    token: i64

    def __init__(self, answer: bool, token: i64) -> None:
        self.answer = answer
        self.token = token

    def frame_kind(self) -> i64:
        return ECHO

    def flags(self) -> i64:
        return ANSWER if self.answer else 0

    def size_bytes(self) -> i64:
        return _TOKEN_BYTES

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.token)

    @staticmethod
    def read(body: Body) -> "Echo":
        """A token and nothing else."""
        if body.size() != _TOKEN_BYTES:
            raise RemoteProtocolError(f"ECHO frame has {body.size()} bytes for a token of 8")
        return Echo(body.flags & ANSWER != 0, body.count(body.at))


@final
@dataclass(init=False)
class Times(ControlFrame):
    """Round-trip times that the sender measured, to some members in a row."""

    # The view whose positions are meant, by its digest.
    view: i64
    # The position of the first of them.
    first: i64
    # 0 where nothing was measured yet.
    times_us: list[int]

    def __init__(self, view: i64, first: i64, times_us: list[int]) -> None:
        self.view = view
        self.first = first
        self.times_us = times_us

    def frame_kind(self) -> i64:
        return TIMES

    def view_digest(self) -> i64:
        return self.view

    def size_bytes(self) -> i64:
        return _TIMES_HEAD_BYTES + _TIME_BYTES * len(self.times_us)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.view)
        write_u16(out, self.first)
        for time_us in self.times_us:
            write_u32(out, time_us)

    @staticmethod
    def read(body: Body) -> "Times":
        """Any times are accepted; the receiver checks whether there are such members."""
        if body.size() < _TIMES_HEAD_BYTES:
            raise RemoteProtocolError(f"TIMES frame has {body.size()} bytes left for its head")
        rows = body.rows(body.at + _TIMES_HEAD_BYTES, _TIME_BYTES, "TIMES")
        times_us = [int(body.u32(row)) for row in rows]
        return Times(body.count(body.at), body.u16(body.at + 8), times_us)


@final
@dataclass(init=False)
class Tree(ControlFrame):
    """The tree and the ring that a group goes over to.

    See `protocol/stability/rounds/measuring.py`.
    """

    # The view whose positions are meant, by its digest.
    view: i64
    # A newer tree has a larger number; `maker` is the position of the member that made it.
    number: i64
    maker: i64
    # One byte for each member: the position of its parent, its own for the root.
    parents: bytes
    # The positions of all members in their order around the ring, from the root on.
    ring: bytes

    def __init__(self, view: i64, number: i64, maker: i64, parents: bytes, ring: bytes) -> None:
        self.view = view
        self.number = number
        self.maker = maker
        self.parents = parents
        self.ring = ring

    def frame_kind(self) -> i64:
        return TREE

    def view_digest(self) -> i64:
        return self.view

    def size_bytes(self) -> i64:
        return TREE_HEAD_BYTES + len(self.parents) + len(self.ring)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.view)
        write_i64_le(out, self.number)
        write_u16(out, self.maker)
        out.write(self.parents)
        out.write(self.ring)

    @staticmethod
    def read(body: Body) -> "Tree":
        """A tree and a ring; anything else raises."""
        at = body.at
        size = body.size()
        members = (size - TREE_HEAD_BYTES) // 2
        if size % 2 or members < 1 or members > TREE_MEMBERS_MAX:
            raise RemoteProtocolError(f"TREE frame of {size} bytes")
        view, number = body.count(at), body.seq(at + 8)
        maker = body.u16(at + 16)
        middle = at + TREE_HEAD_BYTES + members
        parents = body.bytes_of(at + TREE_HEAD_BYTES, middle)
        ring = body.bytes_of(middle, body.end)
        fault = tree_fault(parents, ring)
        if fault or maker >= members:
            raise RemoteProtocolError(fault or f"tree of {members} members made by member {maker}")
        return Tree(view, number, maker, parents, ring)


MeasureFrame: TypeAlias = Echo | Times | Tree

FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("ECHO", ECHO, ANSWER, Echo.read),
    FrameType("TIMES", TIMES, 0, Times.read),
    FrameType("TREE", TREE, 0, Tree.read),
)
