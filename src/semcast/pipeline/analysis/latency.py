"""Latency: from multicast until a member's application took the message, of those that it took.

The sender's clock says when a message was sent and the member's when it was taken. `one_clock` says
whether these are one clock, as in a simulated run. If not, a latency is off by as much as the
clocks differ, and may be below zero.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.counts import measured
from semcast.pipeline.analysis.percentiles import in_ms, ms_ddl, percentiles_of
from semcast.pipeline.analysis.schema import declared

LATENCY: Final = (
    "run string, node string, view long, one_clock boolean, messages long, latency_mean_ms double, "
    f"{ms_ddl('latency')}"
)


def latency(events: DataFrame) -> DataFrame:
    """Events (with the span and one_order), one row for each member and view; schema LATENCY.

    Both ends lie in the measured span, as the simulator counts.
    """
    sent = (F.col("sent_ns") >= F.col("since_ns")) & (F.col("sent_ns") < F.col("until_ns"))
    taken = events.where((F.col("event") == "deliver") & measured() & sent)
    took = F.col("time_ns") - F.col("sent_ns")
    found = taken.groupBy("run", "node", "view").agg(
        F.first("one_order").alias("one_clock"),
        F.count("*").alias("messages"),
        (F.avg(took) / 1e6).alias("latency_mean_ms"),
        F.max(took).alias("max_ns"),
        percentiles_of(took, "shares"),
    )
    return declared(found.select("*", *in_ms("shares", "max_ns", "latency")), LATENCY)
