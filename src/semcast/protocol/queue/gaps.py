"""Gaps in the numbers that are held: a late number in, where to look on from there out.

After a loss thousands of messages come late, one after the other, into the same few gaps. Whoever
has once looked for the end of a gap need not do so for the next number in it. Knows only of a few
gaps; of those in between nothing is known, which costs a look, and is never wrong.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

# Several members may repair several gaps at a time.
_GAPS_MAX: Final = 8


@final
class Gaps:
    """The gaps looked at last."""

    def __init__(self) -> None:
        # INV-GAPS: nothing is held from _bounds[2n] on up to _bounds[2n+1], which is not included.
        self._bounds = vec[i64]([0] * (2 * _GAPS_MAX))
        self._oldest: i64 = 0

    def beyond(self, seq: i64) -> i64:
        """The first number from `seq` on that is not known to be in a gap with it."""
        bounds = self._bounds
        at: i64 = 0
        while at < 2 * _GAPS_MAX:
            if bounds[at] <= seq < bounds[at + 1]:
                return bounds[at + 1]
            at += 2
        return seq

    def note(self, first: i64, end: i64) -> None:
        """Nothing is held from `first` on up to `end`, which is not included."""
        bounds = self._bounds
        at: i64 = 0
        while at < 2 * _GAPS_MAX:
            if bounds[at] <= first < bounds[at + 1]:
                bounds[at + 1] = max(bounds[at + 1], end)
                return
            at += 2
        bounds[self._oldest] = first
        bounds[self._oldest + 1] = end
        self._oldest = (self._oldest + 2) % (2 * _GAPS_MAX)

    def fill(self, seq: i64) -> None:
        """A number is held now. Of a gap that it cuts in two the rest is remembered."""
        bounds = self._bounds
        at: i64 = 0
        while at < 2 * _GAPS_MAX:
            if bounds[at] <= seq < bounds[at + 1]:
                bounds[at] = seq + 1
            at += 2
