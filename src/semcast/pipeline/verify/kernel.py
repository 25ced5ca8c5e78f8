"""Kernels: rows that Spark has sorted in, findings out, one group of rows after the other.

A kernel judges one property of one group (one sender, one node) and sees its rows in order, batch
by batch, so that a task needs no more memory than the kernels' own state. All kernels of a group
are fed the same batches: rows are sorted and brought to Python once. Most batches are as they
should be, which NumPy can tell of all rows at once; only the others are looked at row by row.
Knows nothing of the properties.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from semcast.journal.schema import require_pyarrow
from semcast.pipeline.verify.columns import Columns

# What a property gives: one row for each broken promise, as check.Violation has it.
VIOLATIONS: Final = (
    "run string, property string, node string, "
    "messages array<struct<sender: string, seq: bigint>>, at_ns bigint, text string"
)
# What kernels give: violations, and for some properties more, null for the others.
# Of a fault in the books: the event, and what comes first if it has several faults.
# Of a ranked message: its key, the node, and where in the key's order; without a property such a
# row says what a node has.
FOUND: Final = (
    f"{VIOLATIONS}, nid int, at bigint, precedence int, run_no int, n int, `key` string, "
    "place struct<rank: bigint, source: bigint, life: bigint, seq: bigint>"
)
_FLUSH_ROWS: Final = 10_000


class Kernel(Protocol):
    """Judges one group; `found` are rows (the first columns of `FOUND`), taken now and then."""

    found: list[tuple[Any, ...]]

    def feed(self, rows: Columns) -> None:
        """Some more rows of the group."""

    def end(self) -> None:
        """That was all."""


# All kernels that a group, called by its number, is to be judged by.
Makers = Callable[[int], Sequence[Kernel]]


def judge(frame: DataFrame, group: str, make: Makers, schema: str = FOUND) -> DataFrame:
    """Stage: a frame in which the rows of a group stand together and in order; what kernels found.

    `group` is a column of numbers.
    """
    # Only the driver can read Spark's words for a schema.
    words = StructType.fromDDL(schema)
    assert isinstance(words, StructType)
    arrow_schema = to_arrow_schema(words)
    work = partial(_judge_batches, group=group, make=make, arrow_schema=arrow_schema)
    return _with_empty_lists(frame).mapInArrow(work, schema)


def _with_empty_lists(frame: DataFrame) -> DataFrame:
    """Stage: empty lists for those that are null. Kernels take them alike, but Arrow in Java needs
    time that grows with the square of a run of null lists, and most events have none.
    """
    empty = {
        field.name: F.coalesce(F.col(field.name), F.array().cast(field.dataType))
        for field in frame.schema
        if isinstance(field.dataType, ArrayType)
    }
    return frame.withColumns(empty) if empty else frame


def _judge_batches(
    batches: Iterator[Any], group: str, make: Makers, arrow_schema: Any
) -> Iterator[Any]:
    pyarrow = require_pyarrow()
    width = len(arrow_schema)
    for rows in feed_all(batches, group, make):
        columns = zip(*(row + (None,) * (width - len(row)) for row in rows), strict=True)
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, arrow_schema, strict=True)
        ]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def feed_all(batches: Iterator[Any], group: str, make: Makers) -> Iterator[list[tuple[Any, ...]]]:
    """Feed every group to kernels of its own; what they find, some rows at a time."""
    current = None
    kernels: Sequence[Kernel] = ()
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        numbers = batch.column(group).to_numpy(zero_copy_only=False)
        for first, last in pairwise(_edges(numbers)):
            number = int(numbers[first])
            if number != current:
                _end(kernels, found)
                current, kernels = number, make(number)
            if kernels:
                rows = Columns(batch.slice(first, last - first))
                for kernel in kernels:
                    kernel.feed(rows)
                    found += kernel.found
                    kernel.found = []
            if len(found) >= _FLUSH_ROWS:
                yield found
                found = []
    _end(kernels, found)
    if found:
        yield found


def _end(kernels: Sequence[Kernel], found: list[tuple[Any, ...]]) -> None:
    for kernel in kernels:
        kernel.end()
        found += kernel.found


def _edges(numbers: Any) -> list[int]:
    """Where groups begin, and the end."""
    inner = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    return [0, *inner.tolist(), len(numbers)]
