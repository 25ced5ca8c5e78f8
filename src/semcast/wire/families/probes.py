"""Probes: whether members are alive, asked of themselves and of others.

    0x16 PING       number i64 · wait_us u32
    0x17 ASK        member i64 · life i64 · number i64
    0x18 VOUCH      member i64 · life i64 · number i64 · age_us u32

A PING without flags is a heartbeat. With flag ASKS its receiver should answer at once; the answer
has flag ANSWERS and the same number. With flag ACCUSES its sender accuses the receiver. `wait_us`
says how long others should wait for the sender before they accuse it, if it is overloaded.

An ASK says that its sender hears nothing of a member. Its receiver answers with a VOUCH at once,
asks that member itself, and if that one answers sends another VOUCH, with the number of the ASK.
The age is the time since the sender of the VOUCH heard of the member; AGE_NEVER if it did not.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u32
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

PING: Final = 0x16
ASK: Final = 0x17
VOUCH: Final = 0x18

# Flags of PING frames.
ASKS: Final = 0x01
ANSWERS: Final = 0x02
ACCUSES: Final = 0x04
# As an age: nothing was ever heard.
AGE_NEVER: Final = 0xFFFF_FFFF
WAIT_US_MAX: Final = 0xFFFF_FFFF
_PING_BYTES: Final = 12
_ASK_BYTES: Final = SOURCE_BYTES + 8
_VOUCH_BYTES: Final = SOURCE_BYTES + 12


@final
@dataclass(init=False)
class Ping(ControlFrame):
    """A heartbeat, a question, or the answer to one."""

    # ASKS, ANSWERS and ACCUSES.
    marks: i64
    number: i64
    wait_us: i64

    def __init__(self, marks: i64, number: i64, wait_us: i64) -> None:
        self.marks = marks
        self.number = number
        self.wait_us = wait_us

    def frame_kind(self) -> i64:
        return PING

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        return _PING_BYTES

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.number)
        write_u32(out, self.wait_us)

    @staticmethod
    def read(body: Body) -> "Ping":
        """A number and a time, and nothing else."""
        _check_size(body, _PING_BYTES, "PING")
        return Ping(body.flags, body.count(body.at), body.u32(body.at + 8))


@final
@dataclass(init=False)
class Ask(ControlFrame):
    """Has the receiver heard of this life of a member?"""

    source: Source
    number: i64

    def __init__(self, source: Source, number: i64) -> None:
        self.source = source
        self.number = number

    def frame_kind(self) -> i64:
        return ASK

    def size_bytes(self) -> i64:
        return _ASK_BYTES

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        write_i64_le(out, self.number)

    @staticmethod
    def read(body: Body) -> "Ask":
        """Any source is accepted; the receiver checks whether it is in the group."""
        _check_size(body, _ASK_BYTES, "ASK")
        return Ask(body.source(body.at), body.count(body.at + SOURCE_BYTES))


@final
@dataclass(init=False)
class Vouch(ControlFrame):
    """How long ago the sender heard of this life of a member."""

    source: Source
    number: i64
    age_us: i64

    def __init__(self, source: Source, number: i64, age_us: i64) -> None:
        self.source = source
        self.number = number
        self.age_us = age_us

    def frame_kind(self) -> i64:
        return VOUCH

    def size_bytes(self) -> i64:
        return _VOUCH_BYTES

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        write_i64_le(out, self.number)
        write_u32(out, self.age_us)

    @staticmethod
    def read(body: Body) -> "Vouch":
        """Any source is accepted; the receiver checks whether it asked for that one."""
        _check_size(body, _VOUCH_BYTES, "VOUCH")
        at = body.at + SOURCE_BYTES
        return Vouch(body.source(body.at), body.count(at), body.u32(at + 8))


def _check_size(body: Body, size: i64, what: str) -> None:
    if body.size() != size:
        raise RemoteProtocolError(f"{what} frame has {body.size()} bytes where {size} belong")


ProbeFrame: TypeAlias = Ping | Ask | Vouch

FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("PING", PING, ASKS | ANSWERS | ACCUSES, Ping.read),
    FrameType("ASK", ASK, 0, Ask.read),
    FrameType("VOUCH", VOUCH, 0, Vouch.read),
)
