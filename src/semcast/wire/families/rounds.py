"""Rounds of stability detection that go along a tree or a ring.

    0x07 ROUND      view i64 · number u32 · kind u8 · unnamed u8 · page u16 · target i64 ·
                    epoch i64 · round i64 · root u32 · count u32 ·
                    then (source, value i64, newest i64)*

A ROUND has flag OF_SAFETY when f+1 votes are counted and not all. It has flag LEFT_OUT when a voter
may have left out lives of which it has messages.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import VIEW_BYTES, write_source, write_u32, write_view
from semcast.wire.frames import ControlFrame

ROUND: Final = 0x07

# Flags of ROUND frames.
OF_SAFETY: Final = 0x01
LEFT_OUT: Final = 0x02
# How many kinds of ROUND frames there are; see `protocol/stability/rounds/round_message.py`.
ROUND_KINDS: Final = 4
# What a ROUND frame says of sources that it does not name: nothing, that the voters have nothing of
# them, that they have what is agreed, or that they abstain.
SAYS_NOTHING: Final = 0
HAVE_NONE: Final = 1
HAVE_AGREED: Final = 2
ABSTAIN: Final = 3
_HEAD_BYTES: Final = 48
_ROW_BYTES: Final = 32


def round_rows_max(frame_bytes_max: int) -> int:
    """How many rows fit a frame whose body has so many bytes."""
    return (frame_bytes_max - _HEAD_BYTES) // _ROW_BYTES


@final
@dataclass(init=False)
class Round(ControlFrame):
    """A message of a round of stability detection; see `protocol/stability/rounds/tracker.py`."""

    # The view that it speaks of: its digest, and its number.
    view: i64
    number: i64
    # Whether it counts to f+1 votes instead of all (SRM §5.3).
    safety: bool
    kind: i64
    # What it says of sources that have no row.
    unnamed: i64
    # Which sources it is about: the senders of one page.
    page: i64
    # The sender id of the one member that it is for, or -1 for everybody.
    target: i64
    # Names the view, and the tree or ring in use.
    epoch: i64
    round: i64
    # The position of the member that began the round.
    root: i64
    count: i64
    # (source, its value, the newest of it that anybody spoke of)
    rows: list[tuple[Source, int, int]]
    # Whether a voter may have had no room for lives of which it has messages.
    left_out: bool

    def __init__(
        self,
        view: i64,
        number: i64,
        safety: bool,
        kind: i64,
        unnamed: i64,
        page: i64,
        target: i64,
        epoch: i64,
        round: i64,  # noqa: A002
        root: i64,
        count: i64,
        rows: list[tuple[Source, int, int]],
        left_out: bool = False,
    ) -> None:
        self.view = view
        self.number = number
        self.safety = safety
        self.kind = kind
        self.unnamed = unnamed
        self.page = page
        self.target = target
        self.epoch = epoch
        self.round = round
        self.root = root
        self.count = count
        self.rows = rows
        self.left_out = left_out

    def frame_kind(self) -> i64:
        return ROUND

    def flags(self) -> i64:
        return (OF_SAFETY if self.safety else 0) | (LEFT_OUT if self.left_out else 0)

    def view_digest(self) -> i64:
        return self.view

    def view_number(self) -> i64:
        return self.number

    def size_bytes(self) -> i64:
        return _HEAD_BYTES + _ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        write_view(out, self.view, self.number)
        write_u32(out, self.kind | (self.unnamed << 8) | (self.page << 16))
        write_i64_le(out, self.target)
        write_i64_le(out, self.epoch)
        write_i64_le(out, self.round)
        write_u32(out, self.root)
        write_u32(out, self.count)
        for source, value, newest in self.rows:
            write_source(out, source)
            write_i64_le(out, value)
            write_i64_le(out, newest)

    @staticmethod
    def read(body: Body) -> "Round":
        """A message of a known kind."""
        at = body.at
        if body.size() < _HEAD_BYTES:
            raise RemoteProtocolError(f"round has {body.size()} bytes left for its head")
        view, number = body.count(at), body.u32(at + 8)
        rows_at = at + _HEAD_BYTES
        at += VIEW_BYTES
        head = body.u32(at)
        kind, unnamed = head & 0xFF, (head >> 8) & 0xFF
        if kind < 1 or kind > ROUND_KINDS or unnamed > ABSTAIN:
            raise RemoteProtocolError(f"round with a message of kind {kind}, unnamed {unnamed}")
        target = body.number(at + 4)
        if target < -1 or target > ID_MAX:
            raise RemoteProtocolError(f"round for member {target}")
        rows = [
            (body.source(row), int(body.count(row + 16)), int(body.count(row + 24)))
            for row in body.rows(rows_at, _ROW_BYTES, "ROUND")
        ]
        return Round(
            view,
            number,
            body.flags & OF_SAFETY != 0,
            kind,
            unnamed,
            head >> 16,
            target,
            body.count(at + 12),
            body.count(at + 20),
            body.u32(at + 28),
            body.u32(at + 32),
            rows,
            body.flags & LEFT_OUT != 0,
        )


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("ROUND", ROUND, OF_SAFETY | LEFT_OUT, Round.read),
)
