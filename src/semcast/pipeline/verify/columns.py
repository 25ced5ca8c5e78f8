"""Rows of one group in; the same as columns out: NumPy arrays, lists, or the order of messages.

A column is made when somebody asks for it, and once: several kernels look at the same rows.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Longs: TypeAlias = NDArray[np.int64]
# A sender's number and a seq in one number, if both are small enough.
_SEQ_BITS: Final = 43
_SENDER_BITS: Final = 19


@final
class Columns:
    """Some consecutive rows of a group."""

    def __init__(self, batch: Any) -> None:
        self._batch: Final = batch
        self._numbers: Final[dict[str, Longs]] = {}
        self._lists: Final[dict[str, list[Any]]] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def slice(self, first: int, last: int) -> "Columns":
        """Some of these rows."""
        return Columns(self._batch.slice(first, last - first))

    def __getitem__(self, name: str) -> list[Any]:
        """A column as Python has it, nulls as None."""
        found = self._lists.get(name)
        if found is None:
            found = self._lists[name] = _as_list(self._batch.column(name))
        return found

    def numbers(self, name: str) -> Longs:
        """A column of numbers, none of which is null."""
        found = self._numbers.get(name)
        if found is None:
            column = self._batch.column(name).to_numpy(zero_copy_only=False)
            found = self._numbers[name] = column.astype(np.int64, copy=False)
        return found

    def arrow(self, name: str) -> Any:
        """A column as Arrow has it."""
        return self._batch.column(name)

    @cached_property
    def parts(self) -> "list[Columns]":
        """The multicasts among these rows, which are of kind 0, and the others, by themselves."""
        zero = (self.numbers("kind") == 0).astype(np.int8)
        edges = [0, *(np.flatnonzero(zero[1:] != zero[:-1]) + 1).tolist(), len(self)]
        if len(edges) == 2:
            return [self]
        return [self.slice(first, last) for first, last in pairwise(edges)]

    @cached_property
    def by_message(self) -> Longs:
        """The rows by message (sid, seq), those of one message in their own order."""
        return order_of(self.numbers("sid"), self.numbers("seq"))


def order_of(senders: Longs, seqs: Longs) -> Longs:
    """The order by sender, then seq; of equal ones their own."""
    keys = keys_of(senders, seqs)
    if keys is None:
        return np.lexsort((seqs, senders))
    return np.argsort(keys, kind="stable")


def keys_of(senders: Longs, seqs: Longs) -> Longs | None:
    """A number for each message, in the same order as they; None if they are too large for that."""
    if len(seqs):
        fits = senders.min() >= 0 and senders.max() < 1 << _SENDER_BITS
        if not fits or seqs.min() < 0 or seqs.max() >= 1 << _SEQ_BITS:
            return None
    return (senders << _SEQ_BITS) | seqs


def starts_of(senders: Longs, seqs: Longs) -> Longs:
    """Of rows by message: where each message begins."""
    new = (senders[1:] != senders[:-1]) | (seqs[1:] != seqs[:-1])
    return np.append(0, np.flatnonzero(new) + 1)


def slices_of(sorted_numbers: Longs) -> list[tuple[int, slice]]:
    """Each number that is there, and where."""
    if not len(sorted_numbers):
        return []
    inner = np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1
    edges = [0, *inner.tolist(), len(sorted_numbers)]
    return [(int(sorted_numbers[first]), slice(first, last)) for first, last in pairwise(edges)]


def _as_list(column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and str(column.type).startswith("int"):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]
