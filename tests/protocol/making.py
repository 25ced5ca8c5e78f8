"""Short ways to make messages and buffers in tests."""

from semcast.ids import Source
from semcast.protocol import BufferConfig, Overflow, Purging, PurgingBuffer
from semcast.wire.message import Message

A, B = Source(1, 1), Source(2, 1)


def plain(seq: int, size: int = 1, source: Source = A) -> Message:
    """Unmarked: replaces nothing."""
    return Message(source, seq, bytes(size))


def over(seq: int, *replaced: int, size: int = 1, source: Source = A) -> Message:
    """Replaces these earlier ones of its source."""
    bitmap = sum(1 << (seq - old - 1) for old in replaced)
    return Message(source, seq, bytes(size), 0, bitmap)


def bid(seq: int, rank: int, key: bytes = b"k", source: Source = A) -> Message:
    """Ranked."""
    return Message(source, seq, key, len(key), 0, rank, True)


def seqs(buffer: PurgingBuffer) -> list[int]:
    """The numbers of what is held, oldest first."""
    return [int(message.seq) for message in buffer.messages()]


def left(buffer: PurgingBuffer) -> list[tuple[str, int, int | None]]:
    """What left without being taken: why, which, and what covers it."""
    return [
        (p.reason.value, int(p.message.seq), None if p.cover is None else int(p.cover.seq))
        for p in buffer.drain_purged()
    ]


# The policies that the papers compare.
POLICIES: dict[str, tuple[Purging, Overflow]] = {
    "off": (Purging.OFF, Overflow.REFUSE),
    "eager": (Purging.EAGER, Overflow.REFUSE),
    "lazy": (Purging.LAZY, Overflow.REFUSE),
    "watermark": (Purging.WATERMARK, Overflow.REFUSE),
    "random": (Purging.OFF, Overflow.RANDOM),
    "drop-new": (Purging.OFF, Overflow.DROP_NEW),
}


def policy_of(name: str, messages_max: int = 1024, bytes_max: int = 64 << 20) -> BufferConfig:
    """A buffer's configuration by the name of its policy."""
    return BufferConfig(messages_max, bytes_max, *POLICIES[name])
