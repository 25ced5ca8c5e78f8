"""`semcast sim run` and `sim explore` of federations: keys, words, journals and what is refused."""

import json
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.journal import read_journal

EXAMPLE = str(Path(__file__).parents[2] / "examples/scenarios/federation.toml")
SMALL = [
    part
    for change in ("sites=8", "duration_s=1", "random_groups.number=3", "random_groups.size=3")
    for part in ("--set", change)
]
KEYS = [
    "model", "seed", "sites_count", "groups", "protocol", "recovery", "sent", "delivered", "purged",
    "skipped", "undone", "messages_per_multicast", "transmissions_per_multicast",
    "datagrams_per_multicast", "delay_mean_ms", "delay_p50_ms", "delay_p99_ms", "delay_max_ms",
    "load_mean", "load_max", "blocked_share_max", "sites", "quiescent", "ended_s", "rested_s",
    "events", "journal_file", "checked", "violations",
]  # fmt: skip


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("protocol", ["propagation", "two-phase", "central"])
def test_its_keys_are_stable(capsys: pytest.CaptureFixture[str], protocol: str) -> None:
    chosen = ["--set", f"federation.protocol={protocol}"]
    found = json.loads(output(capsys, "run", EXAMPLE, *SMALL, *chosen, "--json"))
    assert list(found) == KEYS
    assert found["protocol"] == protocol
    assert found["violations"] == []
    assert found["quiescent"]
    assert len(found["groups"]) == 3


def test_people_get_a_table_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(output(capsys, "run", EXAMPLE, *SMALL).split())
    assert "messages for each multicast (N)" in out
    assert "Checked, and kept:" in out
    assert "Multiple Group Order" in out
    assert "Nothing was checked" in output(capsys, "run", EXAMPLE, *SMALL, "--no-check")


def test_its_journal_is_written_and_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output(capsys, "run", EXAMPLE, *SMALL, "--journal", str(tmp_path))
    journal = read_journal(tmp_path)
    assert journal.header.reliability == "federation"
    assert {event.group for event in journal.select(event="deliver")} == {"g0", "g1", "g2"}


def test_what_makes_no_sense_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", EXAMPLE, "--set", "federation.protocol=votes"]) == 2
    assert "'two-phase'" in capsys.readouterr().err
    assert main(["sim", "run", EXAMPLE, "--set", "random_groups.size=21"]) == 2
    assert "size is 21, but there are only 20 sites" in capsys.readouterr().err
    explore = ["sim", "explore", "--reliability", "federation", "--membership", "open"]
    assert main(explore) == 2
    assert "leave them out" in capsys.readouterr().err


def test_a_case_is_replayed_by_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "replay", "12", "--reliability", "federation", "--json"))
    assert found["seed"] == 12
    assert found["violations"] == []
