"""Bytes into frames: any bytes decode, or raise RemoteProtocolError; nothing else.

Frames of one opened datagram go in; messages and control frames come out. Nothing is allocated
from a length that was not checked against what is really there: each message and each row takes
at least as many bytes of the datagram as it is read from.
"""

from typing import Final, final

from librt.strings import read_i16_le, read_i32_le, read_i64_le
from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX, Source
from semcast.obsolescence.key_set import KEYS_MAX, packed_bytes
from semcast.wire.frames import (
    ABSTAIN,
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
    ROUND_KINDS,
    RUN_HEAD_BYTES,
    SAFETY,
    SEVERAL,
    SOURCE_BYTES,
    STABILITY,
    TIMES,
    TREE,
    TREE_HEAD_BYTES,
    TREE_MEMBERS_MAX,
    WAITS,
    WHOLE_HEAD_BYTES,
    WORDS_MAX,
    ControlFrame,
    Covered,
    Echo,
    Fragment,
    Nak,
    Progress,
    Round,
    Times,
    Tree,
    Vector,
)
from semcast.wire.message import Message
from semcast.wire.trees import tree_fault

_RANK_MAX: Final = SEQ_MAX


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
    """Decodes the frames of datagrams. Remembers sources, so that equal ones are identical."""

    def __init__(self, sources_max: int = 4096) -> None:
        self._sources: Final[dict[tuple[int, int], Source]] = {}
        self._sources_max: Final = sources_max
        # What people call senders, whichever life they are in.
        self._names: Final[dict[int, str]] = {}

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
            if flags:
                _check_flags(kind, flags)
            at += FRAME_HEAD_BYTES
            end = at + (head >> 16)
            if end > size:
                raise RemoteProtocolError(
                    f"frame of type {kind:#x} says {end - at} bytes, {size - at} are left"
                )
            if kind == DATA:
                self._run(frames, at, end, flags, source, decoded.messages)
            elif kind == FRAGMENT:
                decoded.control.append(self._fragment(frames, at, end, flags, source))
            elif kind == NAK:
                decoded.control.append(self._nak(frames, at, end, flags))
            elif kind == COVERED:
                decoded.control.append(self._covered(frames, at, end))
            elif kind in (STABILITY, SAFETY):
                decoded.control.append(self._vector(frames, at, end, kind == SAFETY, flags))
            elif kind == ROUND:
                decoded.control.append(self._round(frames, at, end, flags))
            elif ECHO <= kind <= TREE:
                decoded.control.append(_measure(frames, at, end, kind, flags))
            else:
                decoded.unknown_frames += 1
            at = end
        return decoded

    def _run(
        self, data: bytes, at: i64, end: i64, flags: i64, source: Source, out: list[Message]
    ) -> None:
        if flags & RELAYED:
            source = self._source(data, at, end)
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
            # Bits that version 1 does not define would change the meaning: refuse, not guess.
            if head & 0xFC or head >> 56 or words > WORDS_MAX or key_len > body_len:
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
                )
            )
            at = body_at + body_len

    def _fragment(self, data: bytes, at: i64, end: i64, flags: i64, source: Source) -> Fragment:
        if flags & RELAYED:
            source = self._source(data, at, end)
            at += SOURCE_BYTES
        if end - at <= FRAGMENT_HEAD_BYTES:
            raise RemoteProtocolError(f"fragment has {end - at} bytes left: cut short or empty")
        seq = _seq(data, at)
        place = i64(read_i32_le(data, at + 8)) & 0xFFFFFFFF
        index = place & 0xFFFF
        count = place >> 16
        if index >= count:
            raise RemoteProtocolError(f"fragment {index} of {count}")
        return Fragment(source, seq, index, count, data[at + FRAGMENT_HEAD_BYTES : end])

    def _nak(self, data: bytes, at: i64, end: i64, flags: i64) -> Nak:
        source = self._source(data, at, end)
        if end - at < NAK_HEAD_BYTES:
            raise RemoteProtocolError(f"NAK has {end - at} bytes left for its head")
        target = read_i64_le(data, at + SOURCE_BYTES)
        if target < 0 or target > ID_MAX:
            raise RemoteProtocolError(f"NAK for member {target} to answer")
        ranges = []
        for row in _rows(at + NAK_HEAD_BYTES, end, 16, "NAK"):
            first = _seq(data, row)
            last = _seq(data, row + 8)
            if last < first:
                raise RemoteProtocolError(f"NAK for seq {first} to {last}")
            ranges.append((int(first), int(last)))
        return Nak(source, target, flags & PRIVATE != 0, ranges)

    def _covered(self, data: bytes, at: i64, end: i64) -> Covered:
        source = self._source(data, at, end)
        covers = []
        for row in _rows(at + SOURCE_BYTES, end, 32, "COVERED"):
            by_source = self._source(data, row + 8, end)
            covers.append((int(_seq(data, row)), by_source, int(_seq(data, row + 24))))
        return Covered(source, covers)

    def _vector(self, data: bytes, at: i64, end: i64, safety: bool, flags: i64) -> Vector:
        if end - at < 10:
            raise RemoteProtocolError(f"vector has {end - at} bytes left for its head")
        round_number = read_i64_le(data, at)
        if round_number < 0 or round_number > SEQ_MAX:
            raise RemoteProtocolError(f"vector of round {round_number}")
        voters_len = i64(read_i16_le(data, at + 8)) & 0xFFFF
        rows_at = at + 10 + voters_len
        if rows_at > end:
            raise RemoteProtocolError(
                f"vector says {voters_len} bytes of voters, {end - at - 10} are left"
            )
        voters = int.from_bytes(data[at + 10 : rows_at], "little")
        rows = [
            Progress(
                self._source(data, row, end),
                _count(data, row + 16),
                _count(data, row + 24),
                _count(data, row + 32),
            )
            for row in _rows(rows_at, end, 40, "vector")
        ]
        return Vector(safety, round_number, voters, rows, flags & WAITS != 0)

    def _round(self, data: bytes, at: i64, end: i64, flags: i64) -> Round:
        if end - at < ROUND_HEAD_BYTES:
            raise RemoteProtocolError(f"round has {end - at} bytes left for its head")
        head = i64(read_i32_le(data, at)) & 0xFFFFFFFF
        kind, unnamed = head & 0xFF, (head >> 8) & 0xFF
        if kind < 1 or kind > ROUND_KINDS or unnamed > ABSTAIN:
            raise RemoteProtocolError(f"round with a message of kind {kind}, unnamed {unnamed}")
        target = read_i64_le(data, at + 4)
        if target < -1 or target > ID_MAX:
            raise RemoteProtocolError(f"round told to member {target}")
        rows = [
            (self._source(data, row, end), int(_count(data, row + 16)), int(_count(data, row + 24)))
            for row in _rows(at + ROUND_HEAD_BYTES, end, 32, "ROUND")
        ]
        return Round(
            flags & OF_SAFETY != 0,
            kind,
            unnamed,
            head >> 16,
            target,
            _count(data, at + 12),
            _count(data, at + 20),
            i64(read_i32_le(data, at + 28)) & 0xFFFFFFFF,
            i64(read_i32_le(data, at + 32)) & 0xFFFFFFFF,
            rows,
        )

    def intern(self, source: Source) -> Source:
        """The one object that stands for this source, so that comparing it is quick."""
        name = (int(source.sender), int(source.incarnation))
        known = self._sources.get(name)
        if known is None:
            known = source
            if int(source.sender) in self._names:
                known.name = self._names[int(source.sender)]
            if len(self._sources) < self._sources_max:
                self._sources[name] = source
        return known

    def name(self, sender: int, name: str) -> None:
        """Sources of this sender say that name, those that are known and those that come."""
        self._names[sender] = name
        for (other, _), source in self._sources.items():
            if other == sender:
                source.name = name

    def _source(self, data: bytes, at: i64, end: i64) -> Source:
        if end - at < SOURCE_BYTES:
            raise RemoteProtocolError(f"source has {end - at} bytes left of {SOURCE_BYTES}")
        sender = read_i64_le(data, at)
        incarnation = read_i64_le(data, at + 8)
        if sender < 0 or sender > ID_MAX or incarnation < 0 or incarnation > ID_MAX:
            raise RemoteProtocolError(f"source {sender:#x}.{incarnation:#x} is out of range")
        known = self._sources.get((sender, incarnation))
        return self.intern(Source(sender, incarnation)) if known is None else known


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
    if head & 0xFC or head >> 24 or words > WORDS_MAX:
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
    return Message(source, seq, body, key_len, bitmap, rank, ranked, sent_ns, several)


