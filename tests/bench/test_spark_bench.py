"""The pieces of `make bench-spark`, on 20,000 rows: what is measured, and that both sides agree."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.spark import duck, environment, jobs
from bench.spark.__main__ import main
from bench.spark.data import Data, make_journal, make_trace
from bench.spark.duck import Answer
from bench.spark.meter import Budget, Line, Meter, Peak, Usage, usage_below
from bench.spark.queries import QUERIES, Query, views
from bench.spark.run import Asked, Measured, Plan, Results, line_of, run
from bench.spark.show import as_object, growth, spark_seconds
from pyarrow import compute, parquet
from pyspark.sql import SparkSession

from semcast.pipeline.analysis.questions import Analysis
from semcast.pipeline.journals import read_journals
from semcast.pipeline.profiling.find import find_traffic
from semcast.pipeline.profiling.run import profile_found
from semcast.pipeline.spark.session import open_session

ROWS = 20_000
DEADLINE_S = 60.0
needs_duckdb = pytest.mark.skipif(
    environment.version() != environment.wanted_version(),
    reason="DuckDB is not in .venv-bench; make bench-spark installs it",
)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session of all tests in this process; it is stopped where the pipeline's tests end."""
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    return open_session("tests", master="local[2]", conf=conf)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    made = Data(tmp_path_factory.mktemp("bench"), ROWS)
    make_journal(made)
    make_trace(made)
    return made


@pytest.fixture
def lines() -> list[Line]:
    return []


@pytest.fixture
def meter(lines: list[Line]) -> Iterator[Meter]:
    meter = Meter(lines.append)
    yield meter
    meter.close()


def only(*names: str) -> Callable[[str], bool]:
    return frozenset(names).__contains__


def asked(job: str, data: Data) -> list[dict[str, Any]]:
    (query,) = [one for one in QUERIES if one.job == job]
    answer = duck.ask(query, data, 2, 1)
    assert not answer.failed
    assert answer.peak_bytes > 0
    return list(answer.rows)


# -- what is measured ------------------------------------------------------------------------------


def test_data_have_the_size_asked_for_and_are_made_once(data: Data) -> None:
    events = make_journal(data)
    assert abs(events - ROWS) < ROWS // 10
    heading, *rows = data.trace.read_text().splitlines()
    assert heading.replace('"', "") == "time_s,sender,key,kind,size"
    assert len(rows) == ROWS == make_trace(data)
    before = data.trace.stat().st_mtime_ns, data.journal.stat().st_mtime_ns
    make_trace(data)
    make_journal(data)
    assert before == (data.trace.stat().st_mtime_ns, data.journal.stat().st_mtime_ns)


def test_what_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    some = Data(tmp_path, 2_000)
    some.trace.parent.mkdir()
    some.trace.with_name(some.trace.name + ".unfinished").write_text("half a ro")
    make_trace(some)
    assert len(some.trace.read_text().splitlines()) == 2_001
    assert [path.name for path in some.trace.parent.iterdir()] == [some.trace.name]


def test_a_job_within_a_job_is_not_counted_twice(meter: Meter, lines: list[Line]) -> None:
    spent: list[float] = []

    def busy(seconds: float) -> None:
        started_s = time.perf_counter()
        while time.perf_counter() - started_s < seconds:
            pass
        spent.append(time.perf_counter() - started_s)

    def outer() -> str:
        busy(0.01)
        meter.time("inner", lambda: busy(0.3), shared=True)
        return "done"

    started_s = time.perf_counter()
    assert meter.time("outer", outer, found=str.upper) == "done"
    took_s = time.perf_counter() - started_s
    inner, last = lines
    assert (inner.job, inner.shared) == ("inner", True)
    assert (last.job, last.shared, last.found) == ("outer", False, "DONE")
    assert inner.seconds >= spent[1]
    assert spent[0] <= last.seconds <= took_s - inner.seconds


def test_a_job_that_fails_is_not_reported_and_leaves_the_meter_usable(
    meter: Meter, lines: list[Line]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        meter.time("fails", fail)
    meter.time("works", lambda: 1)
    assert [line.job for line in lines] == ["works"]


def test_memory_is_that_of_children_and_their_children() -> None:
    hold = "import sys; held = bytearray(50_000_000); print(1, flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", parent], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        usage = usage_below(process.pid)
        process.communicate(timeout=DEADLINE_S)
    assert usage.jvm_bytes == 0
    assert 50_000_000 <= usage.python_bytes < 500_000_000
    assert usage.processor_s >= 0
    assert usage_below(process.pid) == Usage()


