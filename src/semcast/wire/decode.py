"""Bytes into frames: any bytes decode, or raise RemoteProtocolError; nothing else.

Frames of one opened datagram go in; messages and control frames come out. Nothing is allocated
from a length that was not checked against what is really there: each message and each row takes
at least as many bytes of the datagram as it is read from.
"""

from typing import Final, final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence.key_set import KEYS_MAX, packed_bytes
from semcast.wire.body import Body, FrameType
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
    WHOLE_HEAD_BYTES,
    WORDS_MAX,
    ControlFrame,
)
from semcast.wire.message import Message
from semcast.wire.sources import Sources
from semcast.wire.table import TABLE

_RANK_MAX: Final = SEQ_MAX
# Sources that are remembered: two lives of thousands of members, and some that are strangers.
SOURCES_MAX: Final = 1 << 14


@final
@mypyc_attr(acyclic=True)
class Decoded:
    """What one datagram held. Frames of unknown type were skipped and only counted."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.control: list[ControlFrame] = []
        self.unknown_frames: i64 = 0


@final
class Decoder:
    """Decodes the frames of datagrams: messages itself, control frames through a table."""

    def __init__(self, sources_max: int = SOURCES_MAX, table: dict[int, FrameType] = TABLE) -> None:
        # Equal sources are identical, whatever frames they stand in.
        self.sources: Final = Sources(sources_max)
        self._table: Final = table

    def decode(self, frames: bytes, source: Source) -> Decoded:
        """All frames of one datagram that `source` sent."""
        decoded = Decoded()
        size: i64 = len(frames)
        at: i64 = 0
        while at < size:
            if size - at < FRAME_HEAD_BYTES:
                raise RemoteProtocolError(f"frame head cut short at byte {at} of {size}")
            head = i64(read_i32_le(frames, at)) & 0xFFFFFFFF
            kind = head & 0xFF
            flags = (head >> 8) & 0xFF
            at += FRAME_HEAD_BYTES
            end = at + (head >> 16)
            if end > size:
                raise RemoteProtocolError(
                    f"frame of type {kind:#x} says {end - at} bytes, {size - at} are left"
                )
            if kind == DATA:
                if flags & ~RELAYED:
                    raise _unknown_flags(kind, flags)
                self._run(frames, at, end, flags, source, decoded.messages)
            else:
                control = self._control(frames, at, end, kind, flags, source)
                if control is None:
                    decoded.unknown_frames += 1
                else:
                    decoded.control.append(control)
            at = end
        return decoded

    def _control(
        self, data: bytes, at: i64, end: i64, kind: i64, flags: i64, source: Source
    ) -> ControlFrame | None:
        """A control frame, or None if it is of unknown type."""
        line = self._table.get(int(kind))
        if line is None:
            return None
        if flags & ~line.flags:
            raise _unknown_flags(kind, flags)
        return line.read(Body(self.sources, data, at, end, kind, flags, source))

    def _run(
        self, data: bytes, at: i64, end: i64, flags: i64, source: Source, out: list[Message]
    ) -> None:
        if flags & RELAYED:
            source = self.sources.read(data, at, end)
            at += SOURCE_BYTES
        if end - at < RUN_HEAD_BYTES:
            raise RemoteProtocolError(f"run of messages has {end - at} bytes left for its head")
        base_seq = read_i64_le(data, at)
        base_ns = read_i64_le(data, at + 8)
        # Up to here, adding a delta stays within 64 bits; each message is then checked itself.
        if base_seq < 1 or base_seq > SEQ_MAX or base_ns < 0 or base_ns > SEQ_MAX:
            raise RemoteProtocolError(f"run starts at seq {base_seq}, time {base_ns}")
        at += RUN_HEAD_BYTES
        while at < end:
            if end - at < RECORD_HEAD_BYTES:
                raise RemoteProtocolError(f"message has {end - at} bytes left for its head")
            head = read_i64_le(data, at)
            seq = base_seq + ((head >> 32) & 0xFFFF)
            sent_ns = base_ns + (i64(read_i32_le(data, at + 8)) & 0xFFFFFFFF)
            ranked = (head & RANKED) != 0
            key_len = (head >> 8) & 0xFF
            words = (head >> 48) & 0xFF
            body_len = (head >> 16) & 0xFFFF
            # RANKED is 1, and a rank is a word.
            body_at = at + RECORD_HEAD_BYTES + (words + (head & RANKED)) * 8
            if body_at + body_len > end:
                raise RemoteProtocolError(
                    f"message takes {body_at + body_len - at} bytes, {end - at} are left"
                )
            by_key = (head & BY_KEY) != 0
            # Bits that version 1 does not define would change the meaning: refuse, not guess.
            if (
                head & 0xF8
                or head >> 56
                or words > WORDS_MAX
                or key_len > body_len
                or (by_key and (ranked or words > 0 or key_len == 0))
            ):
                raise RemoteProtocolError(f"message with unknown flags or sizes: {head:#x}")
            several = (head & SEVERAL) != 0
            if several:
                key_len = _keys_bytes(data, body_at, body_at + body_len, key_len, ranked)
            # What one member accepts and relays, all others have to accept.
            if seq > SEQ_MAX or sent_ns > SEQ_MAX:
                raise RemoteProtocolError(f"message of seq {seq}, time {sent_ns} is out of range")
            bitmap = 0
            rank: i64 = 0
            if words == 1 and not ranked:
                # What most messages have, without a call for it.
                word = read_i64_le(data, at + RECORD_HEAD_BYTES)
                bitmap = int(word) if word >= 0 else int(word) + (1 << 64)
            elif words > 0 or ranked:
                bitmap, rank = _mark(data, at + RECORD_HEAD_BYTES, words, ranked)
            out.append(
                Message(
                    source,
                    seq,
                    data[body_at : body_at + body_len],
                    key_len,
                    bitmap,
                    rank,
                    ranked,
                    sent_ns,
                    several,
                    by_key,
                )
            )
            at = body_at + body_len


def decode_whole(whole: bytes, source: Source, seq: i64, message_bytes_max: i64) -> Message:
    """A message put together from its fragments."""
    size: i64 = len(whole)
    if size < WHOLE_HEAD_BYTES:
        raise RemoteProtocolError(f"fragmented message of {size} bytes is cut short")
    head = i64(read_i32_le(whole, 0)) & 0xFFFFFFFF
    body_len = i64(read_i32_le(whole, 4)) & 0xFFFFFFFF
    sent_ns = read_i64_le(whole, 8)
    ranked = (head & RANKED) != 0
    key_len = (head >> 8) & 0xFF
    words = (head >> 16) & 0xFF
    body_at = WHOLE_HEAD_BYTES + words * 8
    if ranked:
        body_at += 8
    by_key = (head & BY_KEY) != 0
    lacks_key = by_key and (ranked or words > 0 or key_len == 0)
    if head & 0xF8 or head >> 24 or words > WORDS_MAX or lacks_key:
        raise RemoteProtocolError(f"fragmented message with unknown flags or sizes: {head:#x}")
    several = (head & SEVERAL) != 0
    if several:
        key_len = _keys_bytes(whole, body_at, size, key_len, ranked)
    if body_at + body_len != size or key_len > body_len or sent_ns < 0 or sent_ns > SEQ_MAX:
        raise RemoteProtocolError(
            f"fragmented message of {size} bytes does not add up: body {body_len}, "
            f"key {key_len}, time {sent_ns}"
        )
    if body_len - key_len > message_bytes_max:
        raise RemoteProtocolError(
            f"fragmented message of {body_len - key_len} bytes exceeds the limit of "
            f"{message_bytes_max}"
        )
    bitmap, rank = _mark(whole, WHOLE_HEAD_BYTES, words, ranked)
    body = whole[body_at:]
    return Message(source, seq, body, key_len, bitmap, rank, ranked, sent_ns, several, by_key)


def _keys_bytes(data: bytes, at: i64, end: i64, count: i64, ranked: bool) -> i64:
    """How many bytes of a body are the keys of a message that is about several."""
    size = packed_bytes(data, at, end, count)
    if ranked or count < 2 or count > KEYS_MAX or size < 0:
        raise RemoteProtocolError(f"message about {count} keys, which do not fit it")
    return size


def _unknown_flags(kind: i64, flags: i64) -> RemoteProtocolError:
    """Flags that version 1 does not define would change what a frame means: refuse them."""
    return RemoteProtocolError(f"frame of type {kind:#x} has unknown flags {flags:#x}")


def _mark(data: bytes, at: i64, words: i64, ranked: bool) -> tuple[int, i64]:
    """Bitmap and rank; the caller checked that they are there."""
    bitmap = 0
    if words == 1:
        word = read_i64_le(data, at)
        bitmap = int(word) if word >= 0 else int(word) + (1 << 64)
    elif words > 1:
        bitmap = int.from_bytes(data[at : at + words * 8], "little")
    rank: i64 = 0
    if ranked:
        rank = read_i64_le(data, at + words * 8)
        if rank < -_RANK_MAX or rank > _RANK_MAX:
            raise RemoteProtocolError(f"rank {rank} is out of range")
    return bitmap, rank