def _keys_bytes(data: bytes, at: i64, end: i64, count: i64, ranked: bool) -> i64:
    """How many bytes of a body are the keys of a message that is about several."""
    size = packed_bytes(data, at, end, count)
    if ranked or count < 2 or count > KEYS_MAX or size < 0:
        raise RemoteProtocolError(f"message about {count} keys, which do not fit it")
    return size


def _check_flags(kind: i64, flags: i64) -> None:
    """Refuse flags that version 1 does not define: they would change what a frame means."""
    known: i64 = RELAYED if kind in (DATA, FRAGMENT) else 0
    if kind == NAK:
        known = PRIVATE
    elif kind == ROUND:
        known = OF_SAFETY
    elif kind == STABILITY:
        known = WAITS
    elif kind == ECHO:
        known = ANSWER
    if DATA <= kind <= TREE and flags & ~known:
        raise RemoteProtocolError(f"frame of type {kind:#x} has unknown flags {flags:#x}")


def _measure(data: bytes, at: i64, end: i64, kind: i64, flags: i64) -> Echo | Times | Tree:
    """What is said of round-trip times and the tree."""
    if kind == ECHO:
        if end - at != 8:
            raise RemoteProtocolError(f"ECHO frame has {end - at} bytes for a token of 8")
        return Echo(flags & ANSWER != 0, _count(data, at))
    if kind == TIMES:
        if end - at < 2:
            raise RemoteProtocolError(f"TIMES frame has {end - at} bytes left for its head")
        rows = _rows(at + 2, end, 4, "TIMES")
        first = i64(read_i16_le(data, at)) & 0xFFFF
        return Times(first, [int(i64(read_i32_le(data, row)) & 0xFFFFFFFF) for row in rows])
    members = (end - at - TREE_HEAD_BYTES) // 2
    if (end - at) % 2 or members < 1 or members > TREE_MEMBERS_MAX:
        raise RemoteProtocolError(f"TREE frame of {end - at} bytes")
    number = _seq(data, at)
    maker = i64(read_i16_le(data, at + 8)) & 0xFFFF
    middle = at + TREE_HEAD_BYTES + members
    parents, ring = data[at + TREE_HEAD_BYTES : middle], data[middle:end]
    fault = tree_fault(parents, ring)
    if fault or maker >= members:
        raise RemoteProtocolError(fault or f"tree of {members} members made by member {maker}")
    return Tree(number, maker, parents, ring)


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


def _rows(at: i64, end: i64, size: i64, what: str) -> range:
    if at > end or (end - at) % size:
        raise RemoteProtocolError(f"{what} frame has {end - at} bytes for rows of {size}")
    return range(at, end, size)


def _seq(data: bytes, at: i64) -> i64:
    seq = read_i64_le(data, at)
    if seq < 1 or seq > SEQ_MAX:
        raise RemoteProtocolError(f"seq {seq} is out of range")
    return seq


def _count(data: bytes, at: i64) -> i64:
    seq = read_i64_le(data, at)
    if seq < 0 or seq > SEQ_MAX:
        raise RemoteProtocolError(f"seq {seq} is out of range")
    return seq