def test_what_does_not_fit_into_the_time_is_left_out_and_said() -> None:
    now_s = time.monotonic()
    budget = Budget({"long": 1_000.0, "short": 1.0}, now_s + 100)
    assert "1000 s" in budget.refusal("long")
    assert budget.refusal("short") == budget.refusal("unknown") == ""
    assert Budget({}, now_s - 1).refusal("short") == "the time is up"
    lines: list[Line] = []
    meter = Meter(lines.append, budget)
    assert meter.time("long", lambda: 1) is None
    assert meter.time("short", lambda: 1) == 1
    meter.close()
    assert [bool(line.skipped) for line in lines] == [True, False]


def test_nothing_is_made_or_run_when_the_time_is_up(tmp_path: Path) -> None:
    results = Results()
    wanted = {"verify": ["FIFO Order"], "profile": [jobs.INGEST]}
    plan = Plan([2_000], wanted, tmp_path, 2, 1, None, 4, time.monotonic() - 1)
    run(plan, results, lambda _: None)
    assert results.left_out == [
        "verify, 2,000 rows: the time is up",
        "profile, 2,000 rows: the time is up",
        "sweep: the time is up",
    ]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rows", "ten"], "'ten' is no number of millions"),
        (["--rows", "0"], "is not from 2,000"),
        (["--rows", "inf"], "'inf' is no number of millions"),
        (["--only", "verify,nothing"], "'nothing' is no group and no job"),
        (["--cores", "0"], "--cores is 0"),
        (["--seconds-max", "0"], "--seconds-max is 0"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_done(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


# -- on Spark --------------------------------------------------------------------------------------


def test_properties_are_timed_one_by_one_and_shared_frames_once(
    spark: SparkSession, data: Data, meter: Meter, lines: list[Line]
) -> None:
    kept_before = spark.sparkContext._jsc.getPersistentRDDs().size()
    jobs.verify(spark, data, meter, only("Integrity", "FIFO Order", "Agreement"))
    assert [(line.job, line.shared) for line in lines] == [
        ("survey", True),
        ("by sender", True),
        ("Integrity", False),
        ("FIFO Order", False),
        ("Agreement", False),
    ]
    assert [line.found for line in lines if not line.shared] == ["0 broken"] * 3
    assert all(line.seconds > 0 and line.peak.jvm_bytes > 0 for line in lines)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == kept_before


def test_questions_are_timed_one_by_one_and_what_only_one_needs_is_its_own(
    spark: SparkSession, data: Data, meter: Meter, lines: list[Line]
) -> None:
    jobs.analyse(spark, data, meter, only("throughput", "occupancy", "series"))
    # `retained` is shared with the question of stability, which nobody asked.
    assert [(line.job, line.shared) for line in lines] == [
        ("counted", True),
        ("throughput", False),
        ("windows", True),
        ("occupancy", False),
        ("series", False),
    ]
    assert [line.found for line in lines][1] == "8 rows"


def test_every_job_of_verify_and_analyse_has_a_name_of_its_own() -> None:
    names = [job for some in jobs.JOBS.values() for job in some]
    assert len(names) == len(set(names))
    known = {(group, job) for group, some in jobs.JOBS.items() for job in some}
    assert {(query.group, query.job) for query in QUERIES} <= known


def test_the_trace_has_the_same_profile_before_and_after_ingest(
    spark: SparkSession, data: Data, meter: Meter, lines: list[Line]
) -> None:
    jobs.profile(spark, data, meter, lambda _: True)
    csv, ingested, lake = lines
    assert [line.job for line in lines] == list(jobs.JOBS["profile"])
    assert ingested.found == f"{ROWS:,} rows"
    assert csv.found == lake.found
    assert 0.2 < float(lake.found.split()[0]) < 0.5


# -- in DuckDB -------------------------------------------------------------------------------------


def test_an_ingest_that_was_interrupted_is_not_asked_about(tmp_path: Path) -> None:
    """Else no question at all could be asked, of the journal neither."""
    data = Data(tmp_path, 10)
    folder = data.lake / "traces" / "trace=bench" / "source=1"
    folder.mkdir(parents=True)
    assert not any("VIEW trace" in one for one in views(data))
    (folder / "part.parquet").touch()
    assert any("VIEW trace" in one for one in views(data))


@needs_duckdb
def test_duckdb_and_spark_give_the_same_answers(spark: SparkSession, data: Data) -> None:
    wanted = ("throughput", "latency", "occupancy")
    with Analysis(read_journals(spark, data.journal), wanted) as analysis:
        found = {name: analysis.table(name).orderBy("node").collect() for name in wanted}
    for ours, theirs in zip(found["throughput"], asked("throughput", data), strict=True):
        assert {name: ours[name] for name in theirs} == theirs
    for ours, theirs in zip(found["latency"], asked("latency", data), strict=True):
        assert (ours.node, ours.messages) == (theirs["node"], theirs["messages"])
        assert ours.latency_mean_ms == pytest.approx(theirs["mean_ms"])
        exact = [ours.latency_p50_ms, ours.latency_p90_ms, ours.latency_p99_ms]
        assert exact == [ns / 1e6 for ns in theirs["p50_p90_p99_ns"]]
    held = {(row.node, row.buffer): row.messages_mean * row.covered_s for row in found["occupancy"]}
    theirs_held = {(row["node"], row["buffer"]): row for row in asked("occupancy", data)}
    assert held == pytest.approx({at: row["messages_s"] for at, row in theirs_held.items()})
    assert max(held.values()) > 0


@needs_duckdb
def test_duckdb_and_spark_find_the_same_distances(spark: SparkSession, data: Data) -> None:
    profile = profile_found(spark, find_traffic(data.trace))
    jobs.ingest(spark, data)
    for job in (jobs.PROFILE_CSV, jobs.PROFILE_LAKE):
        (row,) = asked(job, data)
        assert row["messages"] == profile.messages
        assert row["messages"] - row["replacing"] == profile.never_replaced
        replacing = profile.distances.counts
        assert row["replacing"] == sum(n for x, n in replacing.items() if x)
        assert row["d_max"] == profile.distances.largest


@needs_duckdb
@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ("", set()),
        ("twice", {"Integrity", "FIFO Order"}),
        ("lost", {"Agreement", "FIFO Completeness"}),
        ("never sent", {"Integrity"}),
    ],
)
def test_duckdb_sees_what_is_broken(fault: str, broken: set[str], tmp_path: Path) -> None:
    data = Data(tmp_path, 2_000)
    make_journal(data)
    (file,) = data.journal.glob("run=*/*.parquet")
    break_it(file, fault)
    checks = [query.job for query in QUERIES if query.group == "verify"]
    assert {job for job in checks if asked(job, data)[0]["broken"]} == broken


