"""Gossip: how far messages got, how long that took, what it cost, and what was lost where and why.

A message is atomic if more than 95% of the members that were there got it; of those that nothing
replaces, almost all should be (PSRM §4). The figures are those of `semcast sim run`, which counts
copies where a purge takes several along; a journal has one purge for all of them.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.check.atomicity import ATOMIC_SHARE
from semcast.check.tally import Z95
from semcast.pipeline.analysis.counts import measured
from semcast.pipeline.analysis.percentiles import in_ms, ms_ddl, percentiles_of
from semcast.pipeline.analysis.schema import declared, share_of

GOSSIP: Final = (
    "run string, one_clock boolean, sent long, never_obsolete long, atomic_share double, "
    "atomic_share_low double, atomic_share_high double, atomic_share_all double, "
    "receivers_mean double, receivers_cv double, latency_mean_ms double, "
    f"{ms_ddl('latency')}, copies long, deliveries long, copies_per_delivery double"
)
LOSSES: Final = (
    "run string, event string, place string, reason string, cover string, times long, messages long"
)


def gossip(events: DataFrame, found: DataFrame) -> DataFrame:
    """Events (with the span, one_order and gossip) and RECEIVERS, one row for each run that
    gossips; schema GOSSIP.

    Measured are messages that were multicast in the span, whenever they came. Latencies and
    deliveries are those at others than the sender.
    """
    reach = found.groupBy("run").agg(
        F.sum("messages").alias("sent"),
        _sum(F.col("never_replaced"), F.lit(1)).alias("never_obsolete"),
        _sum(F.col("never_replaced") & _atomic(), F.lit(1)).alias("atomic"),
        _sum(_atomic(), F.lit(1)).alias("atomic_all"),
        _sum(F.col("never_replaced"), F.col("receivers")).alias("reached"),
        _sum(F.col("never_replaced"), F.col("receivers") * F.col("receivers")).alias("squares"),
    )
    mean = share_of(F.col("reached"), F.col("never_obsolete"))
    # Of whole numbers, so that nothing is lost where all messages reached as many.
    spread = F.col("never_obsolete") * F.col("squares") - F.col("reached") * F.col("reached")
    rows = reach.join(_passed(events), "run").withColumns(
        {
            "atomic_share": share_of(F.col("atomic"), F.col("never_obsolete")),
            "atomic_share_all": share_of(F.col("atomic_all"), F.col("sent")),
            "receivers_mean": mean,
            "receivers_cv": share_of(F.sqrt(spread), F.col("reached")),
            "copies_per_delivery": share_of(F.col("copies"), F.col("deliveries")),
        }
    )
    return declared(rows.withColumns(_wilson()), GOSSIP)


def _sum(of: Column, value: Column) -> Column:
    return F.sum(F.when(of, value * F.col("messages")).otherwise(0))


def _atomic() -> Column:
    return F.col("receivers") > F.col("recipients") * ATOMIC_SHARE


def _wilson() -> dict[str, Column]:
    """The ends of the interval, as `check.tally.wilson`."""
    share, count, square = F.col("atomic_share"), F.col("never_obsolete"), Z95**2
    middle = share + share_of(F.lit(square), 2 * count)
    variance = share_of(share * (1 - share), count) + share_of(F.lit(square), 4 * count * count)
    scale = 1 + share_of(F.lit(square), count)
    low, high = ((middle + sign * Z95 * F.sqrt(variance)) / scale for sign in (-1, 1))
    known = F.col("never_obsolete") > 0
    return {
        "atomic_share_low": F.when(known, F.greatest(low, F.lit(0.0))),
        "atomic_share_high": F.when(known, F.least(high, F.lit(1.0))),
    }


def _passed(events: DataFrame) -> DataFrame:
    """By run that gossips: how long deliveries took, and how many copies were sent."""
    sent = (F.col("sent_ns") >= F.col("since_ns")) & (F.col("sent_ns") < F.col("until_ns"))
    taken = sent & (F.col("event") == "deliver") & (F.col("node") != F.col("sender"))
    took = F.when(taken, F.col("time_ns") - F.col("sent_ns"))
    sums = (
        events.where("gossip")
        .groupBy("run")
        .agg(
            F.first("one_order").alias("one_clock"),
            F.count_if(sent & (F.col("event") == "relay")).alias("copies"),
            F.count(took).alias("deliveries"),
            (F.avg(took) / 1e6).alias("latency_mean_ms"),
            F.max(took).alias("max_ns"),
            percentiles_of(took, "shares"),
        )
    )
    return sums.select("*", *in_ms("shares", "max_ns", "latency"))


def losses(events: DataFrame) -> DataFrame:
    """Events (with the span and gossip) of runs that gossip: what was purged, dropped, skipped and
    missed, by place, reason and whose message covers it; schema LOSSES.

    A drop of a copy is one event, a purge takes all copies of a message at this place along.
    `messages` counts each message once, wherever it was lost.
    """
    gone = events.where(F.col("gossip") & measured()).where(
        "event in ('purge', 'drop', 'skip', 'miss')"
    )
    words = F.split("where", "/")
    in_buffer = F.col("event").isin("purge", "drop")
    itself = (F.col("by_sender") == F.col("sender")) & (F.col("by_seq") == F.col("seq"))
    reason = (
        F.when(F.col("event") == "drop", F.get(words, F.lit(1)))
        .when(F.col("event") == "miss", "missed")
        .when(F.col("event") == "skip", "covered")
        .otherwise("replaced")
    )
    cover = (
        F.when(F.col("by_seq").isNull(), "none")
        .when(itself, "forgotten")
        .when(F.col("by_sender") == F.col("sender"), "same sender")
        .otherwise("other sender")
    )
    place = F.when(in_buffer, F.get(words, F.lit(0))).otherwise("network")
    found = gone.groupBy(
        "run", "event", place.alias("place"), reason.alias("reason"), cover.alias("cover")
    ).agg(F.count("*").alias("times"), F.count_distinct("sender", "seq").alias("messages"))
    return declared(found, LOSSES)
