"""Kernels: rows that Spark has sorted in, findings out, one group of rows after the other.

A kernel judges one group (one sender, one node) and sees its rows in order, batch by batch, so that
a task needs no more memory than the kernel's own state. Knows nothing of the properties.
"""

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias, final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from semcast.journal.schema import require_pyarrow

# What a property gives: one row for each broken promise, as check.Violation has it.
VIOLATIONS: Final = (
    "run string, property string, node string, "
    "messages array<struct<sender: string, seq: bigint>>, at_ns bigint, text string"
)
Columns: TypeAlias = dict[str, list[Any]]
_FLUSH_ROWS: Final = 10_000
_CHUNK_BITS: Final = 12


class Kernel(Protocol):
    """Judges one group; `found` are rows of its output, taken away from time to time."""

    found: list[tuple[Any, ...]]

    def feed(self, rows: Columns) -> None:
        """Some more rows of the group, as columns."""

    def end(self) -> None:
        """That was all."""


def judge(
    frame: DataFrame, group: str, make: Callable[[int], Kernel], schema: str = VIOLATIONS
) -> DataFrame:
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
    batches: Iterator[Any], group: str, make: Callable[[int], Kernel], arrow_schema: Any
) -> Iterator[Any]:
    pyarrow = require_pyarrow()
    for rows in feed_all(batches, group, make):
        columns = zip(*rows, strict=True)
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, arrow_schema, strict=True)
        ]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def feed_all(
    batches: Iterator[Any], group: str, make: Callable[[int], Kernel]
) -> Iterator[list[tuple[Any, ...]]]:
    """Feed every group to a kernel of its own; what they find, some rows at a time."""
    current = None
    kernel: Kernel | None = None
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = {name: _as_list(batch.column(at)) for at, name in enumerate(batch.schema.names)}
        for first, last in pairwise(_edges(batch.column(group))):
            number = columns[group][first]
            if kernel is None or number != current:
                if kernel is not None:
                    kernel.end()
                    found += kernel.found
                current, kernel = number, make(number)
            if last - first == batch.num_rows:
                kernel.feed(columns)
            else:
                kernel.feed({name: column[first:last] for name, column in columns.items()})
            found += kernel.found
            kernel.found = []
            if len(found) >= _FLUSH_ROWS:
                yield found
                found = []
    if kernel is not None:
        kernel.end()
        found += kernel.found
    if found:
        yield found


def _edges(column: Any) -> list[int]:
    """Where groups begin, and the end."""
    import numpy

    numbers = column.to_numpy(zero_copy_only=False)
    inner = numpy.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    return [0, *inner.tolist(), len(numbers)]


def _as_list(column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and str(column.type).startswith("int"):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


@final
class SeqTable:
    """A number for each seq, -1 where none was set. Eight bytes each where seqs are dense."""

    def __init__(self) -> None:
        self._chunks: Final[dict[int, array[int]]] = {}

    def __getitem__(self, seq: int) -> int:
        chunk = self._chunks.get(seq >> _CHUNK_BITS)
        return -1 if chunk is None else chunk[seq & ((1 << _CHUNK_BITS) - 1)]

    def __setitem__(self, seq: int, value: int) -> None:
        chunk = self._chunks.get(seq >> _CHUNK_BITS)
        if chunk is None:
            chunk = self._chunks[seq >> _CHUNK_BITS] = array("q", [-1]) * (1 << _CHUNK_BITS)
        chunk[seq & ((1 << _CHUNK_BITS) - 1)] = value


@final
class SeqBytes:
    """A byte for each seq, 0 where none was set."""

    def __init__(self) -> None:
        self._chunks: Final[dict[int, bytearray]] = {}

    def chunk(self, seq: int) -> bytearray:
        """Where the byte of this seq is, at `seq & SeqBytes.MASK`."""
        chunk = self._chunks.get(seq >> _CHUNK_BITS)
        if chunk is None:
            chunk = self._chunks[seq >> _CHUNK_BITS] = bytearray(1 << _CHUNK_BITS)
        return chunk

    MASK: Final = (1 << _CHUNK_BITS) - 1
