"""Agreement on the views of an open group: wishes, ballots, and views or changes in parts.

    0x11 JOIN       attempt u8 · origin i64 · name (UTF-8, to the end)
    0x12 WISHES     view i64 · number u32 · origin i64 · present u32 ·
                    then (what u8, member i64, life i64)*
    0x13 BALLOT     view i64 · number u32 · step u8 · ballot i64 · voted i64 · parcel i64
    0x14 PART       parcel i64 · what u8 · number u32 · index u16 · count u16 · bytes (to the end)
    0x15 LACK       parcel i64 · number u32 · then (first u16, last u16)*

A JOIN is of a process that is not in, and names the origin of the group that it wants to be let
into; 0 while it knows of none. A member passes it on with its source (flag RELAYED). With flag
CONTACT it was sent to one member only. WISHES with flag ANSWER were said to one that spoke of
another view. The view in WISHES and BALLOT is that of whoever sends the frame, so that a receiver
sees which of the two lags behind.

A parcel is a whole view, or a change of one, as bytes; its number is made from these bytes. A view
of thousands of members does not fit a datagram, so parcels travel in parts, and what is missing is
asked for. A LACK with parcel 0 asks for whatever is newer than the view with this number.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import VIEW_BYTES, write_u16, write_u32, write_view
from semcast.wire.frames import RELAYED, ControlFrame

JOIN: Final = 0x11
WISHES: Final = 0x12
BALLOT: Final = 0x13
PART: Final = 0x14
LACK: Final = 0x15

# Flag of JOIN, and flag of WISHES.
CONTACT: Final = 0x02
ANSWER: Final = 0x02

# What a row of WISHES says of a member.
ACCUSE: Final = 1
WITHDRAW: Final = 2
LEAVE: Final = 3
GONE: Final = 4
ENDED: Final = 5
REFUTE: Final = 6
# Steps of a ballot.
PREPARE: Final = 1
PROMISE: Final = 2
REFUSE: Final = 3
ACCEPT: Final = 4
VOTE: Final = 5
DECIDED: Final = 6
# What a parcel is.
CHANGE_PARCEL: Final = 1
VIEW_PARCEL: Final = 2

NAME_BYTES_MAX: Final = 255
ATTEMPT_MAX: Final = 255
# The smallest datagram has room for these.
WISHES_ROWS_MAX: Final = 24
PART_BYTES_MAX: Final = 400
LACK_ROWS_MAX: Final = 48
# More than the view of the largest group has, with names as long as they may be.
PARTS_MAX: Final = 4096
_BALLOT_MAX: Final = 1 << 48
_JOIN_BYTES: Final = 9
_WISHES_HEAD_BYTES: Final = VIEW_BYTES + 12
_WISH_BYTES: Final = 17
_BALLOT_BYTES: Final = VIEW_BYTES + 25
_PART_HEAD_BYTES: Final = 17
_LACK_HEAD_BYTES: Final = 12
_RANGE_BYTES: Final = 4


@final
@dataclass(init=False)
class Join(ControlFrame):
    """A process asks to be let in."""

    # The life that wants to come in.
    source: Source
    name: str
    # How often it has asked before.
    attempt: i64
    # Whether it asked one member only, which then tells the others.
    contact: bool
    # The group that it asks, for this life the only one; 0 while it knows of none.
    group: i64

    def __init__(self, source: Source, name: str, attempt: i64, contact: bool, group: i64) -> None:
        self.source = source
        self.name = name
        self.attempt = attempt
        self.contact = contact
        self.group = group

    def frame_kind(self) -> i64:
        return JOIN

    def flags(self) -> i64:
        return CONTACT if self.contact else 0

    def origin(self) -> Source | None:
        return self.source

    def size_bytes(self) -> i64:
        return _JOIN_BYTES + len(self.name.encode())

    def write(self, out: BytesWriter) -> None:
        out.append(u8(self.attempt))
        write_i64_le(out, self.group)
        out.write(self.name.encode())

    @staticmethod
    def read(body: Body) -> "Join":
        """A name of a reasonable length."""
        source = body.take_origin()
        size = body.size()
        if size < _JOIN_BYTES or size > _JOIN_BYTES + NAME_BYTES_MAX:
            raise RemoteProtocolError(f"JOIN frame has {size} bytes; it has from 9 to 264")
        name = read_name(body.bytes_of(body.at + _JOIN_BYTES, body.end), "JOIN")
        attempt, contact = _byte(body, body.at), body.flags & CONTACT != 0
        return Join(source, name, attempt, contact, body.count(body.at + 1))


@final
@dataclass(init=False)
class Wishes(ControlFrame):
    """What a member wishes of the next view; without rows, it only says which view it has."""

    # The view of the sender, which need not be that of the receiver.
    view: i64
    number: i64
    # Where that view comes from, and how many are present in it: two groups of one name that meet
    # compare these.
    group: i64
    present: i64
    # (what, sender id, life)
    rows: list[tuple[int, int, int]]
    answer: bool

    def __init__(
        self,
        view: i64,
        number: i64,
        group: i64,
        present: i64,
        rows: list[tuple[int, int, int]],
        answer: bool = False,
    ) -> None:
        self.view = view
        self.number = number
        self.group = group
        self.present = present
        self.rows = rows
        self.answer = answer

    def frame_kind(self) -> i64:
        return WISHES

    def flags(self) -> i64:
        return ANSWER if self.answer else 0

    def size_bytes(self) -> i64:
        return _WISHES_HEAD_BYTES + _WISH_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        write_view(out, self.view, self.number)
        write_i64_le(out, self.group)
        write_u32(out, self.present)
        for what, member, life in self.rows:
            out.append(u8(what))
            write_i64_le(out, member)
            write_i64_le(out, life)

    @staticmethod
    def read(body: Body) -> "Wishes":
        """Any members are accepted; the receiver checks whether they are in the group."""
        at = body.at
        rows = []
        for row in body.rows(at + _WISHES_HEAD_BYTES, _WISH_BYTES, "WISHES"):
            what, member, life = _byte(body, row), body.number(row + 1), body.number(row + 9)
            if what < ACCUSE or what > REFUTE:
                raise RemoteProtocolError(f"WISHES frame with a wish of kind {what}")
            if member < 0 or member > ID_MAX or life < 0 or life > ID_MAX:
                raise RemoteProtocolError(f"WISHES frame with member {member}, life {life}")
            rows.append((int(what), int(member), int(life)))
        group = body.count(at + VIEW_BYTES)
        present = body.u32(at + VIEW_BYTES + 8)
        answer = body.flags & ANSWER != 0
        return Wishes(body.count(at), body.u32(at + 8), group, present, rows, answer)


@final
@dataclass(init=False)
class Ballot(ControlFrame):
    """A step of the consensus that decides what follows a view."""

    view: i64
    number: i64
    step: i64
    ballot: i64
    # Of a promise: the ballot in which its sender last voted, or -1.
    voted: i64
    # The change that is proposed, that was voted for, or that is decided; or 0.
    parcel: i64

    def __init__(
        self, view: i64, number: i64, step: i64, ballot: i64, voted: i64, parcel: i64
    ) -> None:
        self.view = view
        self.number = number
        self.step = step
        self.ballot = ballot
        self.voted = voted
        self.parcel = parcel

    def frame_kind(self) -> i64:
        return BALLOT

    def size_bytes(self) -> i64:
        return _BALLOT_BYTES

    def write(self, out: BytesWriter) -> None:
        write_view(out, self.view, self.number)
        out.append(u8(self.step))
        write_i64_le(out, self.ballot)
        write_i64_le(out, self.voted)
        write_i64_le(out, self.parcel)

    @staticmethod
    def read(body: Body) -> "Ballot":
        """Steps that there are, with the numbers that they need."""
        at = body.at
        if body.size() != _BALLOT_BYTES:
            raise RemoteProtocolError(f"BALLOT frame has {body.size()} bytes, not {_BALLOT_BYTES}")
        step = _byte(body, at + VIEW_BYTES)
        ballot, voted = body.number(at + VIEW_BYTES + 1), body.number(at + VIEW_BYTES + 9)
        parcel = body.count(at + VIEW_BYTES + 17)
        if step < PREPARE or step > DECIDED:
            raise RemoteProtocolError(f"BALLOT frame with step {step}")
        if not 0 <= ballot <= _BALLOT_MAX or not -1 <= voted <= ballot:
            raise RemoteProtocolError(f"BALLOT frame with ballot {ballot}, voted in {voted}")
        needs = step in (ACCEPT, DECIDED) or voted >= 0
        if needs != (parcel != 0) or (voted >= 0 and step != PROMISE):
            raise RemoteProtocolError(f"BALLOT frame of step {step} with parcel {parcel}")
        return Ballot(body.count(at), body.u32(at + 8), step, ballot, voted, parcel)


@final
@dataclass(init=False)
class PartOf(ControlFrame):
    """A part of a parcel."""

    parcel: i64
    # CHANGE_PARCEL or VIEW_PARCEL.
    what: i64
    # The number of the view that it is, or that it changes.
    number: i64
    index: i64
    count: i64
    data: bytes

    def __init__(
        self, parcel: i64, what: i64, number: i64, index: i64, count: i64, data: bytes
    ) -> None:
        self.parcel = parcel
        self.what = what
        self.number = number
        self.index = index
        self.count = count
        self.data = data

    def frame_kind(self) -> i64:
        return PART

    def size_bytes(self) -> i64:
        return _PART_HEAD_BYTES + len(self.data)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.parcel)
        out.append(u8(self.what))
        write_u32(out, self.number)
        write_u16(out, self.index)
        write_u16(out, self.count)
        out.write(self.data)

    @staticmethod
    def read(body: Body) -> "PartOf":
        """A part that has bytes and a place."""
        at = body.at
        parcel, what = body.count(at), _byte(body, at + 8)
        index, count = body.u16(at + 13), body.u16(at + 15)
        size = body.size() - _PART_HEAD_BYTES
        if what not in (CHANGE_PARCEL, VIEW_PARCEL) or parcel == 0:
            raise RemoteProtocolError(f"PART frame of parcel {parcel}, kind {what}")
        if index >= count or count > PARTS_MAX or not 1 <= size <= PART_BYTES_MAX:
            raise RemoteProtocolError(f"PART frame {index} of {count} with {size} bytes")
        data = body.bytes_of(at + _PART_HEAD_BYTES, body.end)
        return PartOf(parcel, what, body.u32(at + 9), index, count, data)


@final
@dataclass(init=False)
class Lack(ControlFrame):
    """Asks for parts of a parcel; or, with parcel 0, for what follows a view."""

    parcel: i64
    number: i64
    # The parts that are missing: (first, last). None at all means: from the first on.
    ranges: list[tuple[int, int]]

    def __init__(self, parcel: i64, number: i64, ranges: list[tuple[int, int]]) -> None:
        self.parcel = parcel
        self.number = number
        self.ranges = ranges

    def frame_kind(self) -> i64:
        return LACK

    def size_bytes(self) -> i64:
        return _LACK_HEAD_BYTES + _RANGE_BYTES * len(self.ranges)

    def write(self, out: BytesWriter) -> None:
        write_i64_le(out, self.parcel)
        write_u32(out, self.number)
        for first, last in self.ranges:
            write_u16(out, first)
            write_u16(out, last)

    @staticmethod
    def read(body: Body) -> "Lack":
        """Ranges that are in order."""
        at = body.at
        ranges = []
        for row in body.rows(at + _LACK_HEAD_BYTES, _RANGE_BYTES, "LACK"):
            first, last = body.u16(row), body.u16(row + 2)
            if first > last or last >= PARTS_MAX:
                raise RemoteProtocolError(f"LACK frame for parts {first} to {last}")
            ranges.append((int(first), int(last)))
        return Lack(body.count(at), body.u32(at + 8), ranges)


def read_name(data: bytes, what: str) -> str:
    """The name of a process."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        where = f"at byte {error.start} of {len(data)}"
        raise RemoteProtocolError(f"{what} has a name that is no UTF-8 {where}") from error


def _byte(body: Body, at: i64) -> i64:
    return i64(body.bytes_of(at, at + 1)[0])


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("JOIN", JOIN, RELAYED | CONTACT, Join.read),
    FrameType("WISHES", WISHES, ANSWER, Wishes.read),
    FrameType("BALLOT", BALLOT, 0, Ballot.read),
    FrameType("PART", PART, 0, PartOf.read),
    FrameType("LACK", LACK, 0, Lack.read),
)
