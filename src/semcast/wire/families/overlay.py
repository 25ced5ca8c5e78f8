"""The overlay: members of a group too large to know keep a few neighbours each (HyParView).

    0x38 ENTER       ttl u8 · entry
    0x39 NEIGHBOR    number u32 · entry
    0x3a DISCONNECT  nothing
    0x3b SHUFFLE     number u32 · ttl u8 · entry · entry*
    0x3c PULSE       number u32 · steady u16 · source · beat i64

An entry says who a member is, how old that news is, and how the member is reached: source · age u8
· address_len u8 · address. The age is the number of rounds since somebody heard of the member from
itself. The address has at most 20 bytes; only the world outside the protocol understands it.

ENTER without flags comes from the newcomer that it names. With flag WALKS it goes from neighbour to
neighbour, `ttl` more steps. NEIGHBOR asks its receiver to be a neighbour of its sender, which the
entry names; flag URGENT: the sender has none, or needs this one, so a full view makes room. The
answer repeats the number and has flag ACCEPTS or REFUSES. DISCONNECT ends that; flag LEAVES: its
sender leaves the group, and is to be forgotten.

SHUFFLE walks likewise. Its first entry is the member that began it, and the others are those that
it knows; with flag ANSWERS they come back, to that number, from the member where it ended.

A PULSE is a sign of life. Flag ASKS: its receiver answers at once, with flag ANSWERS and the same
number. Flag LINKED: its sender has the receiver as a neighbour. The source is the beacon of the
sender's island, `beat` the last beat of that beacon that came so far, and `steady` for how many
rounds the sender has had this beacon.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u16, write_u32
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

ENTER: Final = 0x38
NEIGHBOR: Final = 0x39
DISCONNECT: Final = 0x3A
SHUFFLE: Final = 0x3B
PULSE: Final = 0x3C

# Flag of ENTER frames.
WALKS: Final = 0x01
# Flags of NEIGHBOR frames.
URGENT: Final = 0x01
ACCEPTS: Final = 0x02
REFUSES: Final = 0x04
# Flag of DISCONNECT frames.
LEAVES: Final = 0x01
# Flag of SHUFFLE frames.
COMES_BACK: Final = 0x01
# Flags of PULSE frames.
ASKS: Final = 0x01
ANSWERS: Final = 0x02
LINKED: Final = 0x04

# An IPv6 address and a port, and two bytes for whatever else a transport needs.
ADDRESS_BYTES_MAX: Final = 20
# The smallest datagram has room for these, each with the longest address.
SHUFFLE_ENTRIES_MAX: Final = 10
# No walk is longer than this, whatever its first step says.
TTL_MAX: Final = 16
STEADY_MAX: Final = 0xFFFF
AGE_MAX: Final = 0xFF
_ENTRY_HEAD_BYTES: Final = SOURCE_BYTES + 2
_PULSE_BYTES: Final = 4 + 2 + SOURCE_BYTES + 8


@final
@dataclass(init=False)
class Entry:
    """A member as others know it: which life of it, how to reach it, and how old the news is."""

    source: Source
    address: bytes
    # In rounds.
    age: i64

    def __init__(self, source: Source, address: bytes = b"", age: i64 = 0) -> None:
        assert len(address) <= ADDRESS_BYTES_MAX
        assert 0 <= age <= AGE_MAX
        self.source = source
        self.address = address
        self.age = age

    def size_bytes(self) -> i64:
        """How many bytes it takes in a frame."""
        return _ENTRY_HEAD_BYTES + len(self.address)

    def write(self, out: BytesWriter) -> None:
        write_source(out, self.source)
        out.append(u8(self.age))
        out.append(u8(len(self.address)))
        out.write(self.address)


@final
@dataclass(init=False)
class Enter(ControlFrame):
    """A newcomer wants to be in the overlay."""

    walks: bool
    ttl: i64
    newcomer: Entry

    def __init__(self, newcomer: Entry, walks: bool = False, ttl: i64 = 0) -> None:
        self.newcomer = newcomer
        self.walks = walks
        self.ttl = ttl

    def frame_kind(self) -> i64:
        return ENTER

    def flags(self) -> i64:
        return WALKS if self.walks else 0

    def size_bytes(self) -> i64:
        return 1 + self.newcomer.size_bytes()

    def write(self, out: BytesWriter) -> None:
        out.append(u8(self.ttl))
        self.newcomer.write(out)

    @staticmethod
    def read(body: Body) -> "Enter":
        """One entry; a frame that does not walk has no steps left."""
        walks, ttl = body.flags & WALKS != 0, _ttl(body, body.at)
        if ttl > 0 and not walks:
            raise RemoteProtocolError(f"ENTER frame of a newcomer with {ttl} steps to go")
        return Enter(_one_entry(body, body.at + 1, "ENTER"), walks, ttl)


@final
@dataclass(init=False)
class Neighbor(ControlFrame):
    """A question whether to be neighbours, or the answer to it."""

    # URGENT, ACCEPTS and REFUSES.
    marks: i64
    number: i64
    sender: Entry

    def __init__(self, marks: i64, number: i64, sender: Entry) -> None:
        self.marks = marks
        self.number = number
        self.sender = sender

    def frame_kind(self) -> i64:
        return NEIGHBOR

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        return 4 + self.sender.size_bytes()

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        self.sender.write(out)

    @staticmethod
    def read(body: Body) -> "Neighbor":
        """A question, or one of the two answers."""
        if body.flags & ACCEPTS and body.flags & REFUSES:
            raise RemoteProtocolError(f"NEIGHBOR frame with flags {body.flags:#x}: yes and no")
        entry = _one_entry(body, body.at + 4, "NEIGHBOR")
        return Neighbor(body.flags, body.u32(body.at), entry)


@final
@dataclass(init=False)
class Disconnect(ControlFrame):
    """Two members are no neighbours any more."""

    leaves: bool

    def __init__(self, leaves: bool = False) -> None:
        self.leaves = leaves

    def frame_kind(self) -> i64:
        return DISCONNECT

    def flags(self) -> i64:
        return LEAVES if self.leaves else 0

    def size_bytes(self) -> i64:
        return 0

    def write(self, out: BytesWriter) -> None:
        """It has no body."""

    @staticmethod
    def read(body: Body) -> "Disconnect":
        """Nothing but flags."""
        if body.size() > 0:
            raise RemoteProtocolError(f"DISCONNECT frame has {body.size()} bytes where 0 belong")
        return Disconnect(body.flags & LEAVES != 0)


@final
@dataclass(init=False)
class Shuffle(ControlFrame):
    """Entries of views, which two members exchange."""

    answers: bool
    number: i64
    ttl: i64
    # Who began it, and to whom the answer goes.
    begun_by: Entry
    entries: list[Entry]

    def __init__(
        self, begun_by: Entry, entries: list[Entry], number: i64, ttl: i64, answers: bool = False
    ) -> None:
        self.begun_by = begun_by
        self.entries = entries
        self.number = number
        self.ttl = ttl
        self.answers = answers

    def frame_kind(self) -> i64:
        return SHUFFLE

    def flags(self) -> i64:
        return COMES_BACK if self.answers else 0

    def size_bytes(self) -> i64:
        size = 5 + self.begun_by.size_bytes()
        for entry in self.entries:
            size += entry.size_bytes()
        return size

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        out.append(u8(self.ttl))
        self.begun_by.write(out)
        for entry in self.entries:
            entry.write(out)

    @staticmethod
    def read(body: Body) -> "Shuffle":
        """Entries up to the end, no more than a view is ready to take."""
        begun_by, at = _entry(body, body.at + 5)
        entries: list[Entry] = []
        while at < body.end:
            if len(entries) == SHUFFLE_ENTRIES_MAX:
                raise RemoteProtocolError(
                    f"SHUFFLE frame with more than {SHUFFLE_ENTRIES_MAX} entries"
                )
            entry, at = _entry(body, at)
            entries.append(entry)
        ttl = _ttl(body, body.at + 4)
        return Shuffle(begun_by, entries, body.u32(body.at), ttl, body.flags & COMES_BACK != 0)


@final
@dataclass(init=False)
class Pulse(ControlFrame):
    """A sign of life, a question for one, or the answer; and on which island the sender is."""

    # ASKS, ANSWERS and LINKED.
    marks: i64
    number: i64
    steady: i64
    beacon: Source
    beat: i64

    def __init__(self, marks: i64, number: i64, beacon: Source, beat: i64, steady: i64) -> None:
        self.marks = marks
        self.number = number
        self.beacon = beacon
        self.beat = beat
        self.steady = steady

    def frame_kind(self) -> i64:
        return PULSE

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        return _PULSE_BYTES

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        write_u16(out, self.steady)
        write_source(out, self.beacon)
        write_i64_le(out, self.beat)

    @staticmethod
    def read(body: Body) -> "Pulse":
        """Any source may be a beacon; the receiver takes none that grows stale."""
        if body.size() != _PULSE_BYTES:
            raise RemoteProtocolError(
                f"PULSE frame has {body.size()} bytes where {_PULSE_BYTES} belong"
            )
        at = body.at
        beacon, beat = body.source(at + 6), body.count(at + 6 + SOURCE_BYTES)
        return Pulse(body.flags, body.u32(at), beacon, beat, body.u16(at + 4))


def _ttl(body: Body, at: i64) -> i64:
    ttl: i64 = body.bytes_of(at, at + 1)[0]
    if ttl > TTL_MAX:
        raise RemoteProtocolError(f"a walk of {ttl} steps; {TTL_MAX} are the most")
    return ttl


def _entry(body: Body, at: i64) -> tuple[Entry, i64]:
    """An entry, and where it ends."""
    source = body.source(at)
    at += _ENTRY_HEAD_BYTES
    size: i64 = body.bytes_of(at - 1, at)[0]
    if size > ADDRESS_BYTES_MAX:
        raise RemoteProtocolError(f"an address of {size} bytes; {ADDRESS_BYTES_MAX} are the most")
    age = body.bytes_of(at - 2, at - 1)[0]
    return Entry(source, body.bytes_of(at, at + size), age), at + size


def _one_entry(body: Body, at: i64, what: str) -> Entry:
    entry, end = _entry(body, at)
    if end != body.end:
        raise RemoteProtocolError(f"{what} frame has {body.end - end} bytes after its entry")
    return entry


OverlayFrame: TypeAlias = Enter | Neighbor | Disconnect | Shuffle | Pulse

FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("ENTER", ENTER, WALKS, Enter.read),
    FrameType("NEIGHBOR", NEIGHBOR, URGENT | ACCEPTS | REFUSES, Neighbor.read),
    FrameType("DISCONNECT", DISCONNECT, LEAVES, Disconnect.read),
    FrameType("SHUFFLE", SHUFFLE, COMES_BACK, Shuffle.read),
    FrameType("PULSE", PULSE, ASKS | ANSWERS | LINKED, Pulse.read),
)
