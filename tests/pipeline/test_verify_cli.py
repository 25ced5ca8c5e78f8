"""`semcast verify`: tables, JSON and exit codes; green on a live group, red on a broken run."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.spark_journal import write as write_synthetic
from pyspark.sql import SparkSession
from tests.check.log import Log
from tests.live.company import joined
from tests.live.test_record import exchange

from semcast.cli import main
from semcast.journal import write_journal


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["verify", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_live_group_that_kept_its_promises_is_green(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    with joined(["a", "b"], record=str(tmp_path)) as group:
        exchange(group)
    code, found = verified(capsys, str(tmp_path))
    assert (code, found["ok"], found["runs"], found["violations"]) == (0, True, 1, [])
    assert found["not_at_rest"] == {}
    assert found["properties"]["Agreement"]["judged"] == 101
    assert found["properties"]["Integrity"]["judged"] > 101


def test_a_broken_promise_is_told_with_messages_members_and_times(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    log = Log(run="broken")
    log.multicast("p1#1")
    log.deliver("p2", "p1#2")
    write_journal(log.journal, tmp_path)
    log = Log(run="fine")
    log.multicast("p1#1")
    write_journal(log.journal, tmp_path)
    code, found = verified(capsys, str(tmp_path), "--property", "integrity", "--per-run")
    assert (code, found["ok"]) == (1, False)
    assert found["properties"] == {
        "Integrity": {"runs": 2, "judged": 3, "violations": 1, "runs_broken": 1}
    }
    assert found["violations"] == [
        {
            "run": "broken",
            "property": "Integrity",
            "node": "p2.1",
            "messages": ["p1.1#2"],
            "at_ns": 2,
            "text": "p2.1 delivers p1.1#2, which nobody had multicast",
        }
    ]
    assert [one["ok"] for one in found["verdicts"]] == [False, True]

    assert main(["verify", str(tmp_path), "--run", "fine", "--show", "0"]) == 0
    shown = capsys.readouterr()
    assert "Not at rest" in shown.out
    assert "Every promise that could be judged was kept." in shown.out


@pytest.mark.parametrize("command", ["verify", "analyse"])
def test_a_folder_that_is_not_there_is_refused_before_spark_is_started(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "semcast.pipeline.spark.session.open_session", lambda *_: pytest.fail("started")
    )
    assert main([command, str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err.splitlines()[-1]


def write_bad_inputs(folder: Path) -> None:
    """Everything that somebody may take for a folder of journals."""
    for name in ("empty", "no-files/run=x", "no-parquet/run=x", "no-header/run=x"):
        (folder / name).mkdir(parents=True)
    (folder / "file").write_text("no folder")
    (folder / "no-parquet/run=x/a.parquet").write_text("no Parquet")
    pq.write_table(pa.table({"x": [1]}), folder / "no-header/run=x/a.parquet")


@pytest.mark.parametrize("command", ["check", "verify", "analyse"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("nowhere", "there is no such folder"),
        ("empty", "there should be files run=<name>/*.parquet in it"),
        ("no-files", "there should be files run=<name>/*.parquet in it"),
        ("file", "it is a file, not a folder"),
        ("no-parquet", "cannot be read as a journal"),
        ("no-header", "no journal, but some other Parquet file"),
    ],
)
def test_what_is_no_folder_of_journals_is_refused_in_one_line(
    spark: SparkSession,
    command: str,
    given: str,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None  # the commands find it, so that they need not say where Spark runs
    write_bad_inputs(tmp_path)
    assert main([command, str(tmp_path / given)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("semcast: ")
    assert says in line


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path), "--property", "fairness"]) == 2
    assert "there is no property 'fairness'" in capsys.readouterr().err.splitlines()[-1]


def test_the_synthetic_journal_of_the_benchmarks_keeps_every_promise(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    written = write_synthetic(tmp_path, 20_000)
    code, found = verified(capsys, str(tmp_path))
    assert (code, found["events"], found["not_at_rest"]) == (0, written, {})
    assert len(found["properties"]) == 10
    assert all(one["judged"] for one in found["properties"].values())
