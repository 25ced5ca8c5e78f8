"""One function for each command that works on data: notebooks call it, the command line prints it.

    from semcast.pipeline import analyse, profile, verify

    profile("quotes.csv.gz").never_replaced_share
    analyse("journals").tables["latency"]
    assert all(verdict.ok for verdict in verify("journals"))

Each function checks its arguments before Spark starts. `spark` is a session, or a function that
opens one when it is needed. Without it the session of this process is used, or a local one is
opened, which stays open for the next call. A mistake in the input raises `InputError` or
`ConfigError`; `PipelineError` says that pyspark is not installed or that a job of Spark failed.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from semcast.pipeline.spark import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semcast.check import RunVerdict
    from semcast.pipeline.analysis.answers import Answers
    from semcast.pipeline.ingest.inputs import TraceOptions
    from semcast.pipeline.planning.run import Plan
    from semcast.pipeline.profiling.summary import TrafficProfile
    from semcast.pipeline.sweeping.outcome import Sweep
    from semcast.pipeline.sweeping.run import Watcher

Session: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"


def profile(
    trace: str | Path,
    *,
    only: str | None = None,
    per_sender: bool = False,
    window_s: float = 1.0,
    options: "TraceOptions | None" = None,
    spark: Session = None,
) -> "TrafficProfile":
    """Measure traffic: what replaces what, how far back, how often, how fast, how large.

    `trace` is a file, a folder or a pattern of files, what `semcast ingest` wrote, or a folder of
    journals; `only` names one of several traces or runs. `options` say how the columns of files
    are called. Distances count all messages, or with `per_sender` those of their own sender;
    rates are counted in windows of `window_s`.

    The result is a `TrafficProfile`: its fields and methods are the figures, such as `messages`,
    `never_replaced_share`, `pmf`, `share_within(64)` and `mean_rate_msg_s`.
    """
    require_spark()
    from semcast.pipeline.profiling.find import find_traffic
    from semcast.pipeline.profiling.kernel import Question
    from semcast.pipeline.profiling.run import profile_found

    traffic = find_traffic(trace, options, only)
    return profile_found(_opened(spark, "profile"), traffic, Question(per_sender, window_s))


def plan(
    trace: str | Path,
    *,
    receiver_rate_msg_s: float | None = None,
    receiver_share: float | None = None,
    seeds: int = 10,
    blocked_share_max: float = 0.01,
    per_sender: bool = False,
    replacement: str = "key",
    only: str | None = None,
    options: "TraceOptions | None" = None,
    work: str | Path | None = None,
    spark: Session = None,
) -> "Plan":
    """Find the smallest buffer that carries a slow receiver, and confirm it.

    The receiver is given by what it takes a second, or by the share of the trace's mean rate. The
    sender may be blocked for `blocked_share_max` of the time, on the trace and on as many samples
    of it as there are `seeds`. `work` is a folder for these samples, which a cluster must see.
    `replacement` is "key", or "bitmap" to find the smallest bitmap too. `trace`, `only`,
    `per_sender` and `options` are as for `profile`.

    The result is a `Plan`: `final` has `buffer_messages`, and `k` if there is a bitmap (`final` is
    None if no buffer will do); `group_config` is the text of a configuration to paste.
    """
    require_spark()
    from semcast.pipeline.planning.run import Receiver, Wish, plan_found
    from semcast.pipeline.profiling.find import find_traffic

    receiver = Receiver(receiver_rate_msg_s, receiver_share)
    wish = Wish(receiver, seeds, blocked_share_max, per_sender, replacement)
    traffic = find_traffic(trace, options, only)
    folder = None if work is None else Path(work)
    return plan_found(_opened(spark, "plan"), traffic, wish, folder)


def sweep(
    scenario: str | Path,
    grid: str = "",
    *,
    seeds: int = 5,
    out: str | Path | None = None,
    journals: bool = False,
    check: bool = True,
    watch: "Watcher | None" = None,
    spark: Session = None,
) -> "Sweep":
    """Simulate a scenario at every point of a grid, with several seeds.

    `grid` is text such as "r=0,0.25 delay_ms=5..50..5". Results are stored below `out` (by default
    `sweep-SCENARIO`), and what is there already is not run again. `journals` writes every run's
    journal too; `check` judges what the runs promised; `watch` is called with how many cells are
    done, of how many.

    The result is a `Sweep`: `mean(point, measure)` has a mean and its confidence interval,
    `failures` the cells that failed or broke a promise, and `results` is the DataFrame of all
    cells.
    """
    require_spark()
    from semcast.pipeline.sweeping.outcome import asked, run_asked

    wanted = asked(Path(scenario), grid, seeds, check, journals, None if out is None else Path(out))
    return run_asked(_opened(spark, "sweep"), wanted, journals, watch)


def analyse(
    journal: str | Path,
    questions: Collection[str] | None = None,
    *,
    runs: Sequence[str] | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    window_s: float = 1.0,
    round_ms: float = 1000 / 30,
    out: str | Path | None = None,
    spark: Session = None,
) -> "Answers":
    """Say what happened in the runs of a folder of journals: rates, purging, latencies, buffers.

    `questions` are names of tables, as in docs/pipeline/analyse.md; None asks all of them. Only
    what happened from `since_s` until `until_s` after the start of a run is measured. `window_s`
    is the length of the windows of `series`, `round_ms` that of a round. With `out` every table is
    written below that folder, as Parquet.

    The result is `Answers`: `runs` has a `RunSummary` for each run, and `tables` has, by question,
    the rows as dictionaries (`pandas.DataFrame(found.tables["latency"])` works). For more than
    200,000 rows of a table use `semcast.pipeline.analysis.questions.Analysis`, which gives
    DataFrames.
    """
    require_spark()
    from semcast.journal import chosen_runs
    from semcast.pipeline.analysis.answers import answers
    from semcast.pipeline.analysis.questions import QUESTIONS, Options, check_questions
    from semcast.pipeline.analysis.runs import Span
    from semcast.pipeline.journals import read_journals

    asked = list(QUESTIONS) if questions is None else list(questions)
    check_questions(asked)
    options = Options(Span(since_s, until_s), window_s, round_ms)
    chosen_runs(journal, runs)
    journals = read_journals(_opened(spark, "analyse"), journal, runs)
    return answers(journals, asked, options, None if out is None else Path(out))


def verify(
    journal: str | Path,
    properties: Sequence[str] | None = None,
    *,
    runs: Sequence[str] | None = None,
    at_rest: bool | None = None,
    shown_max: int = 20,
    spark: Session = None,
) -> "list[RunVerdict]":
    """Judge every property that the runs of a folder of journals promised, at any size.

    `properties` are names such as "fifo-order"; None judges all. Whether a run came to rest, so
    that it can be judged what must hold in the end, is read from its journal unless `at_rest` says
    it. Each verdict keeps at most `shown_max` violations of a property.

    The result has a `RunVerdict` for each run: `ok`, how often each property was `judged` and
    `broken`, the first violations (`shown`) and what is `missing` where.
    """
    require_spark()
    from semcast.check import chosen
    from semcast.journal import chosen_runs
    from semcast.pipeline.journals import read_journals
    from semcast.pipeline.verification import judge_journals

    chosen(properties)
    chosen_runs(journal, runs)
    session = _opened(spark, "verify")
    return judge_journals(
        session, read_journals(session, journal, runs), properties, at_rest, shown_max
    )


def _opened(spark: Session, name: str) -> "SparkSession":
    """The session that was given or, if none was, the one of this process."""
    from semcast.pipeline.spark.session import open_session

    if spark is None:
        return open_session(name)
    return spark() if callable(spark) else spark
