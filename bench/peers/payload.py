"""What a benchmark message carries: number, send time, key; and which key comes when.

The number leads, and all behind it is shared by the messages of one batch, so that making a payload
costs a tenth of a microsecond: the benchmark must not be what it measures.
"""

import random
import struct

_HEAD = struct.Struct("<qqi")
_REST = struct.Struct("<qi")
SIZE_BYTES_MIN = _HEAD.size
WARM_UP = -1
UNREPLACED = -1
KEYS = 50
# A prime-like length keeps the pattern of keys from falling into step with anything else.
_PATTERN = 9_973


def rest(sent_ns: int, key: int, size_bytes: int) -> bytes:
    """Everything behind the number."""
    if size_bytes < SIZE_BYTES_MIN:
        raise ValueError(f"payload of {size_bytes} bytes; it must have {SIZE_BYTES_MIN} or more")
    return _REST.pack(sent_ns, key) + b"\xa5" * (size_bytes - SIZE_BYTES_MIN)


def pack(seq: int, sent_ns: int, key: int, size_bytes: int) -> bytes:
    return seq.to_bytes(8, "little", signed=True) + rest(sent_ns, key, size_bytes)


def pack_many(first: int, count: int, sent_ns: int, size_bytes: int) -> list[bytes]:
    """Payloads with successive numbers that replace nothing."""
    tail = rest(sent_ns, UNREPLACED, size_bytes)
    return [seq.to_bytes(8, "little") + tail for seq in range(first, first + count)]


def unpack(payload: bytes) -> tuple[int, int, int]:
    """Number, send time, key."""
    seq, sent_ns, key = _HEAD.unpack_from(payload)
    return seq, sent_ns, key


def number(payload: bytes) -> int:
    return int.from_bytes(payload[:8], "little", signed=True)


class KeyPattern:
    """Which key each number has: the same for every peer, drawn once from a seed."""

    def __init__(self, unreplaced_share: float, keys: int = KEYS) -> None:
        stream = random.Random(f"bench-peers/{unreplaced_share}/{keys}")
        self._keys = [
            UNREPLACED if stream.random() < unreplaced_share else stream.randrange(keys)
            for _ in range(_PATTERN)
        ]
        self.names = [f"key-{number:02}" for number in range(keys)]

    def key(self, seq: int) -> int:
        return self._keys[seq % _PATTERN]
