"""What each member kept for others, from when until when: entries of the retransmission buffer.

A member keeps its own messages and, in S-RM, all that it received, until it knows them to be stable
or purges them there (SRM §5.3). `stable` and `safe` name a number, and mean everything up to it: in
each stream, newest number first, the earliest of those seen so far is the one for a message.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.members import member_number
from semcast.pipeline.analysis.schema import declared

RETAINED: Final = (
    "member long, view long, own boolean, kept boolean, message long, size long, "
    "sent_ns long, entered_ns long, entered_lsn long, stable_ns long, stable_lsn long, "
    "safe_ns long, purged_ns long, purged_lsn long, cover long"
)
_ENTRY: Final = "event = 'multicast' or (event = 'receive' and node != sender)"
_PURGE: Final = "event = 'purge' and where = 'retransmit'"


def retained(events: DataFrame) -> DataFrame:
    """Events (with group_reliable), one row for each member and message it had; schema RETAINED.

    `own` are the messages that the member multicast. `kept` is false for those that it received
    and does not keep for others; `message` and `cover` are hashes, of the message and of what it
    was purged for; `member` is as in `members`.
    """
    news = F.col("event").isin("stable", "safe")
    kind = F.when(news, 0).when(F.expr(_PURGE), 1).otherwise(2)
    cover = F.when(F.col("event") == "purge", F.xxhash64("by_sender", "by_seq"))
    own = F.col("node") == F.col("sender")
    rows = events.where(news | F.expr(_ENTRY) | F.expr(_PURGE)).select(
        F.xxhash64("run", "node", "sender").alias("stream"), member_number().alias("member"),
        "view", "seq", "size", "sent_ns", "time_ns", "lsn", own.alias("own"),
        (F.col("group_reliable") | own).alias("kept"), F.xxhash64("sender", "seq").alias("message"),
        (F.col("event") == "stable").alias("stable"), (F.col("event") == "safe").alias("safe"),
        kind.alias("kind"), cover.alias("cover"),
    )  # fmt: skip
    # At one number: first what is known of it, then its purge, then the message itself.
    stream = Window.partitionBy("stream").orderBy(F.desc("seq"), "kind")
    before = stream.rowsBetween(Window.unboundedPreceding, 0)

    def first_news(event: str, name: str) -> Column:
        return F.min(F.when(F.col(event), F.col(name))).over(before)

    def of_purge(name: str) -> Column:
        """Of the row before, if that is the purge of this message."""
        same = (F.lag("kind").over(stream) == 1) & (F.lag("seq").over(stream) == F.col("seq"))
        return F.when(same, F.lag(name).over(stream))

    found = rows.select(
        "*",
        first_news("stable", "time_ns").alias("stable_ns"),
        first_news("stable", "lsn").alias("stable_lsn"),
        first_news("safe", "time_ns").alias("safe_ns"),
        of_purge("time_ns").alias("purged_ns"),
        of_purge("lsn").alias("purged_lsn"),
        of_purge("cover").alias("purged_for"),
    ).where("kind = 2")
    found = found.drop("cover").withColumnsRenamed(
        {"time_ns": "entered_ns", "lsn": "entered_lsn", "purged_for": "cover"}
    )
    return declared(found, RETAINED)
