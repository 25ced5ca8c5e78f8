"""What each member kept for others, from when until when: entries of the retransmission buffer.

A member keeps its own messages and, in S-RM, all that it received, until it knows them to be stable
or purges them there (SRM §5.3). `stable` and `safe` name a number, and mean everything up to it: in
each stream, newest number first, the earliest of those seen so far is the one for a message.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analyse.schema import declared

RETAINED: Final = (
    "run string, node string, view long, sender string, seq long, size long, kept boolean, "
    "sent_ns long, entered_ns long, entered_lsn long, stable_ns long, stable_lsn long, "
    "safe_ns long, purged_ns long, purged_lsn long, cover long"
)
_ENTRY: Final = "event = 'multicast' or (event = 'receive' and node != sender)"
_PURGE: Final = "event = 'purge' and where = 'retransmit'"


def retained(events: DataFrame) -> DataFrame:
    """Events (with group_reliable), one row for each member and message it had; schema RETAINED.

    `kept` is false for messages that the member received and does not keep for others; `cover` is
    a hash of the message that one was purged for.
    """
    told = F.col("event").isin("stable", "safe")
    kind = F.when(told, 0).when(F.expr(_PURGE), 1).otherwise(2)
    cover = F.when(F.col("event") == "purge", F.xxhash64("by_sender", "by_seq"))
    rows = events.where(told | F.expr(_ENTRY) | F.expr(_PURGE)).select(
        "run", "node", "view", "sender", "seq", "size", "sent_ns", "time_ns", "lsn", "event",
        "group_reliable", kind.alias("kind"), cover.alias("cover"),
    )  # fmt: skip
    # At one number: first what is told of it, then its purge, then the message itself.
    stream = Window.partitionBy("run", "node", "sender").orderBy(F.desc("seq"), "kind")
    before = stream.rowsBetween(Window.unboundedPreceding, 0)

    def told_first(event: str, name: str) -> Column:
        return F.min(F.when(F.col("event") == event, F.col(name))).over(before)

    def of_purge(name: str) -> Column:
        """Of the row before, if that is the purge of this message."""
        same = (F.lag("kind").over(stream) == 1) & (F.lag("seq").over(stream) == F.col("seq"))
        return F.when(same, F.lag(name).over(stream))

    found = rows.select(
        "*",
        told_first("stable", "time_ns").alias("stable_ns"),
        told_first("stable", "lsn").alias("stable_lsn"),
        told_first("safe", "time_ns").alias("safe_ns"),
        of_purge("time_ns").alias("purged_ns"),
        of_purge("lsn").alias("purged_lsn"),
        of_purge("cover").alias("purged_for"),
    ).where("kind = 2")
    found = found.drop("cover").withColumnsRenamed(
        {"time_ns": "entered_ns", "lsn": "entered_lsn", "purged_for": "cover"}
    )
    kept = F.col("group_reliable") | (F.col("node") == F.col("sender"))
    found = found.withColumn("kept", kept)
    return declared(found, RETAINED)
