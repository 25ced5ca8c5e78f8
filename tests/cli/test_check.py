"""`semcast check`: what `verify` says, without Java or Spark, and when that is the better one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.check.federations import Federation
from tests.check.log import Log
from tests.live.company import joined
from tests.live.test_record import exchange

from semcast import check
from semcast.check import check_run
from semcast.cli import main
from semcast.journal import read_journal, write_journal


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def write_broken(folder: Path) -> None:
    log = Log(run="broken")
    log.multicast("p1#1")
    log.deliver("p2", "p1#2")
    write_journal(log.journal, folder)


def test_a_live_group_that_kept_its_promises_is_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with joined(["a", "b"], record=str(tmp_path)) as group:
        exchange(group)
    code, found = checked(capsys, str(tmp_path))
    assert (code, found["ok"], found["runs"], found["violations"]) == (0, True, 1, [])
    report = check_run(read_journal(tmp_path))
    judged = {name: one["judged"] for name, one in found["properties"].items()}
    assert judged == report.judged
    assert found["properties"]["Agreement"]["judged"] == 101


def test_a_broken_promise_is_exit_code_1_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_broken(tmp_path)
    code, found = checked(capsys, str(tmp_path), "--property", "integrity")
    assert (code, found["ok"]) == (1, False)
    assert [one["text"] for one in found["violations"]] == [
        "p2.1 delivers p1.1#2, which nobody had multicast"
    ]
    assert main(["check", str(tmp_path), "--not-at-rest"]) == 1
    shown = capsys.readouterr()
    assert "p2.1 delivers p1.1#2, which nobody had multicast" in shown.out
    assert shown.err == ""


def test_a_federation_is_judged_by_its_own_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sites that deliver messages of two groups in two orders break one of them (PROP §1 c)."""
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p1", "p2"]})
    one, other = fed.send("p1", "alpha"), fed.send("p2", "beta")
    fed.take("p1", one, other)
    fed.take("p2", other, one)
    fed.world("end", "p1", "p2")
    write_journal(fed.journal, tmp_path)
    code, found = checked(capsys, str(tmp_path))
    assert (code, found["ok"], found["not_at_rest"]) == (1, False, {})
    broken = {name: one["violations"] for name, one in found["properties"].items()}
    assert broken == {
        "Integrity": 0,
        "Accounting": 0,
        "Single Source Order": 0,
        "Multiple Source Order": 0,
        "Multiple Group Order": 1,
        "Acyclic Order": 1,
        "Rollback": 0,
        "Member Delivery": 0,
    }
    code, found = checked(capsys, str(tmp_path), "--property", "multiple-group-order")
    assert [one["text"] for one in found["violations"]] == [
        "p1.1 delivers p1.1#1 before p2.1#1, and p2.1 p2.1#1 before p1.1#1"
    ]


def test_of_a_large_journal_it_says_that_verify_is_the_better_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "EVENTS_MAX", 1)
    write_broken(tmp_path)
    assert main(["check", str(tmp_path)]) == 1
    (hint,) = capsys.readouterr().err.splitlines()
    assert hint.startswith("semcast: some 2 events")
    assert f"semcast verify {tmp_path}" in hint


def test_of_more_than_takes_a_few_seconds_it_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semcast.cli.check.EVENTS_QUICK_MAX", 1)
    write_broken(tmp_path)
    code = main(["check", str(tmp_path), "--json"])
    shown = capsys.readouterr()
    assert (code, json.loads(shown.out)["events"]) == (1, 2)
    said = [line.partition(" s: ")[2] for line in shown.err.splitlines()]
    assert said == ["1/2 reading broken", "2/2 judging 2 events"]


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    write_broken(tmp_path)
    assert main(["check", str(tmp_path), "--run", "other"]) == 2
    assert "choose from its 1 runs: broken" in capsys.readouterr().err
    assert main(["check", str(tmp_path), "--property", "fairness"]) == 2
    assert "there is no property 'fairness'" in capsys.readouterr().err


def test_it_needs_no_spark(tmp_path: Path) -> None:
    """Where pyspark cannot be imported, it judges all the same."""
    write_broken(tmp_path)
    program = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None; "
        "from semcast.cli import main; sys.exit(main(['check', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "which nobody had multicast" in done.stdout
