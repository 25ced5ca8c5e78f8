"""Readers: who wants a stream, where it begins, and how far everybody has got.

    0x19 SUBSCRIBE  attempt u32 · name_len u16 · total u16 · name · (source, has i64)*
    0x1a BEGIN      attempt u32 · name_len u16 · total u16 · name ·
                    (source, after i64, newest i64)*
    0x1b HAVE       (source, seq i64)*

SUBSCRIBE is a reader's. Flag SENDS: it sends too, and whoever reads may subscribe to it. DIRECT: it
is for the one that got it and for nobody else, whatever others hear. LEAVES: with DIRECT, the
reader reads from this one no longer; without, it is gone for good. The rows say what it has of
streams that it read before; a subscription may need several frames, and `total` is the number of
rows in all of them.

BEGIN answers it and repeats its number: each stream begins after that message, and goes up to the
newest so far. The name is that of whoever sends these streams, and `total` the number of streams in
all frames. Flag GONE: no stream begins, because this is no reader here (any more).

HAVE says what its sender has of each source: everything up to this number; of its own stream, what
it has sent. Flag ANSWER: say at once what you have. Flag ENDED: the sources of the rows have ended,
and `seq` was the last number of each.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.wire.body import Body, FrameType
from semcast.wire.fields import write_source, write_u16, write_u32
from semcast.wire.frames import SOURCE_BYTES, ControlFrame

SUBSCRIBE: Final = 0x19
BEGIN: Final = 0x1A
HAVE: Final = 0x1B

# Flags of SUBSCRIBE frames.
SENDS: Final = 0x01
DIRECT: Final = 0x02
LEAVES: Final = 0x04
# Flag of BEGIN frames.
GONE: Final = 0x01
# Flags of HAVE frames.
ANSWER: Final = 0x01
ENDED: Final = 0x02

NAME_BYTES_MAX: Final = 64
# The smallest datagram has room for these, beside the longest name.
SUBSCRIBE_ROWS_MAX: Final = 12
BEGIN_ROWS_MAX: Final = 10
HAVE_ROWS_MAX: Final = 16
_HEAD_BYTES: Final = 8
_HAVE_ROW_BYTES: Final = SOURCE_BYTES + 8
_BEGIN_ROW_BYTES: Final = SOURCE_BYTES + 16


@final
@dataclass(init=False)
class Subscribe(ControlFrame):
    """Somebody wants to read, or no longer does."""

    # Grows with each subscription of one life; what repeats a subscription repeats its number.
    attempt: i64
    name: str
    sends: bool
    direct: bool
    leaves: bool
    # (source, what the reader has of it)
    rows: list[tuple[Source, int]]
    # How many rows all frames of this subscription have.
    total: i64

    def __init__(
        self,
        attempt: i64,
        name: str,
        sends: bool,
        direct: bool = False,
        leaves: bool = False,
        rows: list[tuple[Source, int]] | None = None,
        total: i64 = 0,
    ) -> None:
        self.attempt = attempt
        self.name = name
        self.sends = sends
        self.direct = direct
        self.leaves = leaves
        self.rows = rows if rows is not None else []
        self.total = max(total, len(self.rows))

    def frame_kind(self) -> i64:
        return SUBSCRIBE

    def flags(self) -> i64:
        flags: i64 = SENDS if self.sends else 0
        if self.direct:
            flags |= DIRECT
        if self.leaves:
            flags |= LEAVES
        return flags

    def size_bytes(self) -> i64:
        return _HEAD_BYTES + len(self.name.encode()) + _HAVE_ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        _write_head(out, self.attempt, self.name, self.total)
        for source, has in self.rows:
            write_source(out, source)
            write_i64_le(out, has)

    @staticmethod
    def read(body: Body) -> "Subscribe":
        """Any sources are accepted; the receiver knows which are its own."""
        name, at = _name(body)
        return Subscribe(
            body.u32(body.at),
            name,
            body.flags & SENDS != 0,
            body.flags & DIRECT != 0,
            body.flags & LEAVES != 0,
            _rows(body, at, "SUBSCRIBE"),
            body.u16(body.at + 6),
        )


@final
@dataclass(init=False)
class Begin(ControlFrame):
    """Where streams begin for a reader; or that they do not."""

    attempt: i64
    name: str
    gone: bool
    # (source, the last message before the beginning, the newest that was sent)
    rows: list[tuple[Source, int, int]]
    # How many streams begin, in all frames.
    total: i64

    def __init__(
        self,
        attempt: i64,
        name: str,
        gone: bool = False,
        rows: list[tuple[Source, int, int]] | None = None,
        total: i64 = 0,
    ) -> None:
        self.attempt = attempt
        self.name = name
        self.gone = gone
        self.rows = rows if rows is not None else []
        self.total = max(total, len(self.rows))

    def frame_kind(self) -> i64:
        return BEGIN

    def flags(self) -> i64:
        return GONE if self.gone else 0

    def size_bytes(self) -> i64:
        return _HEAD_BYTES + len(self.name.encode()) + _BEGIN_ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        _write_head(out, self.attempt, self.name, self.total)
        for source, after, newest in self.rows:
            write_source(out, source)
            write_i64_le(out, after)
            write_i64_le(out, newest)

    @staticmethod
    def read(body: Body) -> "Begin":
        """The newest may be before the beginning: it is only what was sent so far."""
        name, at = _name(body)
        rows = []
        for row in body.rows(at, _BEGIN_ROW_BYTES, "BEGIN"):
            after, newest = body.count(row + SOURCE_BYTES), body.count(row + SOURCE_BYTES + 8)
            rows.append((body.source(row), int(after), int(newest)))
        total = body.u16(body.at + 6)
        return Begin(body.u32(body.at), name, body.flags & GONE != 0, rows, total)


@final
@dataclass(init=False)
class Have(ControlFrame):
    """What the sender of this frame has; it is also a sign of life."""

    answer: bool
    ended: bool
    # (source, everything up to here)
    rows: list[tuple[Source, int]]

    def __init__(
        self, rows: list[tuple[Source, int]], answer: bool = False, ended: bool = False
    ) -> None:
        self.rows = rows
        self.answer = answer
        self.ended = ended

    def frame_kind(self) -> i64:
        return HAVE

    def flags(self) -> i64:
        flags: i64 = ANSWER if self.answer else 0
        return flags | ENDED if self.ended else flags

    def size_bytes(self) -> i64:
        return _HAVE_ROW_BYTES * len(self.rows)

    def write(self, out: BytesWriter) -> None:
        for source, seq in self.rows:
            write_source(out, source)
            write_i64_le(out, seq)

    @staticmethod
    def read(body: Body) -> "Have":
        """No rows at all are a sign of life."""
        rows = _rows(body, body.at, "HAVE")
        return Have(rows, body.flags & ANSWER != 0, body.flags & ENDED != 0)


def _write_head(out: BytesWriter, attempt: i64, name: str, total: i64) -> None:
    called = name.encode()
    write_u32(out, attempt)
    write_u16(out, len(called))
    write_u16(out, total)
    out.write(called)


def _name(body: Body) -> tuple[str, i64]:
    """The name in a frame's head, and where its rows begin."""
    size = body.u16(body.at + 4)
    if size > NAME_BYTES_MAX:
        raise RemoteProtocolError(f"a name of {size} bytes; {NAME_BYTES_MAX} are the most")
    at = body.at + _HEAD_BYTES
    try:
        return body.bytes_of(at, at + size).decode(), at + size
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a name of {size} bytes that are no text") from error


def _rows(body: Body, at: i64, what: str) -> list[tuple[Source, int]]:
    return [
        (body.source(row), int(body.count(row + SOURCE_BYTES)))
        for row in body.rows(at, _HAVE_ROW_BYTES, what)
    ]


FAMILY: Final[tuple[FrameType, ...]] = (
    FrameType("SUBSCRIBE", SUBSCRIBE, SENDS | DIRECT | LEAVES, Subscribe.read),
    FrameType("BEGIN", BEGIN, GONE, Begin.read),
    FrameType("HAVE", HAVE, ANSWER | ENDED, Have.read),
)
