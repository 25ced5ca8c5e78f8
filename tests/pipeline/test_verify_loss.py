"""A message that is lost for good is found, in logs written by hand; what was cut short is told."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.check.log import Log as Simulated
from tests.journal.test_lives import Log
from tests.pipeline.test_journals import write_live_run

from semcast.check import check_run
from semcast.cli import main
from semcast.journal import read_journal, runs_in, write_journal
from semcast.journal.growing_log import LogWriter
from semcast.journal.lives import END
from semcast.pipeline.journals import read_journals
from semcast.pipeline.verification import judge_journals


def lossy(run: str, ends: Sequence[str]) -> list[Log]:
    """p1 multicasts 1 to 9; p3 has them all, and p2 lacks 4 and what came behind it.

    Nothing after 3 is ever stable, because p2 never says that it has it.
    """
    logs = [
        Log(node, run=run, members=("p1.1", "p2.1", "p3.1")) for node in ("p1.1", "p2.1", "p3.1")
    ]
    one, two, three = logs
    for seq in range(1, 10):
        one.sends(seq)
        three.gets("p1.1", seq)
        if seq < 4:
            two.gets("p1.1", seq)
    for log in logs:
        log.tell("stable", "p1.1", 3)
    for log in logs:
        if log.header.node in ends:
            log.tell(END, seq=0)
    return logs


def write(folder: Path, logs: Sequence[Log]) -> None:
    for log in logs:
        writer = LogWriter(folder, log.header)
        writer.write(log.events)
        if log.events[-1].event == END:
            writer.finish(left_out=0)
        else:
            writer.close()


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["verify", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


ALL = ("p1.1", "p2.1", "p3.1")


def test_a_permanent_loss_is_exit_code_1_and_says_what_is_missing_where(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    write(tmp_path, lossy("lossy", ALL))
    code, found = verified(capsys, str(tmp_path))
    assert (code, found["ok"], found["not_at_rest"], found["excused"]) == (1, False, {}, {})
    assert found["properties"]["Agreement"]["violations"] == 6
    assert found["missing"] == [
        {
            "run": "lossy",
            "node": "p2.1",
            "name": "name of p2.1",
            "sender": "p1.1",
            "sender_name": "name of p1.1",
            "messages": 6,
            "first_seqs": [4, 5, 6, 7, 8],
        }
    ]
    assert found["violations"][0]["messages"] == ["p1.1#4"]
    report = check_run(read_journal(tmp_path))
    assert not report.ok
    assert [str(one) for one in report.missing] == [
        "p2.1 lacks p1.1#4, p1.1#5, p1.1#6, p1.1#7, p1.1#8 and 1 more"
    ]

    assert main(["verify", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "Missing in the end, and not replaced" in shown
    row = next(line for line in shown.splitlines() if "4, 5, 6, 7, 8, …" in line)
    assert row.split("  ")[1].strip() == "name of p2.1 (p2.1)"


@pytest.mark.parametrize(
    ("ends", "code", "excused"),
    [
        # The one that lacks messages was killed: it is owed nothing, and the others have all.
        (("p1.1", "p3.1"), 0, ["p2.1"]),
        # The sender was killed; of those that ended, one has what the other lacks.
        (("p2.1", "p3.1"), 1, ["p1.1"]),
        # Nobody ended: recording stopped, all were killed, or they still run.
        ((), 0, ["p1.1", "p2.1", "p3.1"]),
    ],
    ids=["reader-killed", "sender-killed", "cut-short"],
)
def test_a_run_that_was_cut_short_is_told_apart_by_its_logs(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ends: tuple[str, ...],
    code: int,
    excused: list[str],
) -> None:
    assert spark is not None
    write(tmp_path, lossy("cut", ends))
    got, found = verified(capsys, str(tmp_path))
    assert (got, list(found["excused"]["cut"])) == (code, excused)
    assert all("its log has no end" in why for why in found["excused"]["cut"].values())
    assert ("Agreement" in found["properties"]) == bool(ends)
    assert bool(found["not_at_rest"]) == (not ends)
    assert check_run(read_journal(tmp_path)).ok == (code == 0)
    if not ends:
        assert main(["verify", str(tmp_path)]) == 0
        assert "Not at rest when cut short" in capsys.readouterr().out


def simulated(run: str, ends: Sequence[str], waiting: int = 0) -> Simulated:
    """In one order: p2 lacks a message; whoever is named ended by itself."""
    log = Simulated(run=run)
    log.multicast("p1#1")
    for node in ("p1", "p3"):
        log.take(node, "p1#1")
    for node in ends:
        log.journal.record(100, node, END, seq=waiting if node == "p2.1" else 0)
    return log


def test_a_log_in_one_order_is_judged_by_the_same_rules(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_journal(simulated("all ended", ALL).journal, tmp_path)
    write_journal(simulated("stopped", ()).journal, tmp_path)
    write_journal(simulated("stopped in between", ("p1.1", "p3.1")).journal, tmp_path)
    write_journal(simulated("something waits", ALL, waiting=2).journal, tmp_path)
    early = simulated("went on", ("p2.1",))
    early.multicast("p1#2")
    for node in ("p1", "p3"):
        early.take(node, "p1#2")
        early.journal.record(200, f"{node}.1", END, seq=0)
    write_journal(early.journal, tmp_path)
    journals = read_journals(spark, tmp_path)
    found = {one.run: one for one in judge_journals(spark, journals, whole_events_max=-1)}
    assert {run for run, one in found.items() if not one.ok} == {"all ended"}
    assert {run for run, one in found.items() if one.not_at_rest} == {
        "stopped",
        "stopped in between",
    }
    for run, one in found.items():
        report = check_run(read_journal(tmp_path, run))
        assert (report.judged, report.counts) == (one.judged, one.broken), run
        assert (report.not_at_rest, report.missing) == (one.not_at_rest, one.missing), run


def test_one_process_and_spark_say_the_same_of_any_logs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What was judged, why not, what is broken, and what is missing where."""
    rng = random.Random("loss")
    for number in range(6):
        write_live_run(tmp_path, f"live-{number}", rng)
    journals = read_journals(spark, tmp_path)
    found = {one.run: one for one in judge_journals(spark, journals, whole_events_max=-1)}
    assert sorted(found) == sorted(runs_in(tmp_path))
    for run, one in found.items():
        report = check_run(read_journal(tmp_path, run))
        assert (report.judged, report.counts) == (one.judged, one.broken), run
        assert (report.not_at_rest, report.missing) == (one.not_at_rest, one.missing), run
    # The comparison says something only if there is some of everything.
    assert {bool(one.missing) for one in found.values()} == {True, False}
    assert {bool(one.not_at_rest) for one in found.values()} == {True, False}
