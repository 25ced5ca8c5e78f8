"""Gossip: messages that members pass on to each other, and what a link says of how it goes.

    0x30 RUMOUR   seq i64 · round u32 · the whole message, as one that is to be fragmented
    0x31 STAMP    number u32: the datagrams that its sender sent on this link, with this one
    0x32 HEARD    number u32, of the newest stamp that came; count u32, of all stamps that came

A RUMOUR has flag RELAYED when its source is not the sender of the datagram; the source then comes
first. `round` says how often the message was relayed before it came here. The message is left as
bytes: most copies that come are of messages that are here already, and nobody reads those.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_u32
from semcast.wire.frames import RELAYED, WHOLE_HEAD_BYTES, ControlFrame

RUMOUR: Final = 0x30
STAMP: Final = 0x31
HEARD: Final = 0x32

ROUND_MAX: Final = 255
_HEAD_BYTES: Final = 12
_STAMP_BYTES: Final = 4
_HEARD_BYTES: Final = 8
_U32_MAX: Final = 0xFFFFFFFF


@final
@dataclass(init=False)
class Rumour(ControlFrame):
    """One copy of a message, on its way from member to member."""

    source: Source
    seq: i64
    round: i64
    whole: bytes

    def __init__(self, source: Source, seq: i64, round: i64, whole: bytes) -> None:  # noqa: A002
        self.source = source
        self.seq = seq
        self.round = round
        self.whole = whole

    def frame_kind(self) -> i64:
        return RUMOUR

    def origin(self) -> Source | None:
        return self.source

    def size_bytes(self) -> i64:
        return _HEAD_BYTES + len(self.whole)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.seq)
        write_u32(out, self.round)
        out.write(self.whole)

    @staticmethod
    def read(body: Body) -> "Rumour":
        """A copy that is long enough to hold a message; what it holds is read later."""
        source = body.take_origin()
        at = body.at
        if body.size() < _HEAD_BYTES + WHOLE_HEAD_BYTES:
            raise RemoteProtocolError(f"RUMOUR frame has {body.size()} bytes left: cut short")
        relayed = body.u32(at + 8)
        if relayed > ROUND_MAX:
            raise RemoteProtocolError(f"RUMOUR frame of round {relayed}; {ROUND_MAX} is the last")
        return Rumour(source, body.seq(at), relayed, body.bytes_of(at + _HEAD_BYTES, body.end))


@final
@dataclass(init=False)
class Stamp(ControlFrame):
    """Which datagram of its link this one is, from 1 on."""

    number: i64

    def __init__(self, number: i64) -> None:
        self.number = number

    def frame_kind(self) -> i64:
        return STAMP

    def size_bytes(self) -> i64:
        return _STAMP_BYTES

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number & _U32_MAX)

    @staticmethod
    def read(body: Body) -> "Stamp":
        """A stamp, and nothing else."""
        _check_size("STAMP", body, _STAMP_BYTES)
        return Stamp(body.u32(body.at))


@final
@dataclass(init=False)
class Heard(ControlFrame):
    """What came of the datagrams of a link, back to their sender."""

    number: i64
    count: i64

    def __init__(self, number: i64, count: i64) -> None:
        self.number = number
        self.count = count

    def frame_kind(self) -> i64:
        return HEARD

    def size_bytes(self) -> i64:
        return _HEARD_BYTES

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number & _U32_MAX)
        write_u32(out, self.count & _U32_MAX)

    @staticmethod
    def read(body: Body) -> "Heard":
        """A number and a count, and nothing else."""
        _check_size("HEARD", body, _HEARD_BYTES)
        return Heard(body.u32(body.at), body.u32(body.at + 4))


def _check_size(name: str, body: Body, size: i64) -> None:
    if body.size() != size:
        raise RemoteProtocolError(f"{name} frame has {body.size()} bytes; it takes {size}")


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("RUMOUR", RUMOUR, RELAYED, Rumour.read),
    FrameType("STAMP", STAMP, 0, Stamp.read),
    FrameType("HEARD", HEARD, 0, Heard.read),
)
