"""The verdict on journals of any size: every property that was promised, and what is broken.

Properties and their kernels are those of `check`; which are promised depends on a run's header.
What must hold in the end is judged of runs that ended by themselves or came to rest (`check.rest`).
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.kernel import BY_LIVES, FEDERATED, Finding
from semcast.check.property import Property
from semcast.check.report import LIVENESS, chosen, makers_of
from semcast.check.rest import restless
from semcast.check.verdict import EVENTS_MAX, SHOWN_MAX, RunVerdict, not_judged_yet
from semcast.check.violation import Missing
from semcast.pipeline.journals import Journals, read_journals
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.verification.frames import Frames
from semcast.pipeline.verification.missing import missing
from semcast.pipeline.verification.survey import Survey, survey
from semcast.pipeline.verification.whole import judge_whole


def judge_journals(
    spark: SparkSession,
    journals: Journals,
    properties: Sequence[str] | None = None,
    assume_rest: bool | None = None,
    shown_max: int = SHOWN_MAX,
    whole_events_max: int = EVENTS_MAX,
) -> list[RunVerdict]:
    """Judge every run by everything that it promised.

    Whether a run ended by itself or came to rest is read from its journal, unless `assume_rest`
    says it. Runs of at most `whole_events_max` events are judged whole: by one task each, or by
    this process if they are few.
    """
    wanted = chosen(properties)
    sizes = journals.sizes.items()
    whole = {run: events for run, events in sizes if events <= whole_events_max}
    found = judge_whole(spark, journals.folder, whole, wanted, assume_rest, shown_max)
    large = sorted(journals.headers.keys() - set(whole))
    if large:
        rest = read_journals(spark, journals.folder, large) if whole else journals
        found += _judge_in_parts(spark, rest, wanted, assume_rest, shown_max)
    return sorted(found, key=lambda verdict: verdict.run)


def _judge_in_parts(
    spark: SparkSession,
    journals: Journals,
    wanted: Sequence[Property],
    assume_rest: bool | None,
    shown_max: int,
) -> list[RunVerdict]:
    # Logs of lives are put together once, however often they are asked.
    events = journals.events.persist() if journals.live else journals.events
    try:
        looked = run_job(spark, "survey", lambda: survey(events, journals.headers))
        verdicts = verdicts_of(looked, wanted, assume_rest)
        frames = open_frames(spark, replace(journals, events=events), looked, wanted, verdicts)
        try:
            if frames.makers:
                run_job(spark, "judge", lambda: _judge(frames, verdicts, shown_max))
        finally:
            frames.close()
    finally:
        if journals.live:
            events.unpersist()
    return verdicts


def verdicts_of(
    looked: Survey, wanted: Sequence[Property], assume_rest: bool | None
) -> list[RunVerdict]:
    """What will be judged of each run."""
    verdicts = []
    for run in looked.facts.runs:
        verdict = not_judged_yet(run)
        if assume_rest is None and any(not one.safety for one in wanted):
            verdict.not_at_rest = restless(run, looked.waiting[run.header.run])
        elif assume_rest is False:
            verdict.not_at_rest = "it was said not to have come to rest"
        for one in wanted:
            if one.applies(run.header) and (one.safety or not verdict.not_at_rest):
                verdict.judged[one.name] = sum(run.counts.get(event, 0) for event in one.about)
                verdict.broken[one.name] = 0
        verdicts.append(verdict)
    return verdicts


def open_frames(
    spark: SparkSession,
    journals: Journals,
    looked: Survey,
    wanted: Sequence[Property],
    verdicts: Sequence[RunVerdict],
) -> Frames:
    """Who judges which run, and what."""
    runs = [
        (run.header, [one for one in wanted if one.name in verdict.judged])
        for run, verdict in zip(looked.facts.runs, verdicts, strict=True)
    ]
    sortings = dict.fromkeys(sorting for one in wanted for sorting in one.kernels)
    if not looked.facts.lives:
        sortings.pop(BY_LIVES, None)
    if not any(run.header.federated for run in looked.facts.runs):
        for sorting in FEDERATED:
            sortings.pop(sorting, None)
    makers = {
        sorting: [makers_of(promised, header, sorting) for header, promised in runs]
        for sorting in sortings
    }
    some = {sorting: makes for sorting, makes in makers.items() if any(makes)}
    return Frames(spark, journals.events, looked, some, journals.files)


def _judge(frames: Frames, verdicts: list[RunVerdict], shown_max: int) -> None:
    violations = frames.keep(frames.violations())
    for row in first_of_each(violations, shown_max).collect():
        verdict = verdicts[row.run_no]
        if row.property in verdict.broken:
            verdict.broken[row.property] = row.total
            about = [(one["sender"], one["seq"]) for one in row.messages]
            finding = Finding(row.run_no, row.property, row.n, about, row.time_ns, row.text)
            verdict.shown.append(finding.violation(frames.facts))
    for verdict in verdicts:
        order = list(verdict.broken)
        verdict.shown.sort(key=lambda one: order.index(one.property))
    names = {name for one in verdicts for name, times in one.broken.items() if times} & LIVENESS
    for row in missing(violations, names).collect() if names else ():
        node = frames.facts.runs[row.run_no].nodes[row.n]
        one = Missing(node, row.sender, row.messages, tuple(row["first"]))
        verdicts[row.run_no].missing.append(one)
    for verdict in verdicts:
        verdict.missing.sort()


def first_of_each(violations: DataFrame, shown_max: int) -> DataFrame:
    """Stage: the first violations of each run and property, with how many there are as `total`."""
    each = Window.partitionBy("run_no", "property")
    return (
        violations.withColumn("total", F.count("*").over(each))
        .withColumn("number", F.row_number().over(each.orderBy("time_ns", "text")))
        .where(F.col("number") <= shown_max)
        .orderBy("run_no", "property", "number")
    )
