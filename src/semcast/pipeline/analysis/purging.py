"""Purging: which share of what the group sent left each member's buffers unread, where and why.

The purge ratio of SRM §6.2 is that of the places `delivery` and `network` together: what a member
did not deliver because a later message was, or will be, delivered instead.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.schema import declared, share_of

PURGING: Final = (
    "run string, node string, view long, place string, reason string, "
    "messages long, bytes long, sent_by_group long, share_of_sent double"
)


def purging(counted: DataFrame) -> DataFrame:
    """From COUNTS, one row for each member, view, place and reason; schema PURGING.

    Bytes of messages that never came (place `network`) are not known and count as 0.
    """
    sent = F.sum(F.when(F.col("event") == "multicast", F.col("count")).otherwise(0)).over(
        Window.partitionBy("run", "view")
    )
    found = (
        counted.withColumn("sent_by_group", sent)
        .where("reason is not null and count > 0")
        .withColumn("messages", F.col("count"))
        .withColumn("share_of_sent", share_of(F.col("messages"), F.col("sent_by_group")))
    )
    return declared(found, PURGING)
