"""The first look at journals: who is there, and how often what happened. Little, whatever the size.

One pass counts by node, kind of event, sender and sender of the cover; everything else here is read
off these counts. Nodes and senders are numbered by what they say.
"""

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.facts import NEVER, Facts, Seen, Waiting, facts_of
from semcast.check.rows import ABOUT_MESSAGES
from semcast.check.sites import OF_SITES
from semcast.errors import InputError
from semcast.journal import Header

# `newest`: the largest seq. `ranked`: there are multicasts with a rank. `crosses`: with a cover of
# another sender. `nameless`: how many events about a message do not say about which.
COUNTS: Final = (
    "run string, node string, event string, `where` string, sender string, by_sender string, "
    "times bigint, first_at bigint, last_at bigint, last_ns bigint, latest_ns bigint, "
    "newest bigint, ranked boolean, crosses boolean, nameless bigint"
)
_NAMELESS: Final = (
    f"event in {ABOUT_MESSAGES} and "
    "(sender is null or seq is null or (by_seq is not null and by_sender is null))"
)


@dataclass(frozen=True)
class Survey:
    """What the first look has found."""

    facts: Facts
    # By run: who may have more to do.
    waiting: dict[str, list[Waiting]]
    # Where the last event of all runs stands; NEVER if some have a place below 0.
    at_max: int


def counts_of(events: DataFrame) -> DataFrame:
    """Stage: events in, `COUNTS` out. Keep it: it is asked several times.

    All that is summed up are numbers, so that Spark need not sort for it.
    """
    ranked = F.expr("coalesce(bool_or(event = 'multicast' and rank is not null), false)")
    crosses = F.expr("coalesce(bool_or(by_seq is not null and by_sender != sender), false)")
    return events.groupBy("run", "node", "event", "where", "sender", "by_sender").agg(
        F.count("*").alias("times"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.max_by("time_ns", "at").alias("last_ns"),
        F.max("time_ns").alias("latest_ns"),
        F.max("seq").alias("newest"),
        ranked.alias("ranked"),
        crosses.alias("crosses"),
        F.expr(f"count_if({_NAMELESS})").alias("nameless"),
    )


def survey(events: DataFrame, headers: dict[str, Header]) -> Survey:
    """Number nodes and senders, and refuse events that no kernel could make sense of."""
    counts = counts_of(events).persist()
    try:
        senders = senders_in(counts).collect()
        if any(row.nameless for row in senders):
            _refuse_nameless(events)
        rows = seen_in(counts).collect()
        waiting: dict[str, list[Waiting]] = {run: [] for run in headers}
        for run, *one in waiting_in(counts).collect():
            waiting[run].append(Waiting(*one))
    finally:
        counts.unpersist()
    seen = {run: _seen_of(headers[run], [row for row in rows if row.run == run]) for run in headers}
    _note_views(events, seen)
    _note_sites(events, headers, seen)
    facts = facts_of(
        headers,
        seen,
        {(row.run, row.sender) for row in senders},
        any(row.ranked for row in senders),
        {row.run for row in senders if row.crosses},
    )
    at_max = max((row.last_at if row.first_at >= 0 else NEVER for row in rows), default=0)
    return Survey(facts, waiting, at_max)


def _seen_of(header: Header, rows: list[Any]) -> Seen:
    seen = Seen()
    for row in rows:
        seen.counts[row.event] = row.times
        seen.first_at[row.node] = min(row.first_at, seen.first_at.get(row.node, NEVER))
        seen.note(row.node, row.event, row.first_at, row.last_at, row.newest)
    for event in seen.counts:
        seen.counts[event] = sum(row.times for row in rows if row.event == event)
    if rows and header.one_order:
        seen.end_ns = max(rows, key=lambda row: row.last_at).last_ns
    elif rows:
        seen.end_ns = max(row.latest_ns for row in rows)
    return seen


def _note_views(events: DataFrame, seen: dict[str, Seen]) -> None:
    """Views are few: every process reports each once."""
    if not any(one.counts.get("view") for one in seen.values()):
        return
    views = events.where("event = 'view' and sender is not null and seq is not null")
    for row in views.select("run", "node", "at", "sender", "seq", "key").orderBy("at").collect():
        seen[row.run].note_view(row.node, row.at, row.sender, row.seq, row.key)


def _note_sites(events: DataFrame, headers: dict[str, Header], seen: dict[str, Seen]) -> None:
    """What sites of federations report of themselves is little, and so are their groups."""
    federated = [run for run, header in headers.items() if header.federated]
    if not federated:
        return
    theirs = events.where(F.col("run").isin(federated))
    told = theirs.where(F.col("event").isin(*OF_SITES))
    columns = ("run", "node", "event", "at", "time_ns", "sender", "seq", "key")
    for run, *one in told.select(*columns).orderBy("at").collect():
        seen[run].sites.note(*one)
    groups = theirs.where("sender is not null and `group` is not null").select("run", "group")
    for row in groups.distinct().orderBy("group").collect():
        seen[row.run].sites.groups.append(row["group"])


def _refuse_nameless(events: DataFrame) -> None:
    row = events.where(_NAMELESS).orderBy("run", "sender", "lsn", "event", "node").first()
    assert row is not None
    raise InputError(
        f"event {row.lsn} ({row.event}) of {row.node} in run "
        f"{row.run!r} does not say which message; "
        "sender and seq are needed, and both of the cover if there is one"
    )


def seen_in(counts: DataFrame) -> DataFrame:
    """Stage: by run, node and kind of event, how often and when."""
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


def waiting_in(counts: DataFrame) -> DataFrame:
    """Stage: as `Waiting`, after the run; those of which something may be left to do."""
    gone = "event = 'deliver' or (event = 'purge' and where = 'delivery')"
    columns = {
        "received": "sum(times) filter (where event = 'receive')",
        "gone": f"sum(times) filter (where {gone})",
        **{
            f"{name}_newest": f"max(newest) filter (where event = '{event}')"
            for name, event in (
                ("sent", "multicast"),
                ("received", "receive"),
                ("stable", "stable"),
            )
        },
    }
    sums = [F.expr(f"coalesce({sql}, 0)").alias(name) for name, sql in columns.items()]
    found = counts.where("sender is not null").groupBy("run", "node", "sender").agg(*sums)
    return found.where("received > gone or greatest(sent_newest, received_newest) > stable_newest")
