"""The first look at journals: who is there, and how often what happened. Little, whatever the size.

Two small aggregates, collected on the driver; everything else is numbered by what they say.
"""

from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.journal import Header
from semcast.pipeline.verify.facts import Facts, Seen, facts_of

_ABOUT: Final = "('multicast', 'receive', 'deliver', 'purge', 'skip', 'retransmit')"
_NAMELESS: Final = (
    f"event in {_ABOUT} and "
    "(sender is null or seq is null or (by_seq is not null and by_sender is null))"
)


def survey(events: DataFrame, headers: dict[str, Header]) -> Facts:
    """Count, check what no judge could make sense of, and number nodes and senders."""
    seen = [Seen(*row) for row in seen_in(events).collect()]
    rows = senders_in(events).collect()
    facts = facts_of(headers, seen, {(row.run, row.sender) for row in rows})
    numbers = {run.header.run: no for no, run in enumerate(facts.runs)}
    for row in rows:
        if row.nameless:
            raise InputError(
                f"event {row.nameless.lsn} ({row.nameless.event}) of {row.nameless.node} in run "
                f"{row.run!r} does not say which message; "
                "sender and seq are needed, and both of the cover if there is one"
            )
    return replace(
        facts,
        ranked=any(row.ranked for row in rows),
        crossing=frozenset(numbers[row.run] for row in rows if row.crosses),
    )


def seen_in(events: DataFrame) -> DataFrame:
    """Stage: by run, node and kind of event, how often and when; as `facts.Seen`."""
    return events.groupBy("run", "node", "event").agg(
        F.count("*").alias("times"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.max_by("time_ns", "at").alias("last_ns"),
        F.max("time_ns").alias("latest_ns"),
    )


def senders_in(events: DataFrame) -> DataFrame:
    """Stage: by run and sender, or sender of a cover: whether ranks and other senders' covers are.

    `nameless` is an event about a message which does not say about which.
    """
    named = events.select(
        "run",
        F.explode(F.array_distinct(F.array("sender", "by_sender"))).alias("sender"),
        F.expr("event = 'multicast' and rank is not null").alias("ranked"),
        F.expr("by_seq is not null and by_sender != sender").alias("crosses"),
        F.expr(f"if({_NAMELESS}, struct(lsn, event, node), null)").alias("nameless"),
    )
    found = named.where("sender is not null or nameless is not null").groupBy("run", "sender")
    return found.agg(
        F.coalesce(F.bool_or("ranked"), F.lit(False)).alias("ranked"),
        F.coalesce(F.bool_or("crosses"), F.lit(False)).alias("crosses"),
        F.min("nameless").alias("nameless"),
    )
