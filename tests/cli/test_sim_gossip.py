"""`semcast sim run` of a group that gossips: its keys, its words, and every way to get it wrong."""

import json
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.epidemic.search import largest_rate
from semcast.sim.scenario import load

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
PSRM = str(EXAMPLES / "psrm.toml")
LARGEST = str(EXAMPLES / "psrm-largest-rate.toml")
SMALL = [
    part
    for change in (
        "members=8", "duration_s=3", "warm_up_s=0.5", "cool_down_s=0.5", "traffic.rate_msg_s=40",
        "network.bandwidth_mbit_s=0.4",
    )
    for part in ("--set", change)
]  # fmt: skip
KEYS = [
    "model", "seed", "members", "policy", "scope", "composition", "buffer_messages", "rate_msg_s",
    "sent", "never_obsolete", "atomic_share", "atomic_share_low", "atomic_share_high",
    "atomic_share_all", "receivers_mean", "receivers_cv", "latency_mean_ms", "latency_p50_ms",
    "latency_p99_ms", "latency_last_ms", "copies_per_delivery", "purged", "dropped", "skipped",
    "missed", "copies_sent", "events", "journal_file", "checked", "violations",
]  # fmt: skip


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", "run", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", "run", *arguments]) == 2
    return capsys.readouterr().err


def test_its_keys_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, PSRM, *SMALL, "--json"))
    assert list(found) == KEYS
    assert found["policy"] == "eager"
    assert found["checked"] is None, "only if it is asked for"


def test_each_place_and_reason_has_its_count(capsys: pytest.CaptureFixture[str]) -> None:
    link = ["--set", "gossip.scope=link", "--set", "gossip.policy=age"]
    found = json.loads(output(capsys, PSRM, *SMALL, *link, "--json"))
    assert found["dropped"].keys() == {"link", "delivery"}
    assert found["dropped"]["link"].keys() == {"age"}
    assert found["purged"]["link"] == {"replaced": 0, "late": 0}


def test_it_is_checked_and_its_journal_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    journal = ["--journal", str(tmp_path), "--check", "--json"]
    found = json.loads(output(capsys, PSRM, *SMALL, *journal))
    assert found["violations"] == []
    assert list(found["checked"]) == ["Integrity", "Accounting", "Relaying"]
    assert Path(found["journal_file"]).exists()


def test_people_read_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(output(capsys, PSRM, *SMALL, "--check").split())
    assert "never obsolete, and atomic" in words
    assert "Checked, and kept: Integrity, Accounting, Relaying." in words


def test_the_largest_rate_is_searched_for(capsys: pytest.CaptureFixture[str]) -> None:
    search = ["--set", "search.high_msg_s=60", "--set", "search.within_msg_s=30"]
    found = json.loads(output(capsys, LARGEST, *SMALL, *search, "--json"))
    assert found["tried"]
    words = " ".join(output(capsys, LARGEST, *SMALL, *search).split())
    assert "messages/s" in words


def test_a_search_says_how_far_it_is_from_its_first_run_on() -> None:
    changes = [*SMALL[1::2], "search.high_msg_s=60", "search.within_msg_s=30"]
    scenario = load(Path(LARGEST), changes)
    assert isinstance(scenario, GossipScenario)
    shares: list[float] = []
    found = largest_rate(scenario, 1, shares.append)
    assert len(shares) > len(found.tried)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.2
    assert shares[-1] <= 1


def test_what_cannot_be_asked_for_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "keeps no journal" in refusal(capsys, LARGEST, *SMALL, "--check")
    assert "policy" in refusal(capsys, PSRM, "--set", "gossip.policy=none")
    assert "--protocol" in refusal(capsys, PSRM, "--protocol", "coordp")
