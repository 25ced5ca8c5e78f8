"""Rows in, rows with their place in the stream out; no window over all of them, no sort.

Two steps. `number_in_blocks` counts within blocks, in the task that reads them. Once that is
written down, `block_counts` says how many rows each block has, and `number` adds what came before.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.ingest.blocks import BLOCK_ROWS, Batch, Table, blocks, place_of
from semcast.pipeline.ingest.codes import encoded, own_position

# `file`, `start` and `row` name the block; `record` counts all rows of it, `pos` the good ones and
# `seq` those of the same sender, all from 1. `back`: its time is before that of the row above.
STAGED_SCHEMA: Final = (
    "file int, start bigint, row bigint, record bigint, pos bigint, seq bigint, back boolean, "
    "time_s double, sender string, key string, kind string, size int, reason string, text string"
)
PLACES_SCHEMA: Final = (
    "file int, start bigint, row bigint, stream int, block bigint, pos0 bigint, record0 bigint"
)
NUMBERED_SCHEMA: Final = (
    "file int, time_s double, sender string, key string, kind string, size int, "
    "seq bigint, pos bigint"
)
REJECTED_SCHEMA: Final = "file int, record bigint, reason string, text string"
BEFORE_SCHEMA: Final = "stream int, sender string, n bigint"
_DATA: Final = ("time_s", "sender", "key", "kind", "size")
_BLOCK: Final = ["file", "start", "row"]


def number_in_blocks(rows: DataFrame, block_rows: int = BLOCK_ROWS) -> DataFrame:
    """`read.ROWS_SCHEMA` in, STAGED_SCHEMA out. Write it down before you use it twice."""

    def number(batches: Iterator[Batch]) -> Iterator[Batch]:
        for block in blocks(batches, block_rows):
            yield from number_block(block).to_batches()

    return rows.mapInArrow(number, STAGED_SCHEMA)


def number_block(block: Table) -> Table:
    """One block, its rows numbered from its own beginning."""
    file, start, row = place_of(block)
    good = pc.is_null(block.column("reason")).to_numpy()
    at = np.flatnonzero(good)
    senders, sender_of = encoded(block.take(pa.array(at)), "sender")
    seq = np.zeros(len(good), np.int64)
    seq[at] = own_position(sender_of, len(senders)) + 1
    times = block.column("time_s").to_numpy()
    back = np.zeros(len(good), bool)
    back[at[1:]] = np.diff(times[at]) < 0  # without times these are NaN, and nothing is below it
    numbers = {
        "file": pa.array(np.full(len(good), file, np.int32)),
        "start": pa.array(np.full(len(good), start)),
        "row": pa.array(np.full(len(good), row)),
        "record": pa.array(np.arange(1, len(good) + 1)),
        "pos": pa.array(np.cumsum(good)),
        "seq": pa.array(seq),
        "back": pa.array(back),
    }
    data = {name: block.column(name) for name in (*_DATA, "reason", "text")}
    return pa.table(numbers | data)


def block_counts(staged: DataFrame) -> DataFrame:
    """One row for a block: `file, start, row, records, good, senders, back, first_s, last_s`.

    `senders` is an estimate.
    """
    good = F.col("reason").isNull()
    time_s = F.when(good, F.col("time_s"))
    place = F.when(good, F.col("pos"))
    return staged.groupBy(*_BLOCK).agg(
        F.count("*").alias("records"),
        F.count_if(good).alias("good"),
        F.approx_count_distinct("sender").alias("senders"),
        F.count_if("back").alias("back"),
        F.min_by(time_s, place).alias("first_s"),
        F.max_by(time_s, place).alias("last_s"),
    )


def sender_offsets(staged: DataFrame, places: DataFrame, before: DataFrame) -> DataFrame:
    """How many messages a sender has before a block: `block bigint, sender string, seq0 bigint`.

    `before` (BEFORE_SCHEMA): how many it has in the streams already.
    """
    good = staged.where(F.col("reason").isNull())
    mine = good.groupBy(*_BLOCK, "sender").agg(F.count("*").alias("n"))
    placed = mine.join(F.broadcast(places), _BLOCK).select("stream", "block", "sender", "n")
    there = before.select("stream", F.lit(-1).cast("bigint").alias("block"), "sender", "n")
    earlier = (
        Window.partitionBy("stream", "sender")
        .orderBy("block")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    seq0 = F.coalesce(F.sum("n").over(earlier), F.lit(0))
    offsets = placed.union(there).select("block", "sender", seq0.alias("seq0"))
    return offsets.where(F.col("block") >= 0)


def number(
    staged: DataFrame, places: DataFrame, offsets: DataFrame, few_offsets: bool
) -> DataFrame:
    """The good rows with their numbers in the whole stream: NUMBERED_SCHEMA.

    Each task has consecutive rows, or few runs of them, in order: what reads them later wants that.
    """
    good = staged.where(F.col("reason").isNull()).join(F.broadcast(places), _BLOCK)
    if few_offsets:
        offsets = F.broadcast(offsets)  # then no row moves
    numbered = good.join(offsets, ["block", "sender"]).select(
        "file",
        *_DATA,
        (F.col("seq") + F.col("seq0")).alias("seq"),
        (F.col("pos") + F.col("pos0")).alias("pos"),
    )
    if not few_offsets:
        numbered = numbered.repartitionByRange("file", "pos")
    return numbered.sortWithinPartitions("file", "pos")


def rejected(staged: DataFrame, places: DataFrame) -> DataFrame:
    """The bad rows, which record of their file each is, and why: REJECTED_SCHEMA."""
    bad = staged.where(F.col("reason").isNotNull()).join(F.broadcast(places), _BLOCK)
    record = (F.col("record") + F.col("record0")).alias("record")
    return bad.select("file", record, "reason", "text").sortWithinPartitions("file")
