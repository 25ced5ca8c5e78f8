"""Throughput: messages and bytes that each member multicast, received and delivered, a second."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.schema import beside, declared, share_of

_EVENTS: Final = {"multicast": "multicast", "received": "receive", "delivered": "deliver"}
THROUGHPUT: Final = (
    "run string, node string, view long, name string, recorded boolean, measured_s double, "
    + ", ".join(
        f"{name} long, {name}_bytes long, {name}_msg_s double, {name}_bytes_s double"
        for name in _EVENTS
    )
)


def throughput(counted: DataFrame, lived: DataFrame) -> DataFrame:
    """From COUNTS and LIVES, one row for each member and view; schema THROUGHPUT."""
    sums = counted.groupBy("run", "node", "view").agg(
        *[_sum(event, "count").alias(name) for name, event in _EVENTS.items()],
        *[_sum(event, "bytes").alias(f"{name}_bytes") for name, event in _EVENTS.items()],
    )
    whole = beside(lived, sums, "run", "node", "view")
    names = [name for event in _EVENTS for name in (event, f"{event}_bytes")]
    whole = whole.withColumns({name: F.coalesce(name, F.lit(0)) for name in names})
    rates = {f"{name}_msg_s": share_of(F.col(name), F.col("measured_s")) for name in _EVENTS} | {
        f"{name}_bytes_s": share_of(F.col(f"{name}_bytes"), F.col("measured_s")) for name in _EVENTS
    }
    return declared(whole.withColumns(rates), THROUGHPUT)


def _sum(event: str, column: str) -> Column:
    return F.sum(F.when(F.col("event") == event, F.col(column)).otherwise(0))
