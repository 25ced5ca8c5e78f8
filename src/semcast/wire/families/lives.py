"""Lives: who of a group is in which life, or gone.

    0x10 LIVES      view i64 · number u32 · then (member i64, life and gone i64)*

The life is shifted left by one bit; the lowest bit says that the member is gone in it. The view is
the sender's own, so that a receiver sees whether the two of them know the same.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import VIEW_BYTES, write_view
from semcast.wire.frames import ControlFrame

LIVES: Final = 0x10
# The smallest datagram has room for these.
LIVES_ROWS_MAX: Final = 24
_ROW_BYTES: Final = 16


@final
@dataclass(init=False)
class Lives(ControlFrame):
    """What the sender of this frame knows of some members."""

    # The view of the sender, which need not be that of the receiver.
    view: i64
    number: i64
    # (sender id, life, whether it is gone)
    rows: list[tuple[int, int, bool]]

    def __init__(self, view: i64, number: i64, rows: list[tuple[int, int, bool]]) -> None:
        self.view = view
        self.number = number
        self.rows = rows

    def frame_kind(self) -> i64:
        return LIVES

    def size_bytes(self) -> i64:
        return VIEW_BYTES + _ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        write_view(out, self.view, self.number)
        for member, life, gone in self.rows:
            write_i64_le(out, member)
            write_i64_le(out, 2 * life + int(gone))

    @staticmethod
    def read(body: Body) -> "Lives":
        """Any members are accepted; the receiver checks whether they are in the group."""
        at = body.at
        rows = []
        for row in body.rows(at + VIEW_BYTES, _ROW_BYTES, "LIVES"):
            member, life = body.number(row), body.number(row + 8)
            if member < 0 or member > ID_MAX or life < 0:
                raise RemoteProtocolError(f"LIVES frame with member {member}, life {life}")
            rows.append((int(member), int(life >> 1), bool(life & 1)))
        return Lives(body.count(at), body.u32(at + 8), rows)


FAMILY: Final[tuple[FrameType, ...]] = (FrameType("LIVES", LIVES, 0, Lives.read),)
