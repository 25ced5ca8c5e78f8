"""What a benchmark message carries: number, send time, key; and which key comes when.

The number leads, and all behind it is shared by the messages of one batch, so that making a payload
costs a tenth of a microsecond: the benchmark must not be what it measures.
"""

import random
import struct
from array import array
from collections.abc import Iterator

_HEAD = struct.Struct("<qqi")
_REST = struct.Struct("<qi")
SIZE_BYTES_MIN = _HEAD.size
WARM_UP = -1
UNREPLACED = -1
KEYS = 50
# A prime-like length keeps the pattern of keys from falling into step with anything else.
_PATTERN = 9_973
# With more keys the pattern grows, so that each of them comes so often in it, or more.
_TURNS_MIN = 8
# Where hardly a message has a key, the pattern ends before that.
_LENGTH_FACTOR_MAX = 4


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
    """Which key each number has: the same for every peer, drawn once from a seed.

    Up to KEYS keys are drawn one by one. More of them are dealt in turns, each turn in an order of
    its own: so all come within a run, and all wait at a slow reader after the first turn.
    """

    def __init__(self, unreplaced_share: float, keys: int = KEYS) -> None:
        stream = random.Random(f"bench-peers/{unreplaced_share}/{keys}")
        make = _drawn if keys <= KEYS else _dealt
        self._keys = array("i", make(stream, unreplaced_share, keys))
        self.names = [f"key-{number:02}" for number in range(keys)]

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, seq: int) -> int:
        return self._keys[seq % len(self._keys)]


def _drawn(stream: random.Random, unreplaced_share: float, keys: int) -> Iterator[int]:
    for _ in range(_PATTERN):
        yield UNREPLACED if stream.random() < unreplaced_share else stream.randrange(keys)


def _dealt(stream: random.Random, unreplaced_share: float, keys: int) -> Iterator[int]:
    """Whole turns only: then no key is left out where the pattern begins again."""
    turns = max(_TURNS_MIN, _PATTERN // keys)
    room = _LENGTH_FACTOR_MAX * turns * keys
    for _ in range(turns):
        for key in stream.sample(range(keys), keys):
            while stream.random() < unreplaced_share and room > 0:
                room -= 1
                yield UNREPLACED
            if room <= 0:
                return
            room -= 1
            yield key
