"""What sites of the two-phase protocol tell each other: records in and out, every field checked.

    0x01 OFFER     group i64 · seq i64 · the message     first phase: source to members
    0x02 PRIORITY  seq i64 · counter i64                 the answer of each member
    0x03 DECISION  seq i64 · counter i64 · site i64      second phase: source to members
    0x04 LEFT      group i64 · count i64                 how many messages left a member's queue

A number `seq` is one of the source's, which numbers its messages over all groups together; the link
says which site that is. The paper has the first three (PROP §2). LEFT is flow control, as an
acknowledgement is. Bad bytes raise RemoteProtocolError and nothing else.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX

OFFER: Final = 0x01
PRIORITY: Final = 0x02
DECISION: Final = 0x03
LEFT: Final = 0x04

# The fields of a record before the message that an OFFER has, all of eight bytes.
_FIELDS: Final = {OFFER: 2, PRIORITY: 2, DECISION: 3, LEFT: 2}
# What an OFFER takes beside its message.
OFFER_HEAD_BYTES: Final = 17


@final
@dataclass(init=False)
class Offer:
    """A message that a member is to give a priority to."""

    group: int
    seq: int
    whole: bytes

    def __init__(self, group: int, seq: int, whole: bytes) -> None:
        self.group = group
        self.seq = seq
        self.whole = whole


@final
@dataclass(init=False)
class Priority:
    """The priority that a member gives to a message; the member's id makes it unique."""

    seq: int
    counter: int

    def __init__(self, seq: int, counter: int) -> None:
        self.seq = seq
        self.counter = counter


@final
@dataclass(init=False)
class Decision:
    """The highest priority that a message was given, and by whom."""

    seq: int
    counter: int
    site: int

    def __init__(self, seq: int, counter: int, site: int) -> None:
        self.seq = seq
        self.counter = counter
        self.site = site


@final
@dataclass(init=False)
class Left:
    """How many messages of the source to a group have left the member's queue so far."""

    group: int
    count: int

    def __init__(self, group: int, count: int) -> None:
        self.group = group
        self.count = count


PhaseRecord: TypeAlias = Offer | Priority | Decision | Left


def write_record(record: PhaseRecord) -> bytes:
    """A record as bytes."""
    if isinstance(record, Offer):
        return _written(OFFER, (record.group, record.seq), record.whole)
    if isinstance(record, Priority):
        return _written(PRIORITY, (record.seq, record.counter), b"")
    if isinstance(record, Decision):
        return _written(DECISION, (record.seq, record.counter, record.site), b"")
    return _written(LEFT, (record.group, record.count), b"")


def _written(kind: int, numbers: tuple[int, ...], rest: bytes) -> bytes:
    out = BytesWriter()
    out.append(u8(kind))
    for number in numbers:
        write_i64_le(out, number)
    out.write(rest)
    return out.getvalue()


def read_record(data: bytes) -> PhaseRecord:
    """Bytes as a record."""
    kind = data[0] if data else 0
    fields = _FIELDS.get(kind)
    if fields is None:
        raise RemoteProtocolError(f"record of unknown kind {kind:#x}")
    size = 1 + 8 * fields
    if len(data) < size or (kind != OFFER and len(data) > size):
        raise RemoteProtocolError(f"record of kind {kind:#x} has {len(data)} bytes")
    numbers = [_number(data, 1 + 8 * at) for at in range(fields)]
    if kind == OFFER:
        return Offer(numbers[0], _seq(numbers[1]), data[size:])
    if kind == PRIORITY:
        return Priority(_seq(numbers[0]), _seq(numbers[1]))
    if kind == DECISION:
        return Decision(_seq(numbers[0]), _seq(numbers[1]), numbers[2])
    return Left(numbers[0], _seq(numbers[1]))


def _number(data: bytes, at: i64) -> int:
    found = int(read_i64_le(data, at))
    if not 0 <= found <= ID_MAX:
        raise RemoteProtocolError(f"number {found} in a record is out of range")
    return found


def _seq(number: int) -> int:
    if not 1 <= number < SEQ_MAX:
        raise RemoteProtocolError(f"number {number} in a record is out of range")
    return number
