"""Blocked time: how long each member's window was closed to its own application (SRM §5.3)."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.counts import GONE
from semcast.pipeline.analysis.schema import beside, declared, share_of

BLOCKED: Final = (
    "run string, node string, view long, blocks long, blocked_s double, blocked_share double, "
    "longest_ms double"
)


def blocked(events: DataFrame, lived: DataFrame) -> DataFrame:
    """Events (with the span) and LIVES, one row for each member and view; schema BLOCKED.

    A block lasts until the member's next `unblock` or its end, or that of the run; it counts for
    the view in which it began. Few events are of these kinds, so the window sorts few.
    """
    ends = lived.groupBy("run", "node").agg(F.max("end_ns").alias("end_ns"))
    changes = events.where(F.col("event").isin("block", "unblock", *GONE))
    by_node = Window.partitionBy("run", "node").orderBy("lsn")
    spells = changes.withColumn("next_ns", F.lead("time_ns").over(by_node)).where("event = 'block'")
    spells = beside(spells, ends, "run", "node")
    until = F.least(F.coalesce("next_ns", "end_ns"), F.col("until_ns"))
    part = F.greatest(until - F.greatest("time_ns", "since_ns"), F.lit(0))
    begun = (F.col("time_ns") >= F.col("since_ns")) & (F.col("time_ns") < F.col("until_ns"))
    sums = (
        spells.withColumn("part_ns", part)
        .groupBy("run", "node", "view")
        .agg(
            F.count_if(begun).alias("blocks"),
            (F.sum("part_ns") / 1e9).alias("blocked_s"),
            (F.max("part_ns") / 1e6).alias("longest_ms"),
        )
    )
    whole = beside(lived, sums, "run", "node", "view").fillna(
        0, ["blocks", "blocked_s", "longest_ms"]
    )
    share = share_of(F.col("blocked_s"), F.col("measured_s"))
    return declared(whole.withColumn("blocked_share", share), BLOCKED)
