"""Semantic latency: from the multicast of a message until it, or what replaces it, was delivered.

OBS §5.3. Of all messages, and of those alone that the member did not get themselves.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.percentiles import in_ms, ms_ddl, percentiles_of
from semcast.pipeline.analysis.schema import declared

SEMANTIC: Final = (
    "run string, node string, view long, one_clock boolean, "
    "messages long, replaced long, waiting long, semantic_latency_mean_ms double, "
    f"{ms_ddl('semantic_latency')}, {ms_ddl('replaced_latency')}"
)


def semantic_sums() -> list[Column]:
    """Aggregates of REPLACEMENTS (with one_order), by member and view, that `semantic` needs."""
    raw = F.col("made_up_ns") - F.col("sent_ns")
    newer_before = F.col("made_up_sent_ns") < F.col("sent_ns")
    took = F.when(newer_before, F.greatest(raw, F.lit(0))).otherwise(raw)
    instead = F.when(~F.col("delivered"), took)
    return [
        F.first("one_order").alias("one_clock"),
        F.count("*").alias("messages"),
        F.count_if(~F.col("delivered")).alias("replaced"),
        F.count_if(F.col("made_up_ns").isNull()).alias("waiting"),
        (F.avg(took) / 1e6).alias("semantic_latency_mean_ms"),
        F.max(took).alias("max_ns"),
        F.max(instead).alias("instead_max_ns"),
        percentiles_of(took, "shares"),
        percentiles_of(instead, "instead_shares"),
    ]


def semantic(sums: DataFrame) -> DataFrame:
    """From `semantic_sums`, one row for each member and view; schema SEMANTIC.

    `waiting` are messages that were purged or skipped while what replaces them had not been
    delivered when the run, or the span, ended. A message that a member had something newer for
    before it was sent, as happens with ranks, had no latency there.
    """
    found = sums.select(
        "*",
        *in_ms("shares", "max_ns", "semantic_latency"),
        *in_ms("instead_shares", "instead_max_ns", "replaced_latency"),
    )
    return declared(found, SEMANTIC)
