"""The explorer: cases follow from their seeds, are judged, shrunk, and replayed from a file."""

import json
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.sim import explore
from semcast.sim.cases import case
from semcast.sim.explore import Verdict, judge
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.shrink import shrink, to_toml

BOUNDED = range(1, 25)


@pytest.mark.parametrize("seed", BOUNDED)
def test_whatever_goes_wrong_the_promises_are_kept(seed: int) -> None:
    """Safety all along, liveness after faults have healed. SRM Figures 2 and 3"""
    broken = judge(case(seed)).broken
    assert broken == {}, f"replay: semcast sim explore --seed {seed} --seconds 1"


def test_the_bounded_cases_are_worth_running() -> None:
    """Between them they have crashes, restarts, partitions, slow readers and both reliabilities."""
    cases = [case(seed) for seed in BOUNDED]
    kinds = {fault.kind for one in cases for fault in one.processes}
    assert {"crash", "restart", "pause"} <= kinds
    assert {one.protocol.reliability for one in cases} == {"sender", "group"}
    assert any(one.faults.partitions for one in cases)
    assert any(one.faults.corrupt for one in cases)
    assert any(one.consumers for one in cases)


@pytest.mark.parametrize("seed", range(200))
def test_crashes_stay_within_what_is_promised(seed: int) -> None:
    drawn = case(seed)
    crashes = sum(fault.kind == "crash" for fault in drawn.processes)
    if drawn.protocol.reliability == "group":
        assert crashes <= drawn.protocol.f


def test_a_case_follows_from_its_seed_alone() -> None:
    assert case(7) == case(7)
    assert judge(case(7)) == judge(case(7))


@pytest.mark.parametrize("seed", range(40))
def test_a_case_comes_back_from_its_file(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(to_toml(case(seed)))
    assert load(path) == case(seed)


def test_a_failure_is_shrunk_to_what_matters() -> None:
    """A pretended bug shows whenever datagrams are lost among three members or more."""

    def fails(scenario: ProtocolScenario) -> bool:
        return scenario.faults.loss > 0 and scenario.members >= 3

    seed = next(seed for seed in range(99) if fails(case(seed)))
    small = shrink(case(seed), fails, lambda: True)
    assert small.members == 3
    assert small.processes == ()
    assert small.consumers == ()
    assert small.faults.loss > 0
    assert small.faults.partitions == ()


def test_a_failure_is_written_with_its_replay_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explore, "judge", lambda _: Verdict({"Agreement": "it broke"}))
    assert main(["sim", "explore", "--seconds", "1", "--out", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["violations"] == ["it broke"]
    path = told["replay"].split()[-1]
    assert isinstance(load(Path(path)), ProtocolScenario)


def test_time_that_is_up_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "explore", "--seconds", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] >= 1


def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "explore", "--seconds", "0"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("semcast: ")
    assert complaint.count("\n") == 1
