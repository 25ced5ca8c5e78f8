"""Frames into bytes: a `FrameWriter` fills the frames of one datagram, as many as fit.

Messages and control frames go in until there is no room; `take` gives the bytes, ready to be
sealed. Knows nothing of headers, keys or sockets.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i16, i32, i64, u8

from semcast.ids import Source
from semcast.obsolescence.key_set import unpack_keys
from semcast.wire.frames import (
    ANSWER,
    COVERED,
    DATA,
    ECHO,
    FRAGMENT,
    FRAGMENT_HEAD_BYTES,
    FRAME_HEAD_BYTES,
    NAK,
    NAK_HEAD_BYTES,
    OF_SAFETY,
    PRIVATE,
    RANKED,
    RECORD_HEAD_BYTES,
    RELAYED,
    ROUND,
    ROUND_HEAD_BYTES,
    RUN_HEAD_BYTES,
    SAFETY,
    SEVERAL,
    SOURCE_BYTES,
    STABILITY,
    TIMES,
    TREE,
    TREE_HEAD_BYTES,
    WAITS,
    Covered,
    Echo,
    Fragment,
    Nak,
    Round,
    Times,
    Tree,
    Vector,
)
from semcast.wire.message import Message

# The largest bitmap that is a native integer in compiled code.
_SHORT_MAX: Final = (1 << 62) - 1
_U32_MAX: Final = 0xFFFFFFFF
_U16_MAX: Final = 0xFFFF
# Buffers that were larger than this are kept.
_KEPT_BYTES: Final = 8192


def bitmap_words(bitmap: int) -> i64:
    """How many 64-bit words a bitmap takes on the wire."""
    if bitmap == 0:
        return 0
    if bitmap <= _SHORT_MAX:
        return 1
    return (bitmap.bit_length() + 63) // 64


def write_mark(out: BytesWriter, message: Message, words: i64) -> None:
    """Bitmap, and rank if any: the same in a record and in a fragmented message."""
    if words == 1 and message.bitmap <= _SHORT_MAX:
        write_i64_le(out, message.bitmap)
    elif words > 0:
        out.write(message.bitmap.to_bytes(words * 8, "little"))
    if message.ranked:
        write_i64_le(out, message.rank)


def _mark_head(message: Message) -> i64:
    """Flags, and above them what is said of the key: its length, or how many there are."""
    if message.several:
        return SEVERAL | (len(unpack_keys(message.body[: message.key_len])) << 8)
    flags: i64 = RANKED if message.ranked else 0
    return flags | (message.key_len << 8)


def encode_whole(message: Message) -> bytes:
    """The whole of a message that is to be fragmented."""
    out = BytesWriter()
    words = bitmap_words(message.bitmap)
    write_i32_le(out, _as_i32(_mark_head(message) | (words << 16)))
    write_i32_le(out, _as_i32(len(message.body)))
    write_i64_le(out, message.sent_ns)
    write_mark(out, message, words)
    out.write(message.body)
    return out.getvalue()


@final
class FrameWriter:
    """Fills one datagram's frames. Every `add` says whether it fitted; if not, nothing changed."""

    def __init__(self, source: Source, frames_bytes_max: i64) -> None:
        # A frame's length is 16 bits.
        assert 0 < frames_bytes_max <= _U16_MAX
        self._source: Final = source
        self._room: Final[i64] = frames_bytes_max
        self._out = BytesWriter()
        # The run of messages being written: where its frame starts (-1: none), and its bases.
        self._run: i64 = -1
        self._run_source = source
        self._run_seq: i64 = 0
        self._run_ns: i64 = 0

    def __len__(self) -> int:
        return len(self._out)

    def take(self) -> bytes:
        """The frames written so far; the writer is then empty."""
        self._close_run()
        frames = self._out.getvalue()
        if len(frames) > _KEPT_BYTES:
            # The next ones will be as large: growing to that size costs several copies.
            self._out.truncate(0)
        else:
            self._out = BytesWriter()
        return frames

    def add_message(self, message: Message) -> bool:
        """Add a whole message, to the open run if it continues it."""
        words = bitmap_words(message.bitmap)
        body_len: i64 = len(message.body)
        size: i64 = RECORD_HEAD_BYTES + words * 8 + body_len
        if message.ranked:
            size += 8
        seq_delta = message.seq - self._run_seq
        ns_delta = message.sent_ns - self._run_ns
        if (
            self._run < 0
            or seq_delta < 0
            or seq_delta > _U16_MAX
            or ns_delta < 0
            or ns_delta > _U32_MAX
            or message.source is not self._run_source
        ):
            if not self._open_run(message, size):
                return False
            seq_delta = 0
            ns_delta = 0
        elif len(self._out) + size > self._room:
            return False
        head = _mark_head(message) | (body_len << 16)
        head |= (seq_delta << 32) | (words << 48)
        write_i64_le(self._out, head)
        write_i32_le(self._out, _as_i32(ns_delta))
        write_mark(self._out, message, words)
        self._out.write(message.body)
        return True

    def add_fragment(self, fragment: Fragment) -> bool:
        """Add one piece of a large message."""
        relayed = fragment.source != self._source
        size: i64 = FRAGMENT_HEAD_BYTES + len(fragment.piece) + (SOURCE_BYTES if relayed else 0)
        if not self._open_frame(FRAGMENT, RELAYED if relayed else 0, size):
            return False
        if relayed:
            self._write_source(fragment.source)
        write_i64_le(self._out, fragment.seq)
        write_i32_le(self._out, _as_i32(fragment.index | (fragment.count << 16)))
        self._out.write(fragment.piece)
        return True

    def add_nak(self, nak: Nak) -> bool:
        """Add a request for retransmission; callers keep the list short enough for one datagram."""
        flags: i64 = PRIVATE if nak.private else 0
        if not self._open_frame(NAK, flags, NAK_HEAD_BYTES + 16 * len(nak.ranges)):
            return False
        self._write_source(nak.source)
        write_i64_le(self._out, nak.target)
        for first, last in nak.ranges:
            write_i64_le(self._out, first)
            write_i64_le(self._out, last)
        return True

    def add_covered(self, covered: Covered) -> bool:
        """Add the answer to a NAK for purged messages."""
        if not self._open_frame(COVERED, 0, SOURCE_BYTES + 32 * len(covered.covers)):
            return False
        self._write_source(covered.source)
        for seq, by_source, by_seq in covered.covers:
            write_i64_le(self._out, seq)
            self._write_source(by_source)
            write_i64_le(self._out, by_seq)
        return True

    def add_vector(self, vector: Vector) -> bool:
        """Add a round of stability or safety detection."""
        voters = vector.voters.to_bytes((vector.voters.bit_length() + 7) // 8, "little")
        size: i64 = 10 + len(voters) + 40 * len(vector.rows)
        assert not (vector.waits and vector.safety), "whoever waits, waits for stability"
        flags: i64 = WAITS if vector.waits else 0
        if not self._open_frame(SAFETY if vector.safety else STABILITY, flags, size):
            return False
        write_i64_le(self._out, vector.round)
        write_i16_le(self._out, _as_i16(len(voters)))
        self._out.write(voters)
        for row in vector.rows:
            self._write_source(row.source)
            write_i64_le(self._out, row.agreed)
            write_i64_le(self._out, row.lowest)
            write_i64_le(self._out, row.newest)
        return True

    def add_round(self, told: Round) -> bool:
        """Add a message of a round; callers keep a page small enough for one datagram."""
        flags: i64 = OF_SAFETY if told.safety else 0
        if not self._open_frame(ROUND, flags, ROUND_HEAD_BYTES + 32 * len(told.rows)):
            return False
        head = told.kind | (told.unnamed << 8) | (told.page << 16)
        write_i32_le(self._out, _as_i32(head))
        write_i64_le(self._out, told.target)
        write_i64_le(self._out, told.epoch)
        write_i64_le(self._out, told.round)
        write_i32_le(self._out, _as_i32(told.root))
        write_i32_le(self._out, _as_i32(told.count))
        for source, value, newest in told.rows:
            self._write_source(source)
            write_i64_le(self._out, value)
            write_i64_le(self._out, newest)
        return True

    def add_echo(self, echo: Echo) -> bool:
        """Add what is to be sent back, or what was."""
        if not self._open_frame(ECHO, ANSWER if echo.answer else 0, 8):
            return False
        write_i64_le(self._out, echo.token)
        return True

    def add_times(self, times: Times) -> bool:
        """Add round-trip times; callers keep the list short enough for one datagram."""
        if not self._open_frame(TIMES, 0, 2 + 4 * len(times.times_us)):
            return False
        write_i16_le(self._out, _as_i16(times.first))
        for time_us in times.times_us:
            write_i32_le(self._out, _as_i32(time_us))
        return True

    def add_tree(self, tree: Tree) -> bool:
        """Add a tree and a ring."""
        if not self._open_frame(TREE, 0, TREE_HEAD_BYTES + len(tree.parents) + len(tree.ring)):
            return False
        write_i64_le(self._out, tree.number)
        write_i16_le(self._out, _as_i16(tree.maker))
        self._out.write(tree.parents)
        self._out.write(tree.ring)
        return True

    def _open_frame(self, kind: i64, flags: i64, size: i64) -> bool:
        if len(self._out) + FRAME_HEAD_BYTES + size > self._room:
            return False
        self._close_run()
        write_i32_le(self._out, _as_i32(kind | (flags << 8) | (size << 16)))
        return True

    def _open_run(self, message: Message, size: i64) -> bool:
        relayed = message.source is not self._source and message.source != self._source
        head: i64 = RUN_HEAD_BYTES + (SOURCE_BYTES if relayed else 0)
        start: i64 = len(self._out)
        # The length is patched when the run is closed.
        if not self._open_frame(DATA, RELAYED if relayed else 0, head + size):
            return False
        self._run = start
        self._run_source = message.source
        self._run_seq = message.seq
        self._run_ns = message.sent_ns
        if relayed:
            self._write_source(message.source)
        write_i64_le(self._out, message.seq)
        write_i64_le(self._out, message.sent_ns)
        return True

    def _close_run(self) -> None:
        if self._run < 0:
            return
        length: i64 = len(self._out) - self._run - FRAME_HEAD_BYTES
        self._out[self._run + 2] = u8(length & 0xFF)
        self._out[self._run + 3] = u8(length >> 8)
        self._run = -1

    def _write_source(self, source: Source) -> None:
        write_i64_le(self._out, source.sender)
        write_i64_le(self._out, source.incarnation)


def _as_i32(value: i64) -> i32:
    """The 32 bits of an unsigned value, as the signed integer that has the same bits."""
    return i32(value - 0x100000000 if value > 0x7FFFFFFF else value)


def _as_i16(value: i64) -> i16:
    """The 16 bits of an unsigned value, as the signed integer that has the same bits."""
    return i16(value - 0x10000 if value > 0x7FFF else value)
