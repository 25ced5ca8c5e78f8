"""The logs of single lives in, events that can be judged out: `journal.lives` as Spark stages.

The stages add what follows from such logs and nothing else, by the rules that are explained there:
a log without an end gets a `crash`; what somebody received of a sender whose log is not whole
becomes a `multicast` again; who ended while others went on has left.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.journal import COLUMNS
from semcast.journal.lives import CAME, END, EVICT, GAP

_COLUMNS: Final = tuple(name for name, _ in COLUMNS)


def settle(events: DataFrame, lives: DataFrame) -> DataFrame:
    """Stage: the rows of all logs, and (run, node) of each; events with `at`, a node's own order.

    Schema `journals.EVENTS`.
    """
    logs = until_gap(events.drop("at"))
    ends = _ends(logs, lives)
    whole = F.broadcast(ends.where("whole").select("run", F.col("node").alias("sender")))
    restored = _restored(logs, whole, ends)
    settled = [_excused(logs, whole, ends), restored, _crashes(ends, restored)]
    union = reduce(DataFrame.unionByName, [frame.select(*_COLUMNS) for frame in settled])
    return union.withColumn("at", F.col("lsn"))


def until_gap(events: DataFrame) -> DataFrame:
    """Stage: what a node did before the first event that could not be written down."""
    gaps = events.where(F.col("event") == GAP).groupBy("run", "node").agg(F.min("lsn").alias("gap"))
    cut = events.join(F.broadcast(gaps), ["run", "node"], "left")
    return cut.where("gap is null or lsn < gap").drop("gap")


def _ends(logs: DataFrame, lives: DataFrame) -> DataFrame:
    """By life: its last event, and whether its log is whole."""
    last = logs.groupBy("run", "node").agg(
        F.max("lsn").alias("last_lsn"),
        F.max_by("time_ns", "lsn").alias("last_ns"),
        F.max_by("event", "lsn").alias("last_event"),
        F.max_by("seq", "lsn").alias("waiting"),
    )
    found = lives.join(last, ["run", "node"], "left")
    return found.select(
        "run",
        "node",
        F.coalesce("last_lsn", F.lit(0)).alias("last_lsn"),
        F.coalesce("last_ns", F.lit(0)).alias("last_ns"),
        "waiting",
        F.coalesce(F.col("last_event") == END, F.lit(False)).alias("whole"),
    )


def _restored(logs: DataFrame, whole: DataFrame, ends: DataFrame) -> DataFrame:
    """What was multicast by those whose log is not whole, as receivers know it."""
    message = ["run", "sender", "seq"]
    known = logs.where("event = 'multicast'").join(whole, ["run", "sender"], "left_anti")
    received = (
        logs.where(F.col("event").isin(*CAME) & F.expr("sender is not null and seq is not null"))
        .join(whole, ["run", "sender"], "left_anti")
        .join(known.select(*message).distinct(), message, "left_anti")
    )
    rest = [name for name in _COLUMNS if name not in message]
    # Of several receivers, the first by name: all of them wrote the same.
    first = received.groupBy(*message).agg(
        F.min_by(F.struct(*rest), F.struct("node", "lsn")).alias("first")
    )
    base = ends.select("run", F.col("node").alias("sender"), "last_lsn")
    place = F.row_number().over(Window.partitionBy("run", "sender").orderBy("seq"))
    return (
        first.select(*message, "first.*")
        .join(F.broadcast(base), ["run", "sender"], "left")
        .withColumn("lsn", F.coalesce("last_lsn", F.lit(0)) + place)
        .withColumn("time_ns", F.coalesce("sent_ns", "time_ns"))
        .withColumn("node", F.col("sender"))
        .withColumn("event", F.lit("multicast"))
        .withColumn("where", F.lit(None).cast("string"))
    )


def _crashes(ends: DataFrame, restored: DataFrame) -> DataFrame:
    """How those ended whose log does not say it: nodes that wrote none are taken to have left."""
    more = restored.groupBy("run", "node").agg(
        F.max("lsn").alias("restored_lsn"), F.max_by("time_ns", "lsn").alias("restored_ns")
    )
    ended = ends.where("not whole").join(more, ["run", "node"], "left")
    unknown = more.join(ends.select("run", "node"), ["run", "node"], "left_anti")
    crashes = ended.select(
        "run",
        "node",
        (F.greatest("last_lsn", F.coalesce("restored_lsn", F.lit(0))) + 1).alias("lsn"),
        F.greatest("last_ns", F.coalesce("restored_ns", "last_ns")).alias("time_ns"),
        F.lit("crash").alias("event"),
    )
    leaves = unknown.select(
        "run",
        "node",
        (F.col("restored_lsn") + 1).alias("lsn"),
        F.greatest(F.col("restored_ns"), F.lit(0)).alias("time_ns"),
        F.lit("leave").alias("event"),
    )
    both = crashes.unionByName(leaves)
    return both.select([_column(both, name, kind) for name, kind in COLUMNS])


def _column(frame: DataFrame, name: str, kind: str) -> Column:
    found = F.col(name) if name in frame.columns else F.lit(None).cast(kind)
    return found.alias(name)


def _left(logs: DataFrame, whole: DataFrame, ends: DataFrame) -> DataFrame:
    """The (run, node) whose end is not judged, because they left; a pair may come several times."""
    enders = ends.where("whole")
    sent = logs.where("event = 'multicast'").select("run", F.col("node").alias("sender"), "time_ns")
    heard = logs.where("event = 'receive' and sender is not null")
    heard = heard.join(whole, ["run", "sender"], "left_anti")
    heard = heard.select("run", "sender", F.coalesce("sent_ns", "time_ns").alias("time_ns"))
    last = sent.unionByName(heard).groupBy("run", "sender").agg(F.max("time_ns").alias("sent_ns"))
    went_on = enders.join(F.broadcast(last), "run").where("sender != node and sent_ns > last_ns")
    put_out = logs.where(F.col("event") == EVICT).select("run", F.col("sender").alias("node"))
    left = [enders.where("coalesce(waiting, 0) != 0"), went_on, put_out]
    return reduce(DataFrame.unionByName, [frame.select("run", "node") for frame in left])


def _excused(logs: DataFrame, whole: DataFrame, ends: DataFrame) -> DataFrame:
    """All logs as they are, but for whoever ended while others went on: it has left."""
    left = _left(logs, whole, ends).distinct()
    early = (
        ends.where("whole")
        .join(left, ["run", "node"], "left_semi")
        .select("run", "node", F.col("last_lsn").alias("lsn"), F.lit(True).alias("early"))
    )
    marked = logs.join(F.broadcast(early), ["run", "node", "lsn"], "left")
    return marked.withColumn(
        "event", F.when(F.col("early"), F.lit("leave")).otherwise(F.col("event"))
    ).withColumn("seq", F.when(F.col("early"), F.lit(None)).otherwise(F.col("seq")))
