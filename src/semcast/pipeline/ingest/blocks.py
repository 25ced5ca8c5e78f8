"""Arrow batches of one task in; blocks of consecutive rows out, each small enough for memory.

A task may read several pieces of several files, one after the other. A block never spans two of
them, nor a place where rows are missing: so blocks can be put in order by their first row, and
that is the order of the stream. Knows neither Spark nor what rows mean, but for the three columns
`file`, `start` and `row`.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

Batch: TypeAlias = Any
Table: TypeAlias = Any
BLOCK_ROWS: Final = 1 << 20


def blocks(batches: Iterable[Batch], rows_max: int = BLOCK_ROWS) -> Iterator[Table]:
    """The same rows in the same order, cut where they are not consecutive."""
    waiting: list[Batch] = []
    rows = 0
    for batch in batches:
        for piece in _consecutive(batch):
            if waiting and (rows + piece.num_rows > rows_max or not _follows(waiting[-1], piece)):
                yield pa.Table.from_batches(waiting)
                waiting, rows = [], 0
            waiting.append(piece)
            rows += piece.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)


def _consecutive(batch: Batch) -> Iterator[Batch]:
    if batch.num_rows == 0:
        return
    file, start, row = (batch.column(name).to_numpy() for name in ("file", "start", "row"))
    breaks = (np.diff(file) != 0) | (np.diff(start) != 0) | (np.diff(row) != 1)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), batch.num_rows]
    for first, end in pairwise(edges):
        yield batch.slice(first, end - first)


def _follows(before: Batch, after: Batch) -> bool:
    file, start, row = _place(before, before.num_rows - 1)
    return (file, start, row + 1) == _place(after, 0)


def place_of(block: Table) -> tuple[int, int, int]:
    """What orders blocks: file, start and the number of the first row."""
    return _place(block, 0)


def _place(rows: Batch | Table, at: int) -> tuple[int, int, int]:
    file, start, row = (rows.column(name)[at].as_py() for name in ("file", "start", "row"))
    return file, start, row