def break_it(file: Path, fault: str) -> None:
    """Rewrite a journal: p5.1 takes the second message of p0.1 twice, or never; or nobody sent it.

    That message is made one without a key, so that nothing replaces it.
    """
    table = parquet.read_table(file, partitioning=None)
    rows = table.to_pylist()
    about = [row for row in rows if (row["sender"], row["seq"]) == ("p0.1", 2)]
    for row in about:
        row["key"] = None
    (taken,) = [row for row in about if (row["node"], row["event"]) == ("p5.1", "deliver")]
    if fault == "twice":
        last = compute.max(table["lsn"]).as_py()
        rows.append({**taken, "lsn": last + 1})
    elif fault == "lost":
        rows.remove(taken)
    elif fault == "never sent":
        rows = [row for row in rows if row not in about or row["event"] != "multicast"]
    parquet.write_table(table.from_pylist(rows, schema=table.schema), file)


@needs_duckdb
def test_a_query_that_fails_is_told_in_one_line(data: Data) -> None:
    answer = duck.ask(Query("verify", "nonsense", (), "SELECT nothing FROM journal"), data, 2, 1)
    assert "nothing" in answer.failed
    assert "\n" not in answer.failed


# -- what is shown ---------------------------------------------------------------------------------


def measured(job: str, rows: int, seconds: float, shared: bool = False) -> Measured:
    line = Line(job, shared, seconds, Peak(1, 2), processor_s=3 * seconds)
    return Measured("verify", rows, line)


def test_figures_are_put_together_as_the_columns_say(tmp_path: Path) -> None:
    query = Query("verify", "FIFO Order", ("by_node",), "")
    results = Results(
        [
            measured("by_node", 1_000, 3.0, shared=True),
            measured("FIFO Order", 1_000, 1.0),
            measured("Agreement", 1_000, 9.0),
            measured("FIFO Order", 10_000, 15.0),
        ],
        [Asked(query, 1_000, Answer(2.0, 5)), Asked(query, 5_000, Answer(2.0, 5))],
    )
    assert spark_seconds(results.duckdb[0], results.spark) == 4.0
    assert spark_seconds(results.duckdb[1], results.spark) is None
    (grown,) = growth(results.spark)
    assert (grown["job"], grown["rows"], grown["per_row_ratio"]) == ("FIFO Order", 10_000, 1.5)
    assert grown["processor_per_row_ratio"] == pytest.approx(1.5)
    assert results.expected_s("verify", 20_000)["FIFO Order"] == 30.0
    plan = Plan([1_000], {}, tmp_path, 2, 1)
    shown = json.loads(json.dumps(as_object(plan, results, {})))
    assert [one["spark_over_duckdb"] for one in shown["duckdb"]] == [2.0, None]
    assert shown["spark"][1]["rows_per_s_per_core"] == pytest.approx(1_000 / 3)
    assert shown["totals"][0]["seconds"] == 13.0


def test_a_line_survives_the_way_from_its_process() -> None:
    line = Line("survey", True, 1.5, Peak(3, 4), "8 rows")
    assert line_of(json.loads(json.dumps(line.as_dict()))) == line
