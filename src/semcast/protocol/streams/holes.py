"""Holes: which numbers of a stream are missing, as ranges; what arrives is taken out of them.

What is missing after a loss are runs of numbers, so everything here costs by the run and not by the
message, however many wait behind it. Knows nothing of messages, of time, or of whom to ask.
"""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64


@final
class Holes:
    """Ranges of numbers, in order; both ends of a range belong to it."""

    def __init__(self) -> None:
        # INV-HOLES: range n goes from _firsts[n] to _lasts[n]. Ranges are in order, none is empty,
        # and between two of them there is at least one number that is not missing.
        self._firsts: Final[list[int]] = []
        self._lasts: Final[list[int]] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def ranges(self) -> list[tuple[int, int]]:
        """All ranges. For looking, not for the hot path."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def range_at(self, at: i64) -> tuple[int, int]:
        """The range of this place, counted from the nearest."""
        return self._firsts[at], self._lasts[at]

    def has(self, seq: i64) -> bool:
        """Whether this number is missing."""
        if not self._firsts or seq > self._lasts[-1]:
            return False
        at = bisect_left(self._lasts, seq)
        return self._firsts[at] <= seq

    def has_all(self, first: i64, last: i64) -> bool:
        """Whether all of these are missing."""
        if not self._firsts or last > self._lasts[-1]:
            return False
        at = bisect_left(self._lasts, first)
        return self._firsts[at] <= first and last <= self._lasts[at]

    def has_any(self, first: i64, last: i64) -> bool:
        """Whether any of these is missing."""
        if not self._firsts or first > self._lasts[-1] or last < self._firsts[0]:
            return False
        return self._firsts[bisect_left(self._lasts, first)] <= last

    def add(self, first: i64, last: i64) -> None:
        """These are missing from now on; none of them was before."""
        firsts, lasts = self._firsts, self._lasts
        at: i64 = len(firsts)
        if at > 0 and first <= lasts[-1]:
            at = bisect_left(firsts, first)
        joins_previous = at > 0 and lasts[at - 1] == first - 1
        joins_next = at < len(firsts) and firsts[at] == last + 1
        if joins_previous and joins_next:
            lasts[at - 1] = lasts[at]
            del firsts[at]
            del lasts[at]
        elif joins_previous:
            lasts[at - 1] = last
        elif joins_next:
            firsts[at] = first
        else:
            firsts.insert(at, first)
            lasts.insert(at, last)

    def fill(self, first: i64, last: i64) -> None:
        """None of these is missing any more, if any was."""
        firsts, lasts = self._firsts, self._lasts
        if not firsts or first > lasts[-1] or last < firsts[0]:
            return
        at: i64 = bisect_left(lasts, first)
        while at < len(firsts) and firsts[at] <= last:
            begins, ends = firsts[at], lasts[at]
            if begins < first and ends > last:
                lasts[at] = first - 1
                firsts.insert(at + 1, last + 1)
                lasts.insert(at + 1, ends)
                return
            if begins < first:
                lasts[at] = first - 1
                at += 1
            elif ends > last:
                firsts[at] = last + 1
                return
            else:
                del firsts[at]
                del lasts[at]
