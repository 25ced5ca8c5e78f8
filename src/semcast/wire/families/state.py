"""State: what stands, for a process that comes late. It asks, and somebody sends chunks of it.

    0x1c NEED   number u32 · bytes u32 · source · after i64 · until i64 · cut i64 · offset u32
    0x1d CHUNK  number u32 · index u32 · source · after i64 · upto i64 · cut i64 · then records:
                seq i64 · length u32 · a message in the form of a fragmented one (`frames`)
                or, with flag PIECE: offset u32 · total u32 · bytes
    0x1e TELL   number u32 · answer u32 · then (source, ended i64)*

NEED wants the standing messages of `source` after one number and up to another, as they are at the
`cut`, about so many bytes of them. Flag LIST asks instead of which sources there is anything, from
`source` on; flag SNAPSHOT for what the application of another member has saved, of which `after` is
the number, or 0. Flag URGENT asks also a member that has no time.

CHUNK says that the records are all that stands from `after` (without it) up to `upto`, so it can be
used whenever it comes, whoever sent it. A message too large for one chunk comes in pieces, of which
each says the same; so does a snapshot. Flag LAST: no more chunks come for this NEED; this one may
cover nothing. Flag INCOMPLETE: there was more, but its keys found no room.

TELL has a part of the list (flag LAST: the end of it), or says why there is no answer.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u32
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

NEED: Final = 0x1C
CHUNK: Final = 0x1D
TELL: Final = 0x1E

# Flags of NEED.
LIST: Final = 0x01
SNAPSHOT: Final = 0x02
URGENT: Final = 0x04
# Flags of CHUNK and TELL.
LAST: Final = 0x01
# SNAPSHOT is the same in NEED and CHUNK.
PIECE: Final = 0x04
INCOMPLETE: Final = 0x08

# What TELL answers: a part of the list; the sender does not have everything up to the cut yet; it
# has no time; it comes late itself; it keeps no state.
LISTED: Final = 0
LATER: Final = 1
BUSY: Final = 2
NEWCOMER: Final = 3
KEEPS_NONE: Final = 4

# The smallest datagram has room for these.
TELL_ROWS_MAX: Final = 12
_NEED_BYTES: Final = 8 + SOURCE_BYTES + 28
CHUNK_HEAD_BYTES: Final = 8 + SOURCE_BYTES + 24
PIECE_HEAD_BYTES: Final = CHUNK_HEAD_BYTES + 8
_TELL_HEAD_BYTES: Final = 8
_ROW_BYTES: Final = SOURCE_BYTES + 8


@final
@dataclass(init=False)
class Need(ControlFrame):
    """A newcomer asks for a part of the state."""

    # LIST, SNAPSHOT, URGENT, or none of them.
    wants: i64
    # The newcomer's number of this request, which answers repeat.
    number: i64
    # About so many bytes of answers are welcome.
    bytes_max: i64
    source: Source
    after: i64
    until: i64
    # The newcomer's stream of the source begins after this one.
    cut: i64
    # So much of the first message, or of the snapshot, is there already.
    offset: i64

    def __init__(
        self,
        wants: i64,
        number: i64,
        bytes_max: i64,
        source: Source,
        after: i64 = 0,
        until: i64 = 0,
        cut: i64 = 0,
        offset: i64 = 0,
    ) -> None:
        self.wants = wants
        self.number = number
        self.bytes_max = bytes_max
        self.source = source
        self.after = after
        self.until = until
        self.cut = cut
        self.offset = offset

    def frame_kind(self) -> i64:
        return NEED

    def flags(self) -> i64:
        return self.wants

    def size_bytes(self) -> i64:
        return _NEED_BYTES

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        write_u32(out, self.bytes_max)
        write_source(out, self.source)
        write_i64_le(out, self.after)
        write_i64_le(out, self.until)
        write_i64_le(out, self.cut)
        write_u32(out, self.offset)

    @staticmethod
    def read(body: Body) -> "Need":
        """A request for something; what lies behind the cut is none of its business."""
        at = body.at
        if body.size() != _NEED_BYTES:
            raise RemoteProtocolError(f"NEED frame has {body.size()} bytes, not {_NEED_BYTES}")
        if body.flags & LIST and body.flags & SNAPSHOT:
            raise RemoteProtocolError(f"NEED frame for a list and a snapshot: {body.flags:#x}")
        row = at + 8 + SOURCE_BYTES
        after, until, cut = body.count(row), body.count(row + 8), body.count(row + 16)
        if not body.flags & (LIST | SNAPSHOT) and not after < until <= cut:
            raise RemoteProtocolError(f"NEED frame for seq {after + 1} to {until}, cut {cut}")
        return Need(
            body.flags,
            body.u32(at),
            body.u32(at + 4),
            body.source(at + 8),
            after,
            until,
            cut,
            body.u32(row + 24),
        )


@final
@dataclass(init=False)
class Chunk(ControlFrame):
    """A part of the state: records, or a piece of one message or of a snapshot."""

    marks: i64
    number: i64
    # The place among the chunks that answer one NEED.
    index: i64
    source: Source
    after: i64
    upto: i64
    cut: i64
    # Records (`wire/state_records.py` reads them), or the piece.
    content: bytes
    # Of a piece: where it begins, and how large the whole is.
    offset: i64
    total: i64

    def __init__(
        self,
        marks: i64,
        number: i64,
        index: i64,
        source: Source,
        after: i64,
        upto: i64,
        cut: i64,
        content: bytes,
        offset: i64 = 0,
        total: i64 = 0,
    ) -> None:
        self.marks = marks
        self.number = number
        self.index = index
        self.source = source
        self.after = after
        self.upto = upto
        self.cut = cut
        self.content = content
        self.offset = offset
        self.total = total

    def frame_kind(self) -> i64:
        return CHUNK

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        head: i64 = PIECE_HEAD_BYTES if self.marks & PIECE else CHUNK_HEAD_BYTES
        return head + len(self.content)

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        write_u32(out, self.index)
        write_source(out, self.source)
        write_i64_le(out, self.after)
        write_i64_le(out, self.upto)
        write_i64_le(out, self.cut)
        if self.marks & PIECE:
            write_u32(out, self.offset)
            write_u32(out, self.total)
        out.write(self.content)

    @staticmethod
    def read(body: Body) -> "Chunk":
        """A chunk whose sizes fit together; its records are read later."""
        at = body.at
        row = at + 8 + SOURCE_BYTES
        after, upto, cut = body.count(row), body.count(row + 8), body.count(row + 16)
        snapshot = body.flags & SNAPSHOT != 0
        if not snapshot and not after <= upto <= cut:
            raise RemoteProtocolError(f"CHUNK frame of seq {after + 1} to {upto}, cut {cut}")
        if snapshot and not body.flags & PIECE:
            raise RemoteProtocolError(f"CHUNK frame of a snapshot, no piece: {body.flags:#x}")
        offset: i64 = 0
        total: i64 = 0
        head = at + CHUNK_HEAD_BYTES
        if body.flags & PIECE:
            offset, total = body.u32(head), body.u32(head + 4)
            head = at + PIECE_HEAD_BYTES
            size = body.end - head
            if size < 1 or offset + size > total:
                raise RemoteProtocolError(f"CHUNK frame of {size} bytes at {offset} of {total}")
        return Chunk(
            body.flags,
            body.u32(at),
            body.u32(at + 4),
            body.source(at + 8),
            after,
            upto,
            cut,
            body.bytes_of(head, body.end),
            offset,
            total,
        )


@final
@dataclass(init=False)
class Tell(ControlFrame):
    """Of which sources anything stands; or why there is no answer."""

    marks: i64
    number: i64
    answer: i64
    # (a source, whether it has ended)
    rows: list[tuple[Source, bool]]

    def __init__(
        self, marks: i64, number: i64, answer: i64, rows: list[tuple[Source, bool]]
    ) -> None:
        self.marks = marks
        self.number = number
        self.answer = answer
        self.rows = rows

    def frame_kind(self) -> i64:
        return TELL

    def flags(self) -> i64:
        return self.marks

    def size_bytes(self) -> i64:
        return _TELL_HEAD_BYTES + _ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        write_u32(out, self.number)
        write_u32(out, self.answer)
        for source, ended in self.rows:
            write_source(out, source)
            write_i64_le(out, int(ended))

    @staticmethod
    def read(body: Body) -> "Tell":
        """A list, or a refusal without one."""
        at = body.at
        rows = []
        for row in body.rows(at + _TELL_HEAD_BYTES, _ROW_BYTES, "TELL"):
            ended = body.number(row + SOURCE_BYTES)
            if ended != 0 and ended != 1:
                raise RemoteProtocolError(f"TELL frame in which a source has ended {ended}")
            rows.append((body.source(row), ended == 1))
        answer = body.u32(at + 4)
        if answer > KEEPS_NONE or (rows and answer != LISTED):
            raise RemoteProtocolError(f"TELL frame with answer {answer} and {len(rows)} rows")
        return Tell(body.flags, body.u32(at), answer, rows)


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("NEED", NEED, LIST | SNAPSHOT | URGENT, Need.read),
    FrameType("CHUNK", CHUNK, LAST | SNAPSHOT | PIECE | INCOMPLETE, Chunk.read),
    FrameType("TELL", TELL, LAST | INCOMPLETE, Tell.read),
)
