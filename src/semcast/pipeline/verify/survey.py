"""The first look at journals: who is there, and how often what happened. Little, whatever the size.

One pass counts by node, kind of event, sender and sender of the cover; everything else here is read
off these counts, some on the driver. Nodes and senders are numbered by what they say.
"""

from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.journal import Header
from semcast.pipeline.verify.facts import Facts, Seen, facts_of

# `newest`: the largest seq. `ranked`: there are multicasts with a rank. `crosses`: with a cover of
# another sender. `nameless`: how many events about a message do not say about which.
COUNTS: Final = (
    "run string, node string, event string, `where` string, sender string, by_sender string, "
    "times bigint, first_at bigint, last_at bigint, last_ns bigint, latest_ns bigint, "
    "newest bigint, ranked boolean, crosses boolean, nameless bigint"
)
_ABOUT: Final = "('multicast', 'receive', 'deliver', 'purge', 'skip', 'retransmit')"
_NAMELESS: Final = (
    f"event in {_ABOUT} and "
    "(sender is null or seq is null or (by_seq is not null and by_sender is null))"
)


def counts_of(events: DataFrame) -> DataFrame:
    """Stage: events in, `COUNTS` out. Keep it: it is asked several times.

    All that is summed up are numbers, so that Spark need not sort for it.
    """
    return events.groupBy("run", "node", "event", "where", "sender", "by_sender").agg(
        F.count("*").alias("times"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.max_by("time_ns", "at").alias("last_ns"),
        F.max("time_ns").alias("latest_ns"),
        F.max("seq").alias("newest"),
        F.expr("coalesce(bool_or(event = 'multicast' and rank is not null), false)").alias(
            "ranked"
        ),
        F.expr("coalesce(bool_or(by_seq is not null and by_sender != sender), false)").alias(
            "crosses"
        ),
        F.expr(f"count_if({_NAMELESS})").alias("nameless"),
    )


def survey(counts: DataFrame, events: DataFrame, headers: dict[str, Header]) -> Facts:
    """Check what no judge could make sense of, and number nodes and senders."""
    seen = [Seen(*row) for row in seen_in(counts).collect()]
    rows = senders_in(counts).collect()
    if any(row.nameless for row in rows):
        _refuse_nameless(events)
    facts = facts_of(headers, seen, {(row.run, row.sender) for row in rows})
    numbers = {run.header.run: no for no, run in enumerate(facts.runs)}
    return replace(
        facts,
        ranked=any(row.ranked for row in rows),
        crossing=frozenset(numbers[row.run] for row in rows if row.crosses),
    )


def _refuse_nameless(events: DataFrame) -> None:
    row = events.where(_NAMELESS).orderBy("run", "sender", "lsn", "event", "node").first()
    assert row is not None
    raise InputError(
        f"event {row.lsn} ({row.event}) of {row.node} in run "
        f"{row.run!r} does not say which message; "
        "sender and seq are needed, and both of the cover if there is one"
    )


def seen_in(counts: DataFrame) -> DataFrame:
    """Stage: by run, node and kind of event, how often and when; as `facts.Seen`."""
    return counts.groupBy("run", "node", "event").agg(
        F.sum("times").alias("times"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.max_by("last_ns", "last_at").alias("last_ns"),
        F.max("latest_ns").alias("latest_ns"),
        F.max("newest").alias("newest"),
    )


def senders_in(counts: DataFrame) -> DataFrame:
    """Stage: by run and sender, or sender of a cover: whether ranks and other senders' covers are.

    With `nameless`, as `COUNTS` has it; then there may be a row without a sender.
    """
    named = counts.select(
        "run",
        F.explode(F.array_distinct(F.array("sender", "by_sender"))).alias("sender"),
        "ranked",
        "crosses",
        "nameless",
    )
    found = named.where("sender is not null or nameless > 0").groupBy("run", "sender")
    return found.agg(
        F.bool_or("ranked").alias("ranked"),
        F.bool_or("crosses").alias("crosses"),
        F.sum("nameless").alias("nameless"),
    )
