"""The semantic index of one source in one buffer: from sequence numbers to slots.

SRM §5.3 keeps the latest messages of each sender as a bitmap. Here each bit is a cell of a ring
that names the slot, so that a hit is found by one look. The ring follows the newest message and
grows with what is held; the few held messages that it leaves behind (unmarked ones at the head of
a purged stream) go to a dictionary, so that memory follows what is held, not how far apart it is.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

from semcast.protocol.queue.gaps import Gaps

_NONE: Final = -1
_CELLS_MIN: Final = 64


@final
class SeqIndex:
    """Finds the slot of a sequence number."""

    def __init__(self) -> None:
        # INV-RING: for every seq in [_base, _base + _mask], _cells[seq & _mask] is its slot or -1;
        # earlier ones are in _far; later ones are not held.
        self._base: i64 = 0
        self._mask: i64 = _CELLS_MIN - 1
        self._cells = vec[i64]([_NONE] * _CELLS_MIN)
        self._far: Final[dict[int, int]] = {}
        self._gaps: Final = Gaps()
        self.count: i64 = 0

    def get(self, seq: i64) -> i64:
        """The slot of `seq`, or -1."""
        if seq < self._base:
            return self._far.get(seq, _NONE) if self._far else _NONE
        if seq > self._base + self._mask:
            return _NONE
        return self._cells[seq & self._mask]

    def following(self, seq: i64) -> i64:
        """The first held seq from `seq` on, or one beyond all held. Gaps of any size cost the same.

        Steps while that is cheap; a gap longer than `_far` has entries is leapt over.
        """
        steps: i64 = 0
        while seq < self._base and int(seq) not in self._far:
            seq += 1
            steps += 1
            if seq < self._base and steps > len(self._far):
                seq = min([far for far in self._far if far >= seq], default=self._base)
        if seq < self._base:
            return seq
        cells = self._cells
        mask = self._mask
        end = self._base + mask + 1
        while seq < end and cells[seq & mask] < 0:
            seq += 1
        return seq

    def nearest(self, seq: i64, newest: i64) -> i64:
        """As `following`, when nothing newer than `newest` ever was. It remembers gaps, so that the
        next look into one costs nothing.
        """
        found = self.following(self._gaps.beyond(seq))
        # What comes after `newest` is not told to the gaps.
        end = min(found, newest + 1)
        if end > seq:
            self._gaps.note(seq, end)
        return found

    def put_late(self, seq: i64, slot: i64) -> None:
        """Add a seq that is not there yet and older than the newest that ever was."""
        self._gaps.fill(seq)
        self.put(seq, slot)

    def put(self, seq: i64, slot: i64) -> None:
        """Add a seq that is not there yet and newer than any that ever was."""
        if seq < self._base:
            self._far[seq] = slot
        else:
            if seq > self._base + self._mask:
                self._follow(seq)
            self._cells[seq & self._mask] = slot
        self.count += 1

    def remove(self, seq: i64) -> None:
        """Remove a seq that is there."""
        if seq < self._base:
            del self._far[seq]
        else:
            self._cells[seq & self._mask] = _NONE
        self.count -= 1

    def _follow(self, seq: i64) -> None:
        """Make `seq` fall into the ring: move it on by half its size, or more, or double it."""
        base = max(self._base + (self._mask + 1) // 2, seq - self._mask)
        # At a quarter full, growing costs no more memory than the dictionary would. Rings that
        # overlap are less than two sizes long together, so that twice the size reaches `seq`.
        if self.count * 4 > self._mask and base <= self._base + self._mask:
            self._double()
            return
        for left in range(self._base, min(base, self._base + self._mask + 1)):
            slot = self._cells[left & self._mask]
            if slot != _NONE:
                self._far[left] = slot
                self._cells[left & self._mask] = _NONE
        self._base = base

    def _double(self) -> None:
        old = self._cells
        mask = self._mask
        self._mask = 2 * mask + 1
        self._cells = vec[i64]([_NONE] * (self._mask + 1))
        for seq in range(self._base, self._base + mask + 1):
            self._cells[seq & self._mask] = old[seq & mask]
