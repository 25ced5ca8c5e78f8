"""The tables of an analysis as plain rows, and each run in a few numbers.

Journals and the names of questions go in; rows that fit into memory come out, in an order that
people expect. With a folder, every table is written there as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from semcast.errors import ConfigError
from semcast.journal import Header
from semcast.pipeline.analysis.questions import QUESTIONS, Analysis, Options
from semcast.pipeline.journals import Journals
from semcast.pipeline.spark.progress import run_job

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = dict[str, list[Row]]
# The tables that a summary is made of.
SUMMARIZED: Final = ("throughput", "purging", "latency", "blocked")
# Those that are there without being asked for, if a run gossips.
OF_GOSSIP: Final = ("gossip", "losses")
# More rows of one table are not fetched.
ROWS_MAX: Final = 200_000
_NUMBERS: Final = ("view", "window", "recipients", "receivers")
_WORDS: Final = ("event", "buffer", "place", "reason", "cover", "of", "own")


@dataclass(frozen=True)
class RunSummary:
    """One run in a few numbers, each the group's or that of its worst member."""

    run: str
    group: str
    seed: str
    one_clock: bool
    members: int
    measured_s: float
    sent: int
    sent_rate_msg_s: float | None
    delivered_rate_min_msg_s: float | None
    delivered_rate_max_msg_s: float | None
    not_delivered_share_max: float
    latency_p99_max_ms: float | None
    blocked_share_max: float
    events_left_out: int


@dataclass(frozen=True)
class Answers:
    """What was found in journals; docs/pipeline/analyse.md explains the columns of `tables`."""

    headers: dict[str, Header]
    runs: list[RunSummary]
    tables: Tables


def answers(
    journals: Journals, questions: Sequence[str], options: Options, out: Path | None = None
) -> Answers:
    """Answer these questions, and those that a summary needs; in the order of `QUESTIONS`."""
    spark = journals.events.sparkSession
    wanted = {*SUMMARIZED, *questions}
    if any(header.reliability == "gossip" for header in journals.headers.values()):
        wanted.update(OF_GOSSIP)
    asked = [name for name in QUESTIONS if name in wanted]
    with Analysis(journals, asked, options) as analysis:
        tables = {name: _rows(spark, analysis, name, out) for name in asked}
    runs = [_summary(run, header, tables) for run, header in journals.headers.items()]
    return Answers(journals.headers, runs, tables)


def not_delivered(purging: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """By member and view: the share of what the group sent that it did not deliver (SRM §6.2)."""
    shares: dict[tuple[Any, ...], float] = {}
    for row in purging:
        if row["place"] in ("delivery", "network"):
            name = (row["run"], row["node"], row["view"])
            shares[name] = shares.get(name, 0.0) + (row["share_of_sent"] or 0.0)
    return shares


def _rows(spark: SparkSession, analysis: Analysis, name: str, out: Path | None) -> list[Row]:
    """The rows of a table in order; with `out`, those that were written there."""

    def fetch() -> list[Row]:
        table = analysis.table(name)
        if out is not None:
            table = _written(spark, table, (out / name).absolute())
        return [row.asDict() for row in table.limit(ROWS_MAX + 1).collect()]

    rows = run_job(spark, name, fetch)
    if len(rows) > ROWS_MAX:
        raise ConfigError(
            f"more than {ROWS_MAX} rows about {name}; choose runs with --run, longer windows with "
            "--window-s, or read what --out writes"
        )
    return sorted(rows, key=_order)


def _written(spark: SparkSession, table: DataFrame, folder: Path) -> DataFrame:
    table.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return spark.read.schema(table.schema).parquet(str(folder))


def _order(row: Row) -> tuple[Any, ...]:
    """By run, member (p2.1 before p10.1), view, and whatever else names the row."""
    node = str(row.get("node", "p0.0"))
    number, _, life = node.removeprefix("p").partition(".")
    rest = [str(row.get(name, "")) for name in _WORDS]
    numbers = [-1 if row.get(name) is None else row[name] for name in _NUMBERS]
    return (row["run"], int(number), int(life), numbers[0], *rest, *numbers[1:])


def _summary(run: str, header: Header, tables: Tables) -> RunSummary:
    here = {name: [row for row in tables[name] if row["run"] == run] for name in SUMMARIZED}
    members = here["throughput"]
    length_s = max((row["measured_s"] for row in members), default=0.0)
    sent = sum(row["multicast"] for row in members)
    rates = [
        row["delivered_msg_s"]
        for row in members
        if row["recorded"] and row["measured_s"] == length_s > 0
    ]
    blocked = [row["blocked_share"] or 0.0 for row in here["blocked"]]
    return RunSummary(
        run=run,
        group=header.group,
        seed=header.seed,
        one_clock=header.one_order,
        members=len({row["node"] for row in members}),
        measured_s=length_s,
        sent=sent,
        sent_rate_msg_s=sent / length_s if length_s else None,
        delivered_rate_min_msg_s=min(rates, default=None),
        delivered_rate_max_msg_s=max(rates, default=None),
        not_delivered_share_max=max(not_delivered(here["purging"]).values(), default=0.0),
        latency_p99_max_ms=max((row["latency_p99_ms"] for row in here["latency"]), default=None),
        blocked_share_max=max(blocked, default=0.0),
        events_left_out=header.left_out,
    )
