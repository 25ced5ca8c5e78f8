"""Samples to replay: the rows of a trace in, files of messages out.

Sample 0 is the trace as it was. The others are drawn from it: its time is cut into blocks, and
each sample is a row of blocks drawn at random, with replacement (a block bootstrap). So bursts and
the distances within them stay as they were, and a plan does not hang on one order of events.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)

from semcast.errors import InputError
from semcast.pipeline.spark.progress import run_job

# About how long a drawn sample is, and the longest trace that is replayed whole.
DRAWN_MESSAGES: Final = 100_000
WHOLE_MESSAGES_MAX: Final = 500_000
BLOCKS_DRAWN: Final = 16
# A block that is much busier than the others may be drawn often; more rows are refused.
ROWS_MAX: Final = 20_000_000

DRAWS: Final = "sample int, place int, block bigint"
SAMPLES: Final = "sample int, time_s double, sender string, key string, size int"


@dataclass(frozen=True)
class Cut:
    """How the time of a trace is cut into blocks."""

    first_s: float
    block_s: float
    blocks: int

    @staticmethod
    def of(messages: int, first_s: float, last_s: float) -> "Cut":
        """As many blocks as make a sample of about `DRAWN_MESSAGES` out of 16."""
        blocks = max(BLOCKS_DRAWN, round(messages * BLOCKS_DRAWN / DRAWN_MESSAGES))
        return Cut(first_s, (last_s - first_s) / blocks, blocks)


@dataclass(frozen=True)
class Sample:
    """One file to replay."""

    number: int  # 0: the trace as it was
    path: Path
    messages: int
    duration_s: float


def draws(cut: Cut, messages: int, seeds: int, seed: int = 1) -> list[tuple[int, int, int]]:
    """Which block is where in which sample: rows of `DRAWS`."""
    found = []
    if messages <= WHOLE_MESSAGES_MAX:
        found += [(0, at, at) for at in range(cut.blocks)]
    for sample in range(1, seeds + 1):
        chance = random.Random(f"{seed}/plan/{sample}")
        found += [(sample, at, chance.randrange(cut.blocks)) for at in range(BLOCKS_DRAWN)]
    return found


def drawn(rows: DataFrame, choice: DataFrame, cut: Cut, rows_max: int | None = None) -> DataFrame:
    """Rows of a trace (`ingest.read.ROWS_SCHEMA`) and `DRAWS` in, `SAMPLES` in order out.

    With `rows_max`, no more than so many, of no particular samples.
    """
    since_s = F.col("time_s") - F.lit(cut.first_s)
    # The last message is at the very end of the last block.
    block = F.least(F.floor(since_s / F.lit(cut.block_s)), F.lit(cut.blocks - 1))
    placed = rows.where(F.col("reason").isNull()).withColumn("block", block)
    joined = placed.join(F.broadcast(choice), "block")
    if rows_max is not None:
        # Before the sort: of an order Spark takes the first rows in memory, with room for twice as
        # many as may come, and a million places are a lot where a hundred rows come.
        joined = joined.limit(rows_max)
    moved_s = since_s + (F.col("place") - F.col("block")) * F.lit(cut.block_s)
    return (
        joined.withColumn("moved_s", moved_s)
        .orderBy("sample", "moved_s", "place", "file", "start", "row")
        .select("sample", F.col("moved_s").alias("time_s"), "sender", "key", "size")
    )


def write_samples(
    spark: SparkSession, rows: DataFrame, cut: Cut, messages: int, seeds: int, folder: Path
) -> list[Sample]:
    """Draw the samples and write each as a file that `sim` replays."""
    choice = draws(cut, messages, seeds)
    per_block = messages / cut.blocks
    if len(choice) * per_block > ROWS_MAX:
        raise InputError(f"{seeds} seeds are more than {ROWS_MAX} messages; give fewer")
    found = drawn(rows, spark.createDataFrame(choice, DRAWS), cut, 2 * ROWS_MAX)
    table = run_job(spark, "drawing samples", found.toArrow)
    if table.num_rows >= 2 * ROWS_MAX:
        raise InputError(
            f"the blocks that were drawn are so busy that {seeds} samples of them have "
            f"{table.num_rows:,} messages or more; give fewer seeds, or a part of the trace"
        )
    samples = []
    for number in sorted({sample for sample, _, _ in choice}):
        blocks = sum(sample == number for sample, _, _ in choice)
        part = table.filter(pc.equal(table["sample"], number)).drop_columns(["sample"])
        if part.num_rows == 0:
            continue
        path = folder / f"sample-{number}.csv"
        pa_csv.write_csv(part, path)
        samples.append(Sample(number, path, part.num_rows, blocks * cut.block_s))
    return samples
