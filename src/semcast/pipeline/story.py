"""A recorded run in, its story on one screen out: the whole pipeline, used once.

Profile, analysis and verification of one journal are put together with examples of what was skipped
and what covered it, and with a simulation of the same traffic without purging. `semcast demo` shows
it.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from semcast.pipeline.analysis.questions import Analysis
from semcast.pipeline.journals import Journals, read_journals
from semcast.pipeline.profiling.run import profile_trace
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.verification import RunVerdict, judge_journals

STAGES: Final = (
    "Spark profiles the traffic",
    "Spark analyses what each member did",
    "Spark holds the journal against what was promised",
)
_QUESTIONS: Final = ("throughput", "purging", "latency", "semantic")
_EXAMPLES: Final = 3
# What has become of a message at a member that never took it; see journal/event.py.
_NOT_TAKEN: Final = "event in ('purge', 'skip') and where in ('delivery', 'network')"


@dataclass(frozen=True)
class Got:
    """What one member got."""

    name: str
    sent: int
    taken: int
    replaced: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    semantic_p99_ms: float | None


@dataclass(frozen=True)
class Skip:
    """A message that a member never took, and the one that it got instead."""

    member: str
    seq: int
    key: str | None
    by_seq: int


@dataclass(frozen=True)
class Story:
    """What a journal says."""

    events: int
    messages: int
    never_replaced_share: float
    distance_p50: float | None
    distance_p99: float | None
    members: tuple[Got, ...]
    skips: tuple[Skip, ...]
    verdict: RunVerdict


def story_of(
    spark: SparkSession, journal: Path, begin: Callable[[str], None] = lambda _: None
) -> Story:
    """The story of a journal with one run; `begin` is called with each of the three `STAGES`."""
    journals = read_journals(spark, journal)
    begin(STAGES[0])
    profile = profile_trace(spark, journal)
    begin(STAGES[1])
    with Analysis(journals, _QUESTIONS) as analysis:
        tables = {name: _rows(spark, name, analysis.table(name)) for name in _QUESTIONS}
        skips = _rows(spark, "skips", _examples(analysis.journal))
    begin(STAGES[2])
    (verdict,) = judge_journals(spark, journals)
    names = _names(journals)
    return Story(
        verdict.events,
        profile.messages,
        profile.never_replaced_share,
        profile.distances.quantile(0.5),
        profile.distances.quantile(0.99),
        tuple(_got(row, tables, names) for row in tables["throughput"]),
        tuple(
            Skip(names.get(one["node"], one["node"]), one["seq"], one["key"], one["by_seq"])
            for one in skips
        ),
        verdict,
    )


def write_trace(spark: SparkSession, journal: Path, trace: Path) -> int:
    """Write down what was multicast, for a simulation to send again; returns how many messages."""
    events = read_journals(spark, journal).events
    sent = events.where("event = 'multicast'").select("time_ns", "lsn", "sender", "key", "size")
    rows = run_job(spark, "traffic", lambda: sent.orderBy("time_ns", "lsn").collect())
    with trace.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time_s", "sender", "key", "kind", "size"])
        for row in rows:
            time_s = (row.time_ns - rows[0].time_ns) / 1e9
            writer.writerow([f"{time_s:.9f}", row.sender, row.key or "", "", row.size])
    return len(rows)


def _rows(spark: SparkSession, name: str, table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in run_job(spark, name, table.collect)]


def _names(journals: Journals) -> dict[str, str]:
    """What people call the nodes."""
    pairs = (one.split(" ", 1) for header in journals.headers.values() for one in header.names)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _examples(events: DataFrame) -> DataFrame:
    """Stage: a few messages that were not taken, far enough into the run to be typical."""
    columns = ("node", "seq", "key", "by_seq")
    skipped = events.where(_NOT_TAKEN).where("by_seq is not null").select(*columns)
    return skipped.where("key is not null").orderBy("seq", ascending=False).limit(_EXAMPLES)


def _got(row: dict[str, Any], tables: dict[str, Any], names: dict[str, str]) -> Got:
    node = row["node"]

    def here(name: str) -> list[dict[str, Any]]:
        return [one for one in tables[name] if one["node"] == node]

    latency = next(iter(here("latency")), {})
    semantic = next(iter(here("semantic")), {})
    return Got(
        row["name"] or names.get(node, node),
        row["multicast"],
        row["delivered"],
        sum(one["messages"] for one in here("purging") if one["place"] in ("delivery", "network")),
        latency.get("latency_p50_ms"),
        latency.get("latency_p99_ms"),
        semantic.get("semantic_latency_p99_ms"),
    )
