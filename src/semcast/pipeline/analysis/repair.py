"""Repair: what was asked for again and sent again, and how much that is per message of the group.

Stability and safety detection, seals and headers are not in the journal: the datagrams and bytes
that a simulated network carried are in the output of `semcast sim run`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.schema import declared, share_of

REPAIR: Final = (
    "run string, node string, view long, naks long, retransmitted long, retransmitted_bytes long, "
    "naks_per_message double, retransmitted_per_message double, retransmitted_bytes_share double"
)


def repair(counted: DataFrame) -> DataFrame:
    """From COUNTS, one row for each member and view; schema REPAIR.

    A nak is one message asked for once. Shares are of what the whole group multicast.
    """
    sums = counted.groupBy("run", "node", "view").agg(
        _sum("nak", "count").alias("naks"),
        _sum("retransmit", "count").alias("retransmitted"),
        _sum("retransmit", "bytes").alias("retransmitted_bytes"),
        _sum("multicast", "count").alias("sent"),
        _sum("multicast", "bytes").alias("sent_bytes"),
    )
    group = Window.partitionBy("run", "view")
    messages, size = F.sum("sent").over(group), F.sum("sent_bytes").over(group)
    found = sums.withColumns(
        {
            "naks_per_message": share_of(F.col("naks"), messages),
            "retransmitted_per_message": share_of(F.col("retransmitted"), messages),
            "retransmitted_bytes_share": share_of(F.col("retransmitted_bytes"), size),
        }
    )
    return declared(found, REPAIR)


def _sum(event: str, column: str) -> Column:
    return F.sum(F.when(F.col("event") == event, F.col(column)).otherwise(0))
