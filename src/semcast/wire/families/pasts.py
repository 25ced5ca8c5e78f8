"""Pasts: how far members have got with a life that is over.

    0x1f PAST       source · seq i64

With flag ASKS somebody wants to know how far the receiver has got with this life; seq is 0. The
answer has flag ENDED if that life has ended, so that all members have got as far as seq and nobody
will get farther; flag UNKNOWN if the sender of the frame never knew, or has forgotten; and neither
if it is not decided yet.

With flags ASKS and AGAIN somebody asks the sender of that life itself, in a later one: seq is how
far the asker had got. The answer has flag AGAIN: up to seq, the messages of the later life are
such as the asker had then, and were sent again.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

PAST: Final = 0x1F

# Flags, of which at most one is set, but for ASKS and AGAIN.
ASKS: Final = 0x01
ENDED: Final = 0x02
UNKNOWN: Final = 0x04
AGAIN: Final = 0x08

_PAST_BYTES: Final = SOURCE_BYTES + 8


@final
@dataclass(init=False)
class Past(ControlFrame):
    """A question about a life that is over, or the answer."""

    # ASKS, ENDED, UNKNOWN, AGAIN, ASKS and AGAIN, or none of them.
    says: i64
    source: Source
    # The last message of it that members have got.
    seq: i64

    def __init__(self, says: i64, source: Source, seq: i64 = 0) -> None:
        self.says = says
        self.source = source
        self.seq = seq

    def frame_kind(self) -> i64:
        return PAST

    def flags(self) -> i64:
        return self.says

    def size_bytes(self) -> i64:
        return _PAST_BYTES

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        write_i64_le(out, self.seq)

    @staticmethod
    def read(body: Body) -> "Past":
        """Any source is accepted; the receiver knows which ones it has asked about."""
        if body.size() != _PAST_BYTES:
            raise RemoteProtocolError(f"PAST frame has {body.size()} bytes, not {_PAST_BYTES}")
        if body.flags not in (0, ASKS, ENDED, UNKNOWN, AGAIN, ASKS | AGAIN):
            raise RemoteProtocolError(f"PAST frame with flags {body.flags:#x} that exclude another")
        return Past(body.flags, body.source(body.at), body.count(body.at + SOURCE_BYTES))


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("PAST", PAST, ASKS | ENDED | UNKNOWN | AGAIN, Past.read),
)
