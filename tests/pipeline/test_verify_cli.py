"""`semcast verify`: tables, JSON and exit codes; green on a live group, red on a broken run."""

import json
from pathlib import Path
from typing import Any

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
    assert len(found["properties"]) == 9
    assert all(one["judged"] for one in found["properties"].values())
