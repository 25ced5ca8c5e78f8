"""The stage that reads all rows, once: rows in, the counts of their blocks out."""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame

from semcast.pipeline.ingest.blocks import BLOCK_ROWS, Batch, blocks
from semcast.pipeline.profiling.kernel import Question, count_block

PARTIALS_SCHEMA: Final = (
    "what string, file int, start bigint, row bigint, sender string, key string, "
    "x bigint, n bigint, first bigint, last bigint, bytes bigint, "
    "first_s double, last_s double, low_s double, high_s double"
)
_NEEDED: Final = ("file", "start", "row", "time_s", "sender", "key", "size", "reason")


def partials(rows: DataFrame, question: Question, block_rows: int = BLOCK_ROWS) -> DataFrame:
    """Rows (`ingest.read.ROWS_SCHEMA`) in, counts by block (`kernel` says which) out.

    No row is moved to another task, and a task holds one block in memory.
    """

    def count(batches: Iterator[Batch]) -> Iterator[Batch]:
        for block in blocks(batches, block_rows):
            yield from count_block(block, question)

    return rows.select(*_NEEDED).mapInArrow(count, PARTIALS_SCHEMA)
