"""`semcast demo`: a live group, recorded, explained on Spark."""

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from semcast.cli import _demo_group, main
from semcast.journal import runs_in


@pytest.fixture(scope="module")
def shown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What it says of two seconds, with where it kept the journal.

    The slow reader takes one message in eight, so that it is the slow one on a busy machine too.
    """
    assert spark is not None
    folder = tmp_path_factory.mktemp("demo")
    told, progress = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(told), redirect_stderr(progress):
        slower = partial(_demo_group.Traffic, rate_msg_s=1000, slow_ms=8.0)
        patch.setattr(_demo_group, "Traffic", slower)
        code = main(["demo", "--seconds", "2", "--journal", str(folder / "journal"), "--json"])
    found: dict[str, Any] = json.loads(told.getvalue())
    return found | {
        "exit_code": code, "folder": folder / "journal", "progress": progress.getvalue(),
    }  # fmt: skip


def test_where_there_is_no_terminal_a_plain_line_says_what_begins(shown: dict[str, Any]) -> None:
    lines: list[str] = shown["progress"].splitlines()
    begun = [found[1] for line in lines if (found := re.match(r"semcast: +\d+ s: (\d/\d) ", line))]
    assert begun == [f"{number}/6" for number in range(1, 7)]
    assert re.fullmatch(r"semcast: +\d+ s: done", lines[-1])
    assert shown["progress"].replace("\n", "").isprintable()


def test_every_promise_of_the_live_group_was_judged_and_kept(shown: dict[str, Any]) -> None:
    assert shown["exit_code"] == 0
    assert shown["not_at_rest"] == ""
    assert {"Integrity", "Key Order", "Agreement", "Validity"} <= shown["judged"].keys()
    # Nobody comes late to the demo, so nobody gets any state.
    assert all(events for name, events in shown["judged"].items() if name != "State")
    assert not any(shown["broken"].values())


def test_every_message_was_taken_or_replaced_at_each_reader(shown: dict[str, Any]) -> None:
    sent = next(one["sent"] for one in shown["members"] if one["name"] == "feed")
    readers = {one["name"]: one for one in shown["members"] if one["name"] != "feed"}
    assert readers.keys() == {"fast", "slow"}
    for one in readers.values():
        assert one["taken"] + one["replaced"] == sent
    assert readers["slow"]["replaced"] > readers["fast"]["replaced"]


def test_what_was_skipped_is_covered_by_something_later(shown: dict[str, Any]) -> None:
    assert shown["skips"]
    for one in shown["skips"]:
        assert one["key"]
        assert one["by_seq"] > one["seq"]


def test_without_purging_the_slow_reader_holds_the_feed_up(shown: dict[str, Any]) -> None:
    """Simulated at the rate that was meant, however quick this machine was."""
    without = shown["without_purging"]
    assert without["sent_rate_msg_s"] < shown["traffic"]["rate_msg_s"] / 2
    assert without["blocked_share"] > 0.1


def test_the_journal_is_kept_on_request_and_never_mixed_with_another(
    shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder: Path = shown["folder"]
    assert runs_in(folder) == ["demo"]
    assert main(["demo", "--journal", str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err
