"""Frames into bytes: a `FrameWriter` fills the frames of one datagram, as many as fit.

Messages and control frames go in until there is no room; `take` gives the bytes, ready to be
sealed. Knows nothing of headers, keys or sockets.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8

from semcast.ids import Source
from semcast.obsolescence.key_set import unpack_keys
from semcast.wire.fields import write_source, write_u32
from semcast.wire.frames import (
    BY_KEY,
    DATA,
    FRAME_HEAD_BYTES,
    RANKED,
    RECORD_HEAD_BYTES,
    RELAYED,
    RUN_HEAD_BYTES,
    SEVERAL,
    SOURCE_BYTES,
    ControlFrame,
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
    flags: i64 = BY_KEY if message.by_key else 0
    if message.several:
        return flags | SEVERAL | (len(unpack_keys(message.body[: message.key_len])) << 8)
    if message.ranked:
        flags |= RANKED
    return flags | (message.key_len << 8)


def encode_whole(message: Message) -> bytes:
    """The whole of a message that is to be fragmented."""
    out = BytesWriter()
    words = bitmap_words(message.bitmap)
    write_u32(out, _mark_head(message) | (words << 16))
    write_u32(out, len(message.body))
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
        write_u32(self._out, ns_delta)
        write_mark(self._out, message, words)
        self._out.write(message.body)
        return True

    def add(self, frame: ControlFrame) -> bool:
        """Add a control frame."""
        origin = frame.origin()
        relayed = origin is not None and origin != self._source
        flags = frame.flags()
        size = frame.size_bytes()
        if relayed:
            flags |= RELAYED
            size += SOURCE_BYTES
        start: i64 = len(self._out)
        if not self._open_frame(frame.frame_kind(), flags, size):
            return False
        if origin is not None and relayed:
            write_source(self._out, origin)
        frame.write(self._out)
        assert len(self._out) == start + FRAME_HEAD_BYTES + size, "a frame has the size it says"
        return True

    def _open_frame(self, kind: i64, flags: i64, size: i64) -> bool:
        if len(self._out) + FRAME_HEAD_BYTES + size > self._room:
            return False
        self._close_run()
        write_u32(self._out, kind | (flags << 8) | (size << 16))
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
            write_source(self._out, message.source)
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
