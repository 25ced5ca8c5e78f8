"""A number for each seq of a sender: tables that grow with the seqs that are there.

Numbers go in and come out, one by one or many at once. What is set one by one is kept in a
dictionary, which is fast for small journals. What is set at once, or grows beyond `FEW`, lies in
pages of 4,096 seqs, so that a large table takes as much memory as there are messages where seqs are
dense.
"""

from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.check.rows import Longs

_PAGE_BITS: Final = 12
_PAGE_MASK: Final = (1 << _PAGE_BITS) - 1
FEW: Final = 1 << 14


@final
class SeqTable(dict[int, int]):
    """A number for each seq; `empty` where none was set. INV-NEWER: the dictionary goes first."""

    def __init__(self, empty: int = -1, kind: Any = np.int64) -> None:
        super().__init__()
        self._empty: Final = empty
        self._kind: Final = kind
        self._pages: Final[dict[int, NDArray[Any]]] = {}

    def __missing__(self, seq: int) -> int:
        page = self._pages.get(seq >> _PAGE_BITS)
        return self._empty if page is None else int(page[seq & _PAGE_MASK])

    def trim(self) -> None:
        """Move what was set one by one to the pages if it is a lot; call this now and then."""
        if len(self) > FEW:
            self._settle()

    def many(self, seqs: Longs) -> Longs:
        """What is there for each of them."""
        self._settle()
        found = np.full(len(seqs), self._empty, np.int64)
        for number, rows in _pages_of(seqs):
            page = self._pages.get(number)
            if page is not None:
                found[rows] = page[seqs[rows] & _PAGE_MASK]
        return found

    def set_many(self, seqs: Longs, values: Longs) -> None:
        """Put a value for each of them; of a seq that is there twice, either counts."""
        self._settle()
        for number, rows in _pages_of(seqs):
            self._page(number)[seqs[rows] & _PAGE_MASK] = values[rows]

    def or_many(self, seqs: Longs, bits: Longs) -> None:
        """Add bits to what is there."""
        self._settle()
        for number, rows in _pages_of(seqs):
            np.bitwise_or.at(self._page(number), seqs[rows] & _PAGE_MASK, bits[rows])

    def _settle(self) -> None:
        if self:
            seqs = np.fromiter(self.keys(), np.int64, len(self))
            values = np.fromiter(self.values(), np.int64, len(self))
            self.clear()
            self.set_many(seqs, values)

    def _page(self, number: int) -> NDArray[Any]:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = np.full(1 << _PAGE_BITS, self._empty, self._kind)
        return page


def _pages_of(seqs: Longs) -> list[tuple[int, Any]]:
    """The pages that seqs are on, and which of them are there."""
    if not len(seqs):
        return []
    pages = seqs >> _PAGE_BITS
    low, high = int(pages.min()), int(pages.max())
    if low == high:
        return [(low, slice(None))]
    # Mostly seqs are in order, or nearly: then each page is a slice.
    edges = np.append(0, np.flatnonzero(pages[1:] != pages[:-1]) + 1)
    order: Longs | None = None
    if len(edges) > 2 * (high - low + 1):
        order = np.argsort(pages, kind="stable")
        pages = pages[order]
        edges = np.append(0, np.flatnonzero(pages[1:] != pages[:-1]) + 1)
    ends = [*edges[1:].tolist(), len(pages)]
    return [
        (int(pages[first]), slice(first, last) if order is None else order[first:last])
        for first, last in zip(edges.tolist(), ends, strict=True)
    ]
