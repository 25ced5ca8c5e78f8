"""The explorer's cases of groups that gossip: drawn from a seed alone, judged, and replayed."""

from dataclasses import replace
from pathlib import Path

import pytest

from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.exploring.explore import GOSSIP, drawn, explore, judge
from semcast.sim.exploring.gossip_cases import MEMBERS_MAX, MEMBERS_MIN, gossip_case
from semcast.sim.exploring.shrink import shrink, to_toml
from semcast.sim.scenario import load
from semcast.sim.surroundings import Crash, Faults, Join, Leave, Restart

SEEDS = range(1, 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_case_keeps_what_gossip_promises(seed: int) -> None:
    verdict = judge(gossip_case(seed))
    assert verdict.broken == {}
    assert verdict.events > 0


def test_cases_have_everything_that_goes_wrong() -> None:
    cases = [gossip_case(seed) for seed in range(200)]
    assert {one.members for one in cases} == set(range(MEMBERS_MIN, MEMBERS_MAX + 1))
    kinds = {type(fault) for one in cases for fault in one.processes}
    assert kinds == {Join, Leave, Crash, Restart}
    assert any(one.faults.partitions for one in cases)
    assert any(one.faults.loss for one in cases)
    for views in ("full", "partial"):
        of_views = [one.gossip for one in cases if one.gossip.views == views]
        assert {one.repair for one in of_views} == {"none", "pull"}
    assert any(one.gossip.tree for one in cases)
    assert {one.gossip.views for one in cases if one.gossip.optimistic} == {"full", "partial"}


def test_a_case_follows_from_its_seed_and_survives_a_file(tmp_path: Path) -> None:
    one = drawn(7, reliability=GOSSIP)
    assert one == gossip_case(7) != gossip_case(8)
    path = tmp_path / "case.toml"
    path.write_text(to_toml(one))
    assert load(path) == one
    assert judge(load_gossip(path)) == judge(one)


def load_gossip(path: Path) -> GossipScenario:
    found = load(path)
    assert isinstance(found, GossipScenario)
    return found


def test_explore_goes_on_from_a_seed() -> None:
    times = iter(range(100))
    done = explore(2.5, 3, clock=lambda: float(next(times)), reliability=GOSSIP)
    assert done.cases == 3
    assert done.failure is None


def test_a_case_is_shrunk_to_what_matters() -> None:
    case = next(one for one in map(gossip_case, range(1, 500)) if len(one.processes) > 3)
    case = replace(case, faults=replace(case.faults, loss=0.3))
    found = shrink(case, lambda one: one.faults.loss > 0, lambda: True)
    assert found.processes == ()
    assert found.faults == Faults(loss=0.3)
    assert found.members == 2


def test_a_bug_that_raises_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("of our own")

    monkeypatch.setattr("semcast.sim.exploring.explore.run_and_judge", fails)
    assert "of our own" in judge(gossip_case(1)).broken["Exception"]
