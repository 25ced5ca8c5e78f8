"""What each member got instead of what: for every message the first delivery that made up for it.

A message that a member delivered made up for itself. One that was purged or skipped there is made
up for by the first message delivered there that replaces it, directly or not: what OBS §5.3 calls
the reception of that message or of another that conveys the same information.

Of messages with a key, those of one sender with the same key replace each other in their order, and
ranked ones of a key whoever sent them; so one window, newest first, finds the earliest delivery.
Messages without a key may replace others too (several keys, predecessors, everything before); where
there are any, the covers that purges name are followed as well (`by_cover`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.covers import by_cover
from semcast.pipeline.analysis.schema import declared

REPLACEMENTS: Final = (
    "run string, node string, view long, sender string, seq long, keyed boolean, sent_ns long, "
    "delivered boolean, by_sender string, by_seq long, "
    "made_up_ns long, made_up_sent_ns long, values_behind long"
)


def replacements(
    events: DataFrame,
    ranked: bool = True,
    follow_covers: bool = False,
    replacing: DataFrame | None = None,
    skips: bool = True,
) -> DataFrame:
    """Events (with the span), one row for each member and message that is accounted for there.

    Measured is what was multicast, and delivered, purged or skipped, within the span. `made_up_ns`
    is null where nothing made up for the message within it. `values_behind` counts the values of
    the key that came after this one, up to the one that was delivered. Schema REPLACEMENTS.

    The rest costs less where there is little of it. `ranked`: there may be messages with ranks.
    `replacing`: the members (run, node) that may have purged or skipped anything, if that is known.
    `skips`: there may be skipped messages.
    """
    rows = _accounted(events, skips)
    if ranked:
        found = _by_rank(rows)
    elif follow_covers or replacing is None:
        found = _by_seq(rows)
    else:
        found = _where_replaced(rows, replacing)
    keyed = F.col("key").isNotNull()
    found = declared(found.withColumn("keyed", keyed), REPLACEMENTS)
    if follow_covers:
        found = found.groupBy("run", "node").applyInArrow(by_cover, REPLACEMENTS)
    return found


def covers_without_key(events: DataFrame) -> DataFrame:
    """The messages that have no key and yet replace others; mostly there are none."""
    return events.where("event = 'multicast' and key is null and size(obsoletes) > 0")


def _where_replaced(rows: DataFrame, replacing: DataFrame) -> DataFrame:
    """What has no key, and what is at members that delivered everything, made up for itself."""
    some = replacing.withColumn("some", F.lit(True))
    rows = rows.join(F.broadcast(some), ["run", "node"], "left")
    chained = F.coalesce("some", F.lit(False)) & F.col("key").isNotNull()
    delivered = F.col("delivered")
    alone = rows.where(~chained).select(
        "*",
        F.when(delivered, F.col("time_ns")).alias("made_up_ns"),
        F.when(delivered, F.col("sent_ns")).alias("made_up_sent_ns"),
        F.when(delivered, F.lit(0).cast("long")).alias("values_behind"),
    )
    return _by_seq(rows.where(chained)).drop("place").unionByName(alone)


def _accounted(events: DataFrame, skips: bool = True) -> DataFrame:
    """Deliveries, purges and skips, with key, rank and time of sending.

    A skipped message never was here, so that what it was about is looked up where it was sent.
    """
    events = events.where("time_ns < until_ns")
    columns = [
        "run", "node", "view", "sender", "seq", "key", "rank", "sent_ns",
        "by_sender", "by_seq", "time_ns", "lsn", "since_ns", "until_ns",
    ]  # fmt: skip
    here = events.where("event = 'deliver' or (event = 'purge' and where = 'delivery')")
    here = here.withColumn("delivered", F.col("event") == "deliver")
    rows = here.select(*columns, "delivered")
    if skips:
        sent = events.where("event = 'multicast'").select(
            "run", "sender", "seq", "key", "rank", "sent_ns"
        )
        gone = events.where("event = 'skip'").drop("key", "rank", "sent_ns")
        gone = gone.join(sent, ["run", "sender", "seq"]).withColumn("delivered", F.lit(False))
        rows = rows.unionByName(gone.select(*columns, "delivered"))
    return rows.where("sent_ns >= since_ns and sent_ns < until_ns")


def _chain(ranked: bool) -> list[Column]:
    """What names a chain of messages that replace each other; one without a key stands alone.

    Ranked messages of a key are one chain whoever sent them: no sender is called nothing. The hash
    comes first because sorting by one number is faster than by five names.
    """
    owner = F.col("sender")
    if ranked:
        owner = F.when(F.col("rank").isNotNull(), "").otherwise(owner)
    alone = F.when(F.col("key").isNull(), F.col("seq")).otherwise(-1)
    names = [F.col("run"), F.col("node"), owner, F.coalesce("key", F.lit("")), alone]
    return [F.xxhash64(*names), *names]


def _by_seq(rows: DataFrame) -> DataFrame:
    """Without ranks, messages of a key are delivered in the order in which they were sent.

    So the first delivery that makes up for a message is the one that was sent first, of those not
    before it, and the last place seen.
    """
    chain = Window.partitionBy(*_chain(False)).orderBy(F.desc("seq"))
    newer = chain.rowsBetween(Window.unboundedPreceding, 0)

    def of_deliveries(name: str) -> Column:
        return F.when(F.col("delivered"), F.col(name))

    rows = rows.withColumn("place", F.row_number().over(chain))
    return rows.select(
        "*",
        F.min(of_deliveries("time_ns")).over(newer).alias("made_up_ns"),
        F.min(of_deliveries("sent_ns")).over(newer).alias("made_up_sent_ns"),
        (F.col("place") - F.max(of_deliveries("place")).over(newer)).alias("values_behind"),
    )


def _by_rank(rows: DataFrame) -> DataFrame:
    """With ranks, what replaces a message may have been sent, and delivered, in any order."""
    order = [F.desc("rank"), *[F.desc(part) for part in life()], F.desc("seq")]
    chain = Window.partitionBy(*_chain(True)).orderBy(*order)
    rows = rows.withColumn("place", F.row_number().over(chain))
    delivery = F.when(F.col("delivered"), F.struct("time_ns", "lsn", "sent_ns", "place"))
    first = F.min(delivery).over(chain.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn("first", first).select(
        "*",
        F.col("first.time_ns").alias("made_up_ns"),
        F.col("first.sent_ns").alias("made_up_sent_ns"),
        (F.col("place") - F.col("first.place")).alias("values_behind"),
    )


def life() -> list[Column]:
    """Sender and incarnation of a node's name as numbers, which break ties of rank."""
    ranked = F.col("rank").isNotNull()
    number = F.substring_index(F.substring("sender", 2, 40), ".", 1)
    incarnation = F.substring_index("sender", ".", -1)
    return [F.when(ranked, part.cast("long")) for part in (number, incarnation)]
