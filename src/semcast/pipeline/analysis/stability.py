"""Stability and safety lag: from multicast until a member knew that all, or f+1, have the message.

At the sender it is what its window waits for (SRM §5.3, §6.4 Figure 7); elsewhere it is how long a
copy is kept. Only what the member had itself is counted.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.percentiles import in_ms, ms_ddl, percentiles_of
from semcast.pipeline.analysis.schema import declared

STABILITY: Final = (
    "run string, node string, view long, own boolean, one_clock boolean, messages long, "
    f"stable long, {ms_ddl('stable_lag')}, safe long, {ms_ddl('safe_lag')}"
)


def stability(kept: DataFrame, names: DataFrame) -> DataFrame:
    """From RETAINED (with the span and one_order) and NAMES; schema STABILITY.

    One row for each member, view, and whether the messages are its `own`, so that one clock says
    both ends. `messages` were multicast in the measured span; `stable` of them, and `safe`, were
    known to be so within it.
    """
    sent = kept.where("sent_ns >= since_ns and sent_ns < until_ns")
    lag = {
        name: F.when(
            F.col(f"{name}_ns") < F.col("until_ns"), F.col(f"{name}_ns") - F.col("sent_ns")
        )
        for name in ("stable", "safe")
    }
    found = sent.groupBy("member", "view", "own").agg(
        F.first("one_order").alias("one_order"),
        F.count("*").alias("messages"),
        *[F.count(value).alias(name) for name, value in lag.items()],
        *[F.max(value).alias(f"{name}_max_ns") for name, value in lag.items()],
        *[percentiles_of(value, f"{name}_shares") for name, value in lag.items()],
    )
    found = found.join(F.broadcast(names), "member").select(
        "*",
        (F.col("one_order") | F.col("own")).alias("one_clock"),
        *in_ms("stable_shares", "stable_max_ns", "stable_lag"),
        *in_ms("safe_shares", "safe_max_ns", "safe_lag"),
    )
    return declared(found, STABILITY)
