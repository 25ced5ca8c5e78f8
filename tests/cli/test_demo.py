"""`semcast demo` shows what the README says it does."""

import json
import re
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.cli._slow_reader import Outcome, Story, run

STORY = Story(seconds=4)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {policy: run(STORY, policy) for policy in ("off", "drop-new", "random", "eager")}


def test_waiting_slows_the_sender_down_to_the_reader(outcomes: dict[str, Outcome]) -> None:
    slack_msg_s = STORY.buffer_messages / STORY.seconds
    sent = outcomes["off"].sender_rate_msg_s
    assert sent <= STORY.reader_rate_msg_s + slack_msg_s + 1
    assert outcomes["off"].not_delivered == 0


@pytest.mark.parametrize("policy", ["drop-new", "random"])
def test_dropping_loses_what_nothing_replaces(outcomes: dict[str, Outcome], policy: str) -> None:
    assert outcomes[policy].sender_rate_msg_s == STORY.sender_rate_msg_s
    must_msg = STORY.seconds * STORY.sender_rate_msg_s * (1 - STORY.share_replaced)
    assert outcomes[policy].lost > 0.6 * must_msg


def test_purging_keeps_the_full_rate_and_loses_nothing(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["eager"].sender_rate_msg_s == STORY.sender_rate_msg_s
    assert outcomes["eager"].lost == 0
    assert outcomes["eager"].not_delivered > 0


def test_the_same_seed_gives_the_same_outcome() -> None:
    assert run(Story(seconds=1), "random") == run(Story(seconds=1), "random")


def test_the_command_prints_a_row_for_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "1"]) == 0
    shown = capsys.readouterr().out
    for name in ("wait", "drop new", "drop any", "semcast"):
        assert re.search(rf"^\s*{name}\s.*\d+/s", shown, re.MULTILINE)
    assert "refused by its seal" in shown


def test_the_json_has_what_the_table_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [outcome["policy"] for outcome in result["outcomes"]] == [
        "off",
        "drop-new",
        "random",
        "eager",
    ]
    assert result["forgery_refused"] is True
    assert 0 < result["purge_ratio_needed"] < result["purge_ratio_expected"] < 1


def test_a_bad_number_of_seconds_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("semcast: ")
    assert complaint.count("\n") == 1


def test_the_readme_quotes_the_demo_command() -> None:
    assert "semcast demo --seconds 20" in (Path(__file__).parents[2] / "README.md").read_text()
