"""A session and data in, measured lines out: every property, every question, the trace's profile.

The stages are called as the commands call them. Frames that several properties or questions share
are computed when the first one asks for them, and are a line of their own.
"""

import shutil
from collections.abc import Callable, Collection
from functools import cached_property, reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from bench.spark.data import TRACE, Data
from bench.spark.meter import Meter
from semcast.check import PROPERTIES, chosen
from semcast.check.verdict import SHOWN_MAX
from semcast.pipeline.analysis.questions import QUESTIONS, Analysis
from semcast.pipeline.ingest.inputs import TraceOptions, find_files
from semcast.pipeline.ingest.lake import is_lake
from semcast.pipeline.ingest.traces import ingest_traces
from semcast.pipeline.journals import Journals, read_journals
from semcast.pipeline.profiling.find import Found, find_traffic
from semcast.pipeline.profiling.run import profile_found
from semcast.pipeline.profiling.summary import TrafficProfile
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.verification.frames import Frames
from semcast.pipeline.verification.report import first_of_each, open_frames, verdicts_of
from semcast.pipeline.verification.survey import survey

SURVEY: Final = "survey"
VERDICT: Final = "verdict"
PROFILE_CSV: Final = "profile of CSV"
INGEST: Final = "ingest CSV"
PROFILE_LAKE: Final = "profile of what was ingested"


class TimedFrames(Frames):
    """Frames that are computed, and timed, when somebody first asks for them."""

    def __init__(self, frames: Frames, meter: Meter) -> None:
        super().__init__(frames.spark, frames.events, frames.survey, frames.makers, frames.files)
        self._meter: Final = meter

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        if name in self._shared:
            return self._shared[name]
        return self._timed(name, lambda: super(TimedFrames, self).once(name, make))

    def _timed(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        return _computed(self.spark, self._meter, name, make)


class TimedAnalysis(Analysis):
    """An analysis whose shared frames are computed, and timed, when first asked for."""

    def __init__(self, journals: Journals, questions: Collection[str], meter: Meter) -> None:
        super().__init__(journals, questions)
        self._meter: Final = meter

    @cached_property
    def counted(self) -> DataFrame:
        return self._timed("counted", lambda: super(TimedAnalysis, self).counted)

    @cached_property
    def replaced(self) -> DataFrame:
        return self._timed("replaced", lambda: super(TimedAnalysis, self).replaced)

    @cached_property
    def retained(self) -> DataFrame:
        return self._timed("retained", lambda: super(TimedAnalysis, self).retained)

    @cached_property
    def series(self) -> DataFrame:
        return self._timed("windows", lambda: super(TimedAnalysis, self).series)

    @cached_property
    def receivers(self) -> DataFrame:
        return self._timed("receptions", lambda: super(TimedAnalysis, self).receivers)

    def _timed(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        return _computed(self._spark, self._meter, name, make)


def _computed(
    spark: SparkSession, meter: Meter, name: str, make: Callable[[], DataFrame]
) -> DataFrame:
    frame = make()
    # Only what is kept is shared; the rest is part of the job that asks.
    if frame.is_cached:
        meter.time(name, lambda: run_job(spark, name, frame.count), shared=True, found=_rows)
    return frame


def _rows(count: int) -> str:
    return f"{count:,} rows"


def verify(spark: SparkSession, data: Data, meter: Meter, wanted: Callable[[str], bool]) -> None:
    """Every property, one by one, and the verdict: what `semcast verify` does with large runs."""
    names = [name for name in JOBS["verify"] if wanted(name)]
    if not names:
        return
    journals = read_journals(spark, data.journal)
    properties = [one for one in PROPERTIES if one.name in names or VERDICT in names]

    def look() -> Frames:
        looked = run_job(spark, SURVEY, lambda: survey(journals.events, journals.headers))
        verdicts = verdicts_of(looked, properties, None)
        return open_frames(spark, journals, looked, properties, verdicts)

    looked = meter.time(SURVEY, look, shared=True)
    if looked is None:
        return
    frames = TimedFrames(looked, meter)
    try:
        for name in names:
            meter.time(name, _judge(spark, frames, name), found=_violations)
    finally:
        frames.close()


def _judge(spark: SparkSession, frames: Frames, name: str) -> Callable[[], list[Any]]:
    """What kernels found of one property, or all that stands; sortings are made when asked for."""

    def judge() -> list[Any]:
        if name == VERDICT:
            broken = frames.violations()
        else:
            (one,) = chosen([name])
            found = [frames.found(sorting) for sorting in one.kernels if sorting in frames.makers]
            if not found:
                return []
            broken = reduce(DataFrame.unionByName, found).where(F.col("property") == name)
        return run_job(spark, name, lambda: first_of_each(broken, SHOWN_MAX).collect())

    return judge


def _violations(rows: list[Any]) -> str:
    return f"{len(rows)} broken"


def analyse(spark: SparkSession, data: Data, meter: Meter, wanted: Callable[[str], bool]) -> None:
    """Every question, one by one, as `semcast analyse` asks them."""
    names = [name for name in QUESTIONS if wanted(name)]
    if not names:
        return
    with TimedAnalysis(read_journals(spark, data.journal), names, meter) as analysis:
        for name in names:
            meter.time(name, _answer(spark, analysis, name), found=_rows)


def _answer(spark: SparkSession, analysis: Analysis, name: str) -> Callable[[], int]:
    def answer() -> int:
        return run_job(spark, name, lambda: len(analysis.table(name).collect()))

    return answer


def profile(spark: SparkSession, data: Data, meter: Meter, wanted: Callable[[str], bool]) -> None:
    """The trace as CSV, its way into the lake, and the same profile from there."""
    if wanted(PROFILE_CSV):
        meter.time(PROFILE_CSV, _profile(spark, find_traffic(data.trace)), found=_distances)
    if wanted(INGEST):
        # What is there already would not be ingested again.
        shutil.rmtree(data.lake, ignore_errors=True)
        meter.time(INGEST, lambda: ingest(spark, data), found=_rows)
    if wanted(PROFILE_LAKE):
        if not is_lake(data.lake):
            ingest(spark, data)
        meter.time(PROFILE_LAKE, _profile(spark, find_traffic(data.lake)), found=_distances)


def _profile(spark: SparkSession, stream: Found) -> Callable[[], TrafficProfile]:
    return lambda: profile_found(spark, stream)


def _distances(found: TrafficProfile) -> str:
    return f"{found.never_replaced_share:.4f} never replaced"


def ingest(spark: SparkSession, data: Data) -> int:
    """Put the trace into the lake, whole or not at all; how many rows those are."""
    reports = ingest_traces(spark, find_files([data.trace], TraceOptions()), data.lake, trace=TRACE)
    return sum(one.rows for one in reports)


Group = Callable[[SparkSession, Data, Meter, Callable[[str], bool]], None]
GROUPS: Final[dict[str, Group]] = {"verify": verify, "analyse": analyse, "profile": profile}
JOBS: Final[dict[str, tuple[str, ...]]] = {
    "verify": (*(one.name for one in PROPERTIES), VERDICT),
    "analyse": tuple(QUESTIONS),
    "profile": (PROFILE_CSV, INGEST, PROFILE_LAKE),
}
