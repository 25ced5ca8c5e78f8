"""Receivers per message, and atomicity: how many members each message was delivered to (PSRM §4).

Either almost everybody or almost nobody should get a message. That matters most for messages that
nothing ever replaced, the least that must arrive; of the others some may be missed by anybody.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.replacements import life
from semcast.pipeline.analysis.schema import declared, share_of

RECEIVERS: Final = (
    "run string, view long, never_replaced boolean, recipients int, receivers int, messages long"
)
ATOMICITY: Final = (
    "run string, view long, of string, messages long, recipients_mean double, "
    "receivers_mean double, receivers_min int, receivers_max int, receivers_stddev double, "
    "receivers_variation double, to_all_share double, to_over_95_percent_share double, "
    "to_none_share double"
)


def receivers(events: DataFrame, lived: DataFrame, without_key: DataFrame | None) -> DataFrame:
    """How many messages reached how many of how many; schema RECEIVERS.

    Events have the span, k and deliver_own. Recipients of a message are those recorded members of
    LIVES that were there when it was multicast. `without_key`: the events of
    `replacements.covers_without_key`, if there are any. Messages are those multicast in the span,
    deliveries at any time.
    """
    messages = _messages(events)
    messages = _with_replaced(messages, without_key)
    # Only now: what replaces a message may have come after the span.
    messages = messages.where("sent_at_ns >= since_ns and sent_at_ns < until_ns")
    messages = _with_recipients(messages, lived)
    found = messages.groupBy("run", "view", "never_replaced", "recipients", "receivers").agg(
        F.count("*").alias("messages")
    )
    return declared(found, RECEIVERS)


def _messages(events: DataFrame) -> DataFrame:
    """One row for each message: what it is about, when it was multicast, how many delivered it.

    `key` is a hash of it: of numbers Spark keeps the largest without sorting, of names not.
    """
    sent = F.col("event") == "multicast"
    key = F.when(F.col("key").isNotNull(), F.xxhash64("key"))
    return (
        events.where("event in ('multicast', 'deliver')")
        .groupBy("run", "sender", "seq", "since_ns", "until_ns", "k", "deliver_own")
        .agg(
            F.count_if(~sent).cast("int").alias("receivers"),
            F.max(key).alias("key"),
            F.max("rank").alias("rank"),
            F.min(F.when(sent, F.col("time_ns"))).alias("sent_at_ns"),
            F.max(F.when(sent, F.col("view"))).alias("view"),
        )
        .where("sent_at_ns is not null")
    )


def _with_replaced(messages: DataFrame, without_key: DataFrame | None) -> DataFrame:
    """Whether a later message replaces this one: of its key within k, of a higher rank, or by name.

    Not every pair: of a key the next one is enough.
    """
    keyed = messages.where("key is not null")
    ranked = F.col("rank").isNotNull()
    chain = Window.partitionBy("run", F.when(ranked, "").otherwise(F.col("sender")), "key")
    newest_first = chain.orderBy(F.desc("rank"), *[F.desc(part) for part in life()], F.desc("seq"))
    last = F.row_number().over(newest_first) == 1
    near = F.lag("seq").over(newest_first) - F.col("seq") <= F.col("k")
    by_key = F.when(ranked, ~last).otherwise(F.coalesce(near, F.lit(False)))
    alone = messages.where("key is null").withColumn("replaced", F.lit(False))
    whole = keyed.withColumn("replaced", by_key).unionByName(alone)
    if without_key is not None:
        pairs = without_key.select("run", "sender", "seq", F.explode("obsoletes").alias("distance"))
        named = pairs.select("run", "sender", (F.col("seq") - F.col("distance")).alias("seq"))
        named = named.distinct().withColumn("named", F.lit(True))
        whole = whole.join(named, ["run", "sender", "seq"], "left")
        whole = whole.withColumn("replaced", F.col("replaced") | F.coalesce("named", F.lit(False)))
    return whole.withColumn("never_replaced", ~F.col("replaced"))


def _with_recipients(messages: DataFrame, lived: DataFrame) -> DataFrame:
    nodes = (
        lived.where("recorded")
        .groupBy("run", "node")
        .agg(F.min("begin_ns").alias("begin_ns"), F.max("end_ns").alias("end_ns"))
    )
    lists = nodes.groupBy("run").agg(
        F.collect_list(F.struct("node", "begin_ns", "end_ns")).alias("nodes")
    )
    there = F.expr(
        "size(filter(nodes, one -> one.begin_ns <= sent_at_ns and sent_at_ns <= one.end_ns "
        "and (deliver_own or one.node != sender)))"
    )
    return messages.join(F.broadcast(lists), "run").withColumn("recipients", there)


def atomicity(found: DataFrame) -> DataFrame:
    """From RECEIVERS, of all messages and of those never replaced; schema ATOMICITY.

    The variation is the standard deviation over the mean (PSRM §4.2).
    """
    kinds = F.when(F.col("never_replaced"), F.array(F.lit("all"), F.lit("never replaced")))
    rows = found.withColumn("of", F.explode(kinds.otherwise(F.array(F.lit("all")))))

    def mean(value: Column) -> Column:
        return share_of(F.sum(value * F.col("messages")), F.sum("messages"))

    def share(of: Column) -> Column:
        return mean(F.when(of, 1).otherwise(0))

    reached, wanted = F.col("receivers"), F.col("recipients")
    result = rows.groupBy("run", "view", "of").agg(
        F.sum("messages").alias("messages"),
        mean(wanted).alias("recipients_mean"),
        mean(reached).alias("receivers_mean"),
        F.min(reached).alias("receivers_min"),
        F.max(reached).alias("receivers_max"),
        mean(reached * reached).alias("square"),
        share(reached >= wanted).alias("to_all_share"),
        share(reached > wanted * 0.95).alias("to_over_95_percent_share"),
        share(reached == 0).alias("to_none_share"),
    )
    variance = F.col("square") - F.col("receivers_mean") * F.col("receivers_mean")
    result = result.withColumn("receivers_stddev", F.sqrt(F.greatest(variance, F.lit(0.0))))
    variation = share_of(F.col("receivers_stddev"), F.col("receivers_mean"))
    return declared(result.withColumn("receivers_variation", variation), ATOMICITY)
