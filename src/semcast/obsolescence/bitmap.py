"""The k-bit bitmap and its closure under transitivity, by shift and or (SRM §3.2).

Direct replacements go in, in the order of sequence numbers; closed bitmaps come out. Memory is
the last k bitmaps, whatever goes by. Knows nothing of keys.
"""

from typing import Final, final

from semcast.errors import ConfigError, LocalProtocolError

K_DEFAULT: Final = 64
K_MAX: Final = 1024


def check_k(k: int) -> int:
    """Return k, or raise if no bitmap can have that size."""
    if not 0 <= k <= K_MAX:
        raise ConfigError(f"k is {k}; a bitmap has from 0 to {K_MAX} bits")
    return k


def distances(bitmap: int) -> list[int]:
    """The set bits as distances, nearest first: 0b101 gives [1, 3].

    >>> distances(0b101)
    [1, 3]
    """
    found = []
    while bitmap:
        low = bitmap & -bitmap
        found.append(low.bit_length())
        bitmap ^= low
    return found


@final
class Closure:
    """Turns direct replacements into closed bitmaps, one message after the other.

    closure(s) = direct | OR(closure(s−n) << n for each direct n), masked to k bits and to
    messages that exist.
    """

    def __init__(self, k: int = K_DEFAULT) -> None:
        self.k: Final[int] = check_k(k)
        self._mask: Final[int] = (1 << k) - 1
        # INV-CLOSURE: _recent[s % k] is the closed bitmap of s, for the last k messages s.
        self._recent: Final[list[int]] = [0] * max(k, 1)
        self.seq = 0
        # What the last message pushed out of _recent, so that it can be taken back; -1: nothing
        # to take back.
        self._pushed_out = -1

    def add_none(self, seq: int) -> int:
        """The next message replaces nothing."""
        self.check_next(seq)
        self._push(seq, 0)
        return 0

    def add_one(self, seq: int, replaced: int) -> int:
        """The next message replaces one: the hot path of keys."""
        distance = seq - replaced
        if distance < 1 or replaced < 1:
            raise LocalProtocolError(f"message {seq} cannot replace message {replaced}")
        if distance > self.k:
            return self.add_none(seq)
        self.check_next(seq)
        closed = self._recent[replaced % self.k]
        if closed:
            # Cut first and shift then: short integers stay short, and so fast.
            closed = (closed & ((1 << (self.k - distance)) - 1)) << distance
        closed |= 1 << (distance - 1)
        self._push(seq, closed)
        return closed

    def add(self, seq: int, direct: int) -> int:
        """The next message replaces those whose bits are set in `direct`."""
        self.check_next(seq)
        if direct < 0 or direct >> (seq - 1):
            raise LocalProtocolError(f"message {seq} cannot replace what was never sent")
        closed = direct & self._mask
        for distance in distances(closed):
            closed |= self._recent[(seq - distance) % self.k] << distance
        closed &= self._mask
        self._push(seq, closed)
        return closed

    def take_back(self) -> None:
        """The last message was not sent after all; only one can be taken back."""
        if self._pushed_out < 0:
            raise LocalProtocolError(
                f"nothing to take back after message {self.seq}; only the last one tagged can be"
            )
        if self.k > 0:
            self._recent[self.seq % self.k] = self._pushed_out
        self._pushed_out = -1
        self.seq -= 1

    def check_next(self, seq: int) -> None:
        """Raise unless `seq` is the number of the next message."""
        if seq != self.seq + 1:
            raise LocalProtocolError(
                f"message {seq} tagged after message {self.seq}; tag each message once, in order"
            )

    def _push(self, seq: int, closed: int) -> None:
        self.seq = seq
        if self.k == 0:
            self._pushed_out = 0
            return
        place = seq % self.k
        self._pushed_out = self._recent[place]
        self._recent[place] = closed
