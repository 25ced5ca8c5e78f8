"""Columns of text in, small integers out, and what is quick to ask of those. Knows no Spark."""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from semcast.pipeline.ingest.blocks import Table

Longs: TypeAlias = npt.NDArray[np.int64]
Strings: TypeAlias = Any
NARROW_MAX: Final = 1 << 16


def encoded(table: Table, name: str) -> tuple[Strings, Longs]:
    """The distinct values of a column without nulls, and which of them each row has."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no chunks, or of more text than one can hold
        column = pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    found = column.dictionary_encode()
    return found.dictionary, found.indices.to_numpy().astype(np.int64)


def own_position(owner: Longs, owners: int) -> Longs:
    """The place of every row among those of its owner, from 0."""
    order = stable_order(owner, owners)
    counts = np.bincount(owner, minlength=owners)
    before = np.cumsum(counts) - counts
    position = np.empty(len(owner), np.int64)
    position[order] = np.arange(len(owner)) - before[owner[order]]
    return position


def stable_order(codes: Longs, distinct: int) -> Longs:
    """The rows by code, those of one code in their own order."""
    # NumPy sorts 16-bit integers by radix, in a tenth of the time.
    narrow = codes.astype(np.uint16) if distinct <= NARROW_MAX else codes
    return np.argsort(narrow, kind="stable")
