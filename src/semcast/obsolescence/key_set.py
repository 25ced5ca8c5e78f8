"""The keys of a message that is about several: names in, one piece of bytes out, and back.

They stand in front of the payload, as a single key does: each as its length (u8) and its bytes, in
order. How many there are is said elsewhere. Knows nothing of what the names mean.
"""

from typing import Final

from mypy_extensions import i64

# A message is about so many keys at most.
KEYS_MAX: Final = 64


def pack_keys(names: frozenset[bytes]) -> bytes:
    r"""These names as one piece.

    >>> pack_keys(frozenset([b"bb", b"a"]))
    b'\x01a\x02bb'
    """
    return b"".join([bytes([len(name)]) + name for name in sorted(names)])


def unpack_keys(packed: bytes) -> list[bytes]:
    r"""The names again, in order.

    >>> unpack_keys(b"\x01a\x02bb")
    [b'a', b'bb']
    """
    names = []
    at: i64 = 0
    while at < len(packed):
        end = at + 1 + packed[at]
        names.append(packed[at + 1 : end])
        at = end
    return names


def packed_bytes(data: bytes, at: i64, end: i64, count: i64) -> i64:
    """How many bytes so many names take from `at` on; -1 if there are no such names."""
    first = at
    while count > 0:
        if at >= end or data[at] == 0:
            return -1
        at += 1 + data[at]
        count -= 1
    return at - first if at <= end else -1
