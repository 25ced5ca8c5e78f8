"""How often each thing happened at each member, and how long each member lived: one pass for all.

Rates, purging and repair are read off `counts`; what is set against time, against `lives`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.schema import declared

COUNTS: Final = (
    "run string, node string, view long, event string, place string, reason string, "
    "count long, bytes long, first_ns long, last_ns long"
)
LIVES: Final = (
    "run string, node string, view long, name string, recorded boolean, "
    "begin_ns long, end_ns long, measured_s double"
)
GONE: Final = ("crash", "leave", "end")


def measured() -> Column:
    """Whether an event lies in the span that is measured."""
    return (F.col("time_ns") >= F.col("since_ns")) & (F.col("time_ns") < F.col("until_ns"))


def counts(events: DataFrame) -> DataFrame:
    """Events (with since_ns and until_ns) by kind, place and reason; schema COUNTS.

    `count` and `bytes` are of the measured span, `first_ns` and `last_ns` of the whole run. Why a
    message left, or never came: `replaced` in a buffer by one that was there, `dropped` for lack of
    room (no cover), `covered` (skipped, and by what is known) or `cover forgotten`.
    """
    purge, skip = F.col("event") == "purge", F.col("event") == "skip"
    itself = (F.col("by_sender") == F.col("sender")) & (F.col("by_seq") == F.col("seq"))
    reason = (
        F.when(purge & F.col("by_seq").isNull(), "dropped")
        .when(purge, "replaced")
        .when(skip & (itself | F.col("by_seq").isNull()), "cover forgotten")
        .when(skip, "covered")
    )
    place = F.when(purge, F.col("where")).when(skip, "network")
    grouped = events.groupBy(
        "run", "node", "view", "event", place.alias("place"), reason.alias("reason")
    ).agg(
        F.count_if(measured()).alias("count"),
        F.coalesce(F.sum(F.when(measured(), F.col("size"))), F.lit(0)).alias("bytes"),
        F.min("time_ns").alias("first_ns"),
        F.max("time_ns").alias("last_ns"),
    )
    return declared(grouped, COUNTS)


def lives(counted: DataFrame, members: DataFrame) -> DataFrame:
    """When each member was there, in which view; `members` has one_order and the span. LIVES.

    A member of a simulated run that was there at the start was there at time 0. Whoever neither
    crashed nor left was there until the run's last event. All frames here are small.
    """
    gone = F.when(F.col("event").isin(*GONE), F.col("first_ns"))
    seen = counted.groupBy("run", "node", "view").agg(
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
        F.min(gone).alias("gone_ns"),
    )
    whole = _with_members(seen, members)
    views = Window.partitionBy("run", "node").orderBy("first_ns")
    run = Window.partitionBy("run")
    from_start = F.col("one_order") & F.col("initial") & (F.row_number().over(views) == 1)
    begin = F.when(from_start, F.lit(0)).otherwise(F.col("first_ns"))
    last = F.max("last_ns").over(run)
    # A live log that was lost whole ends with a crash at no time at all.
    known_ns = F.when(F.col("first_ns") > 0, F.col("first_ns"))
    found = whole.withColumns(
        {
            "begin_ns": F.coalesce(begin, F.min(known_ns).over(run), F.lit(0)),
            "end_ns": F.coalesce(F.lead("first_ns").over(views), "gone_ns", last, F.lit(0)),
        }
    )
    part = F.least("end_ns", "until_ns") - F.greatest("begin_ns", "since_ns")
    found = found.withColumn("measured_s", F.greatest(part, F.lit(0)) / 1e9)
    return declared(found, LIVES)


def _with_members(seen: DataFrame, members: DataFrame) -> DataFrame:
    """What was seen of nodes, and the members of which nothing was seen, with facts of the header.

    A node that the header does not name came later. If it has no file of its own and the run is a
    live one, it is known only from what others wrote.
    """
    rows = seen.unionByName(members, allowMissingColumns=True)
    run, node = Window.partitionBy("run"), Window.partitionBy("run", "node")
    facts: dict[str, Column] = {
        name: F.max(name).over(run) for name in ("one_order", "since_ns", "until_ns")
    }
    facts["name"] = F.coalesce(F.max("name").over(node), F.lit(""))
    facts["initial"] = F.coalesce(F.max("initial").over(node), F.lit(False))
    facts["recorded"] = F.coalesce(F.max("recorded").over(node), F.max("one_order").over(run))
    facts["sightings"] = F.count("first_ns").over(node)
    return rows.withColumns(facts).where("first_ns is not null or sightings = 0")
