"""What was found in; its rows out, in order, as `ingest.read.ROWS_SCHEMA`."""

from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.ingest.ingested import as_rows, read_trace_rows
from semcast.pipeline.ingest.read import read_rows
from semcast.pipeline.journals import read_journals
from semcast.pipeline.profiling.find import Files, Found, Ingested, Run


@dataclass(frozen=True)
class Traffic:
    """The messages of one trace or run, in order, and what people call it."""

    name: str
    rows: DataFrame
    # Messages of a journal that replace others by number and not by key, so that their distance
    # is not counted.
    by_number: DataFrame | None = None


def open_traffic(spark: SparkSession, found: Found) -> Traffic:
    """The rows of what `find_traffic` found."""
    match found:
        case Files():
            return Traffic(found.name, read_rows(spark, found.files, found.options))
        case Ingested():
            return Traffic(found.name, as_rows(read_trace_rows(spark, found.lake, found.name)))
        case Run():
            events = read_journals(spark, found.directory, [found.name]).events
            return Traffic(found.name, journal_rows(events), _by_number(events))
        case _:
            assert_never(found)


def journal_rows(events: DataFrame) -> DataFrame:
    """The messages of one run's journal as rows of a trace, by the time they were multicast.

    Those of one sender keep their order whatever its clock did: a message counts as of the latest
    time of those before it.
    """
    earlier = Window.partitionBy("sender").orderBy("seq")
    sent = events.where(F.col("event") == "multicast").select(
        F.max("time_ns").over(earlier).alias("time_ns"), "sender", "seq", "key", "size"
    )
    time_s = F.col("time_ns") / F.lit(1e9)
    placed = sent.repartitionByRange("time_ns", "sender", "seq").sortWithinPartitions(
        "time_ns", "sender", "seq"
    )
    nothing = F.lit(None).cast("string")
    return placed.select(
        F.lit(0).alias("file"),
        # Read once, by the stage that counts: another run of it may split elsewhere.
        F.spark_partition_id().cast("bigint").alias("start"),
        F.monotonically_increasing_id().alias("row"),
        time_s.alias("time_s"),
        F.coalesce("sender", F.lit("")).alias("sender"),
        F.coalesce("key", F.lit("")).alias("key"),
        F.lit("").alias("kind"),
        "size",
        nothing.alias("reason"),
        nothing.alias("text"),
    )


def _by_number(events: DataFrame) -> DataFrame:
    marked = (F.col("event") == "multicast") & F.col("key").isNull()
    return events.where(marked & (F.size("obsoletes") > 0))
