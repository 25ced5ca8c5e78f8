"""Votes that are gossiped: how far the members of a round got with every source.

    0x05 STABILITY  view i64 · number u32 · round i64 · length of voters u16 · sources that have
                    ended u16 · voters · that many sources ·
                    then (source, agreed i64, lowest i64, newest i64)*
    0x06 SAFETY     likewise

A STABILITY has flag WAITS when its sender has no room until it gets votes. It has flag LEFT_OUT
when a voter of this round may have left out lives of which it has messages, and FORMER_LEFT_OUT
when one of the round before may have. It has flag WANTED when a voter of this round, which is new,
has no vote on some source before the round is over: then nobody rests. A STABILITY with flag QUIET
is of no round and has no rows: its voters are members that had sent nothing when they installed
this view.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import VIEW_BYTES, write_source, write_u16, write_view
from semcast.wire.frames import ControlFrame

STABILITY: Final = 0x05
SAFETY: Final = 0x06

# Flags of STABILITY frames.
WAITS: Final = 0x01
LEFT_OUT: Final = 0x02
FORMER_LEFT_OUT: Final = 0x04
WANTED: Final = 0x08
QUIET: Final = 0x10
_FLAGS: Final = WAITS | LEFT_OUT | FORMER_LEFT_OUT | WANTED | QUIET
_HEAD_BYTES: Final = 24
_SOURCE_BYTES: Final = 16
_ROW_BYTES: Final = 40


@final
@dataclass(init=False)
class Progress:
    """One row of a vector: how far a source's messages got."""

    source: Source
    # Agreed in earlier rounds: everything up to here is stable (or safe).
    agreed: i64
    # The lowest that the voters of this round have.
    lowest: i64
    # The newest that anybody spoke of: a hint that the last message was lost (SRM §5.3).
    newest: i64

    def __init__(self, source: Source, agreed: i64, lowest: i64, newest: i64) -> None:
        self.source = source
        self.agreed = agreed
        self.lowest = lowest
        self.newest = newest


@final
@dataclass(init=False)
class Vector(ControlFrame):
    """A round of stability or safety detection, as gossiped."""

    # The view that it speaks of: its digest, and its number.
    view: i64
    number: i64
    # Whether it counts to f+1 votes instead of all (SRM §5.3).
    safety: bool
    round: i64
    # Bit i: the member at position i of the view has voted in this round.
    voters: int
    rows: list[Progress]
    # Lives that have ended, one of a sender.
    ended: list[Source]
    # Whether a voter may have had no room for lives of which it has messages; and whether one may
    # have had none in the round before.
    left_out: bool
    former_left_out: bool
    # Whether the sender of this vector has no room to send until it gets votes.
    waits: bool
    # Whether a newcomer needs this round to end.
    wanted: bool
    # Whether this is no round: the voters had sent nothing when they installed this view.
    quiet: bool

    def __init__(
        self,
        view: i64,
        number: i64,
        safety: bool,
        round: i64,  # noqa: A002
        voters: int,
        rows: list[Progress],
        ended: list[Source] | None = None,
        left_out: bool = False,
        former_left_out: bool = False,
        waits: bool = False,
        wanted: bool = False,
        quiet: bool = False,
    ) -> None:
        self.view = view
        self.number = number
        self.safety = safety
        self.waits = waits
        self.wanted = wanted
        self.quiet = quiet
        self.round = round
        self.voters = voters
        self.rows = rows
        self.ended = [] if ended is None else ended
        self.left_out = left_out
        self.former_left_out = former_left_out

    def frame_kind(self) -> i64:
        return SAFETY if self.safety else STABILITY

    def flags(self) -> i64:
        waited_for = self.waits or self.wanted or self.quiet
        assert not (waited_for and self.safety), "only stability is waited for"
        return (
            (WAITS if self.waits else 0)
            | (LEFT_OUT if self.left_out else 0)
            | (FORMER_LEFT_OUT if self.former_left_out else 0)
            | (WANTED if self.wanted else 0)
            | (QUIET if self.quiet else 0)
        )

    def view_digest(self) -> i64:
        return self.view

    def view_number(self) -> i64:
        return self.number

    def size_bytes(self) -> i64:
        rows_bytes = _SOURCE_BYTES * len(self.ended) + _ROW_BYTES * len(self.rows)
        return _HEAD_BYTES + _bytes_of(self.voters) + rows_bytes

    def write(self, out: BytesWriter) -> None:
        voters_len = _bytes_of(self.voters)
        write_view(out, self.view, self.number)
        write_i64_le(out, self.round)
        write_u16(out, voters_len)
        write_u16(out, len(self.ended))
        out.write(self.voters.to_bytes(voters_len, "little"))
        for source in self.ended:
            write_source(out, source)
        for row in self.rows:
            write_source(out, row.source)
            write_i64_le(out, row.agreed)
            write_i64_le(out, row.lowest)
            write_i64_le(out, row.newest)

    @staticmethod
    def read(body: Body) -> "Vector":
        """A round of either kind: their layout is the same."""
        at = body.at
        if body.size() < _HEAD_BYTES:
            raise RemoteProtocolError(f"vector has {body.size()} bytes left for its head")
        round_number = body.count(at + VIEW_BYTES)
        voters_len, ended_count = body.u16(at + VIEW_BYTES + 8), body.u16(at + VIEW_BYTES + 10)
        ended_at = at + _HEAD_BYTES + voters_len
        rows_at = ended_at + _SOURCE_BYTES * ended_count
        if body.flags & QUIET != 0 and (ended_count > 0 or rows_at < body.end):
            raise RemoteProtocolError(
                f"vector of quiet members with {ended_count} sources that ended and "
                f"{max(0, body.end - rows_at)} bytes of rows"
            )
        if rows_at > body.end:
            raise RemoteProtocolError(
                f"vector says {voters_len} bytes of voters and {ended_count} sources that ended, "
                f"{body.size() - _HEAD_BYTES} bytes are left"
            )
        voters = int.from_bytes(body.bytes_of(at + _HEAD_BYTES, ended_at), "little")
        ended = [body.source(ended_at + _SOURCE_BYTES * number) for number in range(ended_count)]
        rows = [
            Progress(
                body.source(row), body.count(row + 16), body.count(row + 24), body.count(row + 32)
            )
            for row in body.rows(rows_at, _ROW_BYTES, "vector")
        ]
        return Vector(
            body.count(at),
            body.u32(at + 8),
            body.kind == SAFETY,
            round_number,
            voters,
            rows,
            ended,
            body.flags & LEFT_OUT != 0,
            body.flags & FORMER_LEFT_OUT != 0,
            body.flags & WAITS != 0,
            body.flags & WANTED != 0,
            body.flags & QUIET != 0,
        )


def _bytes_of(voters: int) -> i64:
    return (voters.bit_length() + 7) // 8


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("STABILITY", STABILITY, _FLAGS, Vector.read),
    FrameType("SAFETY", SAFETY, 0, Vector.read),
)
