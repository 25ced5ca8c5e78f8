"""The verdict on journals of any size: every property that was promised, and what is broken.

Properties are the table of `check.report`, each judged by a stage that has a file of its own here:
a property that joins there needs a line in `STAGES`, and its kernel one in `KERNELS`. Which are
promised depends on a run's header. What must hold in the end is judged of runs that ended by
themselves or came to rest (`check.rest`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.missing import Missing
from semcast.check.relation import NEVER
from semcast.check.report import PROPERTIES, Property
from semcast.check.violation import MessageId, Violation
from semcast.errors import ConfigError
from semcast.journal import Header
from semcast.pipeline.journals import Journals
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.verify import (
    accounting,
    agreement,
    fifo_completeness,
    fifo_order,
    flow_bounds,
    integrity,
    key_completeness,
    key_lives,
    key_order,
    owed,
    safe_purging,
    sender_reliability,
    stability,
    validity,
)
from semcast.pipeline.verify.facts import RunFacts
from semcast.pipeline.verify.frames import (
    BY_LIVES,
    BY_NODE,
    BY_SENDER,
    IN_ORDER,
    Frames,
    Maker,
    Makers,
)
from semcast.pipeline.verify.missing import missing
from semcast.pipeline.verify.rest import restless
from semcast.pipeline.verify.survey import counts_of, survey

Stage: TypeAlias = Callable[[Frames], DataFrame]
STAGES: Final[dict[str, Stage]] = {
    integrity.PROPERTY: integrity.violations,
    fifo_order.PROPERTY: fifo_order.violations,
    key_order.PROPERTY: key_order.violations,
    key_completeness.PROPERTY: key_completeness.violations,
    accounting.PROPERTY: accounting.violations,
    flow_bounds.PROPERTY: flow_bounds.violations,
    safe_purging.PROPERTY: safe_purging.violations,
    stability.PROPERTY: stability.violations,
    sender_reliability.PROPERTY: sender_reliability.violations,
    validity.PROPERTY: validity.violations,
    agreement.PROPERTY: agreement.violations,
    fifo_completeness.PROPERTY: fifo_completeness.violations,
}
# Who judges the events of each order, by property; the four of `owed` are judged together.
KERNELS: Final[dict[str, dict[str, Maker]]] = {
    BY_NODE: {accounting.PROPERTY: accounting.kernel, flow_bounds.PROPERTY: flow_bounds.kernel},
    BY_SENDER: {
        integrity.PROPERTY: integrity.kernel,
        fifo_order.PROPERTY: fifo_order.kernel,
        key_order.PROPERTY: key_order.kernel,
        key_completeness.PROPERTY: key_completeness.kernel,
        **dict.fromkeys(owed.PROPERTIES, owed.kernel),
    },
    BY_LIVES: {key_order.PROPERTY: key_lives.kernel},
    IN_ORDER: {safe_purging.PROPERTY: safe_purging.kernel, stability.PROPERTY: stability.kernel},
}
SHOWN_MAX: Final = 20
# Why a node of a live run owes nothing in the end.
NO_END: Final = "its log has no end: killed, cut off, or still running"
LEFT: Final = "left before the end"


@dataclass
class RunVerdict:
    """What came of one run."""

    run: str
    events: int
    # Why what must hold in the end was not judged, or nothing.
    not_at_rest: str = ""
    # By property: how many events were judged, and how often it is broken.
    judged: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    # The first violations of each property.
    shown: list[Violation] = field(default_factory=list)
    # Which messages are missing where, by what must hold in the end.
    missing: list[Missing] = field(default_factory=list)
    # Of a live run: the nodes of which that is not asked, and why; and what people call nodes.
    excused: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not any(self.broken.values())


def chosen(names: Sequence[str] | None) -> list[Property]:
    """The properties of these names, in any case, with - or _ for a space; or all."""
    if not names:
        return list(PROPERTIES)
    by_name = {_plain(one.name): one for one in PROPERTIES}
    for name in names:
        if _plain(name) not in by_name:
            there = ", ".join(one.name for one in PROPERTIES)
            raise ConfigError(f"there is no property {name!r}; there are: {there}")
    wanted = {_plain(name) for name in names}
    return [one for name, one in by_name.items() if name in wanted]


def makers_of(names: Collection[str]) -> Makers:
    """The kernels that these properties need, each once."""
    return {
        sorting: list(dict.fromkeys(make for name, make in kernels.items() if name in names))
        for sorting, kernels in KERNELS.items()
    }


def open_frames(
    spark: SparkSession, events: DataFrame, headers: dict[str, Header], names: Collection[str]
) -> Frames:
    """What these properties are judged by, after a first look at the events."""
    counts = counts_of(events).persist()
    try:
        facts = run_job(spark, "survey", lambda: survey(counts, events, headers))
    except BaseException:
        counts.unpersist()
        raise
    return Frames(spark, events, counts, facts, makers_of(names))


def _plain(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def verify(
    spark: SparkSession,
    journals: Journals,
    properties: Sequence[str] | None = None,
    assume_rest: bool | None = None,
    shown_max: int = SHOWN_MAX,
) -> list[RunVerdict]:
    """Judge every run by everything that it promised.

    Whether a run ended by itself or came to rest is read from its journal, unless `assume_rest`
    says it.
    """
    wanted = chosen(properties)
    # Logs of lives are put together once, however often they are asked.
    events = journals.events.persist() if journals.live else journals.events
    try:
        frames = open_frames(spark, events, journals.headers, {one.name for one in wanted})
    except BaseException:
        events.unpersist()
        raise
    runs = frames.facts.runs
    verdicts = [_verdict_of(run) for run in runs]
    try:
        if assume_rest is None and any(not one.safety for one in wanted):
            _mark_restless(spark, frames, verdicts)
        elif assume_rest is False:
            for verdict in verdicts:
                verdict.not_at_rest = "it was said not to have come to rest"
        for one in wanted:
            _judge(spark, frames, one, verdicts, shown_max)
        _find_missing(spark, frames, wanted, verdicts)
    finally:
        frames.close()
        if journals.live:
            events.unpersist()
    return verdicts


def _verdict_of(run: RunFacts) -> RunVerdict:
    """Nothing is judged yet; but who is excused is known."""
    excused: dict[str, str] = {}
    if not run.header.one_order:
        for n, node in enumerate(run.nodes):
            if run.crash_at[n] != NEVER:
                excused[node] = NO_END
            elif not (run.correct >> n) & 1:
                excused[node] = LEFT
    pairs = (one.split(" ", 1) for one in run.header.names)
    names = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    return RunVerdict(run.header.run, sum(run.counts.values()), excused=excused, names=names)


def _mark_restless(spark: SparkSession, frames: Frames, verdicts: list[RunVerdict]) -> None:
    for row in run_job(spark, "rest", restless(frames).collect):
        verdicts[row.run_no].not_at_rest = row.why


def _judge(
    spark: SparkSession,
    frames: Frames,
    one: Property,
    verdicts: list[RunVerdict],
    shown_max: int,
) -> None:
    numbers = {}
    for no, (run, verdict) in enumerate(zip(frames.facts.runs, verdicts, strict=True)):
        if one.applies(run.header) and (one.safety or not verdict.not_at_rest):
            numbers[run.header.run] = no
            verdict.judged[one.name] = sum(run.counts.get(event, 0) for event in one.about)
            verdict.broken[one.name] = 0
    if not numbers:
        return
    stage = STAGES[one.name]
    for row in run_job(spark, one.name, lambda: first_of_each(stage(frames), shown_max).collect()):
        if row.run in numbers:
            verdict = verdicts[numbers[row.run]]
            verdict.broken[one.name] = row.total
            verdict.shown.append(violation_of(row))


def _find_missing(
    spark: SparkSession, frames: Frames, wanted: Sequence[Property], verdicts: list[RunVerdict]
) -> None:
    """Put together what those lack that owe something."""
    liveness = [one for one in wanted if not one.safety]
    broken = [one for one in liveness if any(verdict.broken.get(one.name) for verdict in verdicts)]
    by_run = {
        verdict.run: verdict
        for verdict in verdicts
        if any(verdict.broken.get(one.name) for one in broken)
    }
    if not by_run:
        return
    stage = missing(frames, [one.name for one in broken], by_run)
    for row in run_job(spark, "missing", stage.collect):
        by_run[row.run].missing.append(
            Missing(row.node, row.sender, row.messages, tuple(row["first"]))
        )


def first_of_each(violations: DataFrame, shown_max: int) -> DataFrame:
    """Stage: the first violations of each run, with how many there are as `total`."""
    runs = Window.partitionBy("run")
    return (
        violations.withColumn("total", F.count("*").over(runs))
        .withColumn("place", F.row_number().over(runs.orderBy("at_ns", "text")))
        .where(F.col("place") <= shown_max)
        .orderBy("run", "place")
    )


def all_violations(frames: Frames, properties: Sequence[str] | None = None) -> DataFrame:
    """Stage: the violations of all runs that promised these properties, as one table.

    Whether runs have come to rest is up to the caller.
    """
    stages = []
    for one in chosen(properties):
        runs = [run.header.run for run in frames.facts.runs if one.applies(run.header)]
        if runs:
            stages.append(STAGES[one.name](frames).where(F.col("run").isin(runs)))
    return reduce(DataFrame.unionByName, stages)


def violation_of(row: Any) -> Violation:
    """A row as the violation that the checkers would have told of."""
    about = tuple(MessageId(one["sender"], one["seq"]) for one in row["messages"])
    return Violation(row["property"], row["text"], row["node"], about, row["at_ns"])
