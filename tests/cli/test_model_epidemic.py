"""`semcast model epidemic`: its keys, its table, its page, and what it says to mistakes."""

import json
import re
from pathlib import Path

import pytest

from semcast.cli import main

SMALL = "--members 60 --rounds 10"


def run(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(["model", "epidemic", *line.split()]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_one_group_is_one_flat_object(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, f"{SMALL} --rate 0.5 --ratio 0 --json"))
    assert (found["members"], found["live_members"], found["policy"]) == (60, 60, "eager")
    assert found["relays"] == 8
    assert found["atomic_share"] == 1.0
    assert 0 < found["load_mean_copies_round"] <= found["load_max_copies_round"] <= found["links"]
    assert 1 <= found["latency_p50_rounds"] <= found["latency_p99_rounds"]
    assert "runs" not in found


def test_every_option_gets_to_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "--members 70 --fanout 3 --relays 6 --links 9 --view partial --buffer 2 --policy lazy "
        "--rate 1.5 --ratio 0.5 --diversity 4 --chain-length 6 --loss 0.1 --crashed 0.1 "
        "--rounds 8 --seed 5 --json"
    )
    found = json.loads(run(capsys, line))
    expected = {
        "members": 70, "fanout": 3, "relays": 6, "links": 9, "view": "partial",
        "buffer_messages": 2, "policy": "lazy", "rate_msg_round": 1.5, "related_ratio": 0.5,
        "diversity": 4, "chain_length": 6, "loss": 0.1, "crashed": 0.1, "measured_rounds": 8,
        "seed": 5, "live_members": 63,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_sizes_and_policies_are_a_list_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "--sizes 20,30 --policy eager,random --rounds 5 --json"))
    assert list(found) == ["runs"]
    assert [(one["policy"], one["members"]) for one in found["runs"]] == [
        ("eager", 20),
        ("eager", 30),
        ("random", 20),
        ("random", 30),
    ]


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(run(capsys, f"{SMALL} --rate 0.5 --ratio 0").split())
    assert "60, eager 100.0%" in said
    assert "more than 95% of the members" in said


def test_the_page_has_a_plot_of_each_measure_and_fetches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sizes.html"
    run(capsys, f"--sizes 20,40,80 --policy eager,random --rounds 5 --page {page} --json")
    text = page.read_text(encoding="utf-8")
    assert "Gossip with semantic purging, 20 to 80 members" in text
    assert text.count("<svg") == 4
    for words in ("atomic", "latency", "load", "What waits at a member?", "80, random"):
        assert words in text
    assert not re.findall(r"(?:src|href)=\"(?!#)|url\(http|@import|<script|<link", text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--sizes 50,x", "--sizes has '50,x'; write whole numbers"),
        ("--sizes 50,1", "members is 1; it must be from 2"),
        ("--policy eager,slow", "policy is 'slow'; it must be one of eager"),
        ("--fanout 30", "fanout is 30; it must be from 1 to 10"),
        ("--view some", "view is 'some'; it must be one of full, partial"),
        ("--rate nan", "rate_msg_round is nan"),
        ("--rounds 0", "measured_rounds is 0"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "epidemic", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert text in err


def test_a_page_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"--members 20 --rounds 1 --page {tmp_path}/no/such/page.html"
    assert main(["model", "epidemic", *line.split()]) == 2
    assert "page.html: No such file or directory" in capsys.readouterr().err
