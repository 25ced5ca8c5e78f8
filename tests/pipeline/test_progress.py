"""Jobs: results and errors come through, and a person sees how far they are."""

import re
import threading
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from semcast.errors import InputError, PipelineError
from semcast.pipeline.spark import progress
from semcast.pipeline.spark.counting import Counts, job_watch
from semcast.pipeline.spark.failures import cause
from semcast.pipeline.spark.progress import run_job, words

_TASK_S_MAX = 120.0


def test_a_result_comes_through_and_a_job_within_a_job_is_part_of_it(spark: SparkSession) -> None:
    def inner() -> int:
        return spark.range(10).count()

    assert run_job(spark, "outer", lambda: run_job(spark, "inner", inner) + 1) == 11
    assert run_job(spark, "nothing", lambda: None) is None


def test_an_error_of_the_action_passes_unchanged(spark: SparkSession) -> None:
    error = InputError("no such trace")

    def fail() -> None:
        raise error

    with pytest.raises(InputError) as raised:
        run_job(spark, "fail", fail)
    assert raised.value is error


def test_what_spark_raises_is_one_line_with_the_cause_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(PipelineError, match=r"^read: \[PATH_NOT_FOUND\]") as raised:
        run_job(spark, "read", lambda: spark.read.parquet(missing))
    assert missing in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)
    assert raised.value.__cause__ is not None


def test_what_a_task_raises_is_named_without_its_traces(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise ValueError("row 7 has no key")
        yield from ()

    frame = spark.range(1).mapInArrow(fail, "id long")
    with pytest.raises(PipelineError) as raised:
        run_job(spark, "check", frame.count)
    assert str(raised.value) == "check: ValueError: row 7 has no key"


def test_causes_are_found_in_sparks_texts() -> None:
    task = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in f\nsemcast.errors.InputError: quotes.csv: no heading\n\n'
        "\tat org.apache.spark.Foo\njava.lang.Error: more"
    )
    assert cause(task) == "quotes.csv: no heading"
    assert cause("[TABLE] no table. SQLSTATE: 42P01;\nline 2") == "[TABLE] no table.;"
    assert cause("") == "no reason given"
    assert cause("\n\n  at last \nnext") == "at last"
    assert len(cause("x" * 10_000)) < 1_000


class _Screen(StringIO):
    """A terminal that lets the job go once it has seen how far it is."""

    def __init__(self, go: Path, tasks: int) -> None:
        super().__init__()
        self._go = go
        self._words = f"stage 1/1, task 0/{tasks}"

    def write(self, text: str) -> int:
        if self._words in text:
            self._go.touch()
        return super().write(text)


@pytest.mark.parametrize("to_come", [0, 5])
def test_a_long_job_shows_stages_and_tasks_on_a_terminal_and_clears_them(
    to_come: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = str(tmp_path / "go")

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + _TASK_S_MAX
        while not Path(go).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from batches

    frame = spark.range(0, 2, 1, 2).mapInArrow(wait, "id long")
    screen = _Screen(Path(go), 2 + to_come)
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(progress, "_SHOWN_AFTER_S", 0.0)
    found = run_job(spark, "waiting", lambda: len(frame.collect()), console, lambda: to_come)
    assert found == 2
    assert Path(go).exists()
    assert "waiting" in screen.getvalue()
    assert screen.getvalue().rstrip("\n").endswith("\x1b[2K")  # the line is wiped at the end


class _Log(StringIO):
    """No terminal; lets the job go once so many lines have been written."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.go = threading.Event()
        self._lines = lines

    def flush(self) -> None:
        if self.getvalue().count("\n") >= self._lines:
            self.go.set()


def test_without_a_terminal_a_long_job_writes_plain_lines_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _Log(3)
    monkeypatch.setattr(progress, "_LINE_S", 0.05)
    console = Console(file=log, force_terminal=False)
    assert run_job(spark, "waiting", lambda: log.go.wait(_TASK_S_MAX), console)
    for line in log.getvalue().splitlines():
        assert re.fullmatch(r"semcast: waiting: \d+ s, (planning|stage .*)", line)


def test_a_short_job_shows_nothing(spark: SparkSession) -> None:
    for console in (
        Console(file=StringIO(), force_terminal=True),
        Console(file=StringIO(), force_terminal=False),
    ):
        assert run_job(spark, "short", lambda: 1, console) == 1
        assert isinstance(console.file, StringIO)
        assert console.file.getvalue() == ""


def test_a_watch_counts_its_own_jobs_and_counts_ended_ones_as_done(spark: SparkSession) -> None:
    watch = job_watch(spark, "test-group", "test")

    def work() -> None:
        watch.enter()
        spark.range(0, 100, 1, 3).groupBy().count().collect()
        spark.range(0, 100, 1, 3).groupBy().count().collect()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    spark.range(10).count()  # another's
    found = watch.counts()
    assert found == watch.counts()
    assert found.stages == found.stages_done > 0
    assert found.tasks == found.tasks_done >= 6
    assert job_watch(spark, "other-group", "test").counts() == Counts()


def test_words_count_from_one_and_never_beyond_the_last_stage() -> None:
    assert words(Counts()) == "planning"
    assert words(Counts(0, 3, 5, 1_000)) == "stage 1/3, task 5/1,000"
    assert words(Counts(3, 3, 9, 9)) == "stage 3/3, task 9/9"
