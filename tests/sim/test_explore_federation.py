"""The explorer's cases of federations: drawn from a seed alone, judged, shrunk and replayed."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest
from tests.sim.orders import order_faults

from semcast.sim.exploring.explore import FEDERATION, drawn, judge
from semcast.sim.exploring.federation_cases import SITES_MAX, SITES_MIN, federation_case
from semcast.sim.exploring.federation_judge import (
    comes_to_rest,
    may_rest,
    run_and_judge,
    simpler_steps,
)
from semcast.sim.exploring.rest_bound import REST
from semcast.sim.exploring.shrink import shrink, to_toml
from semcast.sim.propagation.federation_scenario import (
    Change,
    FederationScenario,
    FederationSettings,
    GroupOf,
    SiteFault,
    SiteRestart,
)
from semcast.sim.propagation.world import FederationWorld, run_federation
from semcast.sim.scenario import load
from semcast.sim.surroundings import Crash, Faults, Join, Leave, Pause, Slow

SEEDS = range(1, 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_case_of_the_two_phase_protocol_keeps_its_promises(seed: int) -> None:
    case = federation_case(seed, "two-phase")
    verdict = judge(case)
    assert verdict.broken == {}
    assert verdict.events > 0
    found = run_federation(case, case.seed, True)
    assert found.journal is not None
    assert order_faults(found.journal) == []


def calm_cases(protocol: str, count: int) -> list[FederationScenario]:
    """The first cases in which no site is hurt or changes its mind."""
    drawn = (federation_case(seed, protocol) for seed in range(1, 1000))
    calm = (one for one in drawn if not one.processes and one.federation.deliver_own)
    return list(islice(calm, count))


@pytest.mark.parametrize("protocol", ["propagation", "central"])
def test_a_federation_whose_sites_stay_keeps_its_promises(protocol: str) -> None:
    """With small queues, slow applications, loss, reordering and duplicates (PROP §3.2)."""
    for case in calm_cases(protocol, 8):
        assert judge(case).broken == {}, case.seed


def restless_cases(count: int) -> list[FederationScenario]:
    """The first cases in which sites are hurt or change their minds, and nobody is waited for.
    Sites that crash stay away: those that come back are not told yet what to roll back.
    """
    drawn = (one for one in map(federation_case, range(1, 1000)) if one.processes)
    drawn = (one for one in drawn if not any(isinstance(f, SiteRestart) for f in one.processes))
    wanted = (one for one in drawn if one.federation.recovery == "non-atomic")
    return list(islice((one for one in wanted if one.federation.protocol != "two-phase"), count))


def test_a_federation_whose_sites_come_and_go_keeps_its_promises() -> None:
    """With crashes, sites that stop, come, leave and change their groups (PROP §5.1, §5.2.1)."""
    for case in restless_cases(12):
        assert judge(case).broken == {}, case.seed


@pytest.mark.parametrize(
    "seed",
    [
        64, 251, 315, 387, 428, 535, 566, 715, 1234, 1279, 1582, 2452, 2609, 3398, 3781, 3913,
        4465, 5254, 5334, 5342, 5499, 6326, 6917, 7056, 7174, 7198, 7551, 31239, 32203, 60999,
    ],
)  # fmt: skip
def test_a_case_that_was_broken_once_keeps_its_promises(seed: int) -> None:
    """Sites that come while others are away, other managers meanwhile, and second crashes; parents
    that hear of another life of a child by others; newcomers that are put out before they are in;
    sites that leave by force, and that are heard again in the midst of a recovery; and one that
    stands still until the others rest without it.
    """
    assert judge(federation_case(seed)).broken == {}


def test_a_site_may_crash_again_soon_after_it_is_back() -> None:
    cases = [federation_case(seed) for seed in range(300)]
    crashed = [[one.member for one in case.processes if isinstance(one, Crash)] for case in cases]
    assert sum(len(set(one)) < len(one) for one in crashed) > 10


def test_the_settings_of_a_simpler_case_go_together() -> None:
    """Sites may be silent for at least twice as long as it takes them to say something."""
    for seed in range(1, 40):
        steps = [
            one["federation"] for one in simpler_steps(federation_case(seed)) if "federation" in one
        ]
        usual = FederationSettings()
        assert (usual.null_ms, usual.silence_ms) in {(one.null_ms, one.silence_ms) for one in steps}


def test_cases_have_everything_that_goes_wrong() -> None:
    cases = [federation_case(seed) for seed in range(300)]
    assert {one.sites for one in cases} == set(range(SITES_MIN, SITES_MAX + 1))
    kinds = {type(fault) for one in cases for fault in one.processes}
    assert kinds == {Join, Leave, Crash, SiteRestart, Pause, Slow, Change}
    protocols = [one.federation.protocol for one in cases]
    assert set(protocols) == {"propagation", "central", "two-phase"}
    assert protocols.count("propagation") > 180
    assert {one.federation.recovery for one in cases} == {"atomic", "non-atomic"}
    stores = [f.store for one in cases for f in one.processes if isinstance(f, SiteRestart)]
    assert set(stores) == {True, False}
    managers = [one for one in cases if any(f == Crash(0, f.at_s) for f in one.processes)]
    assert len(managers) > 30, "the manager is the first site"
    assert any(one.faults.partitions for one in cases)
    assert any(one.faults.loss and one.faults.reorder and one.faults.duplicate for one in cases)
    assert all(one.federation.window_messages <= 8 for one in cases)
    assert {1, 2, 3, 8} <= {one.federation.history_messages for one in cases}
    overlapping = [one for one in cases if _overlap(one)]
    assert len(overlapping) > 150
    resting = [one for one in cases if comes_to_rest(one)]
    assert len(resting) > 200, "in most cases nobody is waited for in vain"


def _overlap(scenario: FederationScenario) -> bool:
    groups = [set(group.sites) for group in scenario.groups]
    return any(first & second for at, first in enumerate(groups) for second in groups[at + 1 :])


def test_a_case_follows_from_its_seed_and_survives_a_file(tmp_path: Path) -> None:
    one = drawn(7, reliability=FEDERATION)
    assert one == federation_case(7) != federation_case(8)
    for seed in range(40):
        case = federation_case(seed)
        path = tmp_path / "case.toml"
        path.write_text(to_toml(case))
        assert load(path) == case


def test_a_federation_that_never_rests_is_a_broken_promise() -> None:
    """A site that stands still until after the end keeps everybody waiting."""
    case = federation_case(1, "two-phase")
    groups = (GroupOf("a", tuple(range(case.sites))),)
    case = replace(case, groups=groups, drain_s=0.3, duration_s=0.5, senders=(), to="own")
    stuck = replace(case, processes=(Pause(1, 0.1, 100.0),))
    assert REST in run_and_judge(stuck)[0]
    crashed = replace(case, processes=(Crash(1, 0.1),))
    assert not comes_to_rest(crashed), "PROP §5.2.3"
    assert REST not in run_and_judge(crashed)[0]


CRASHES = (Crash(1, 0.3), SiteRestart(1, 0.8), Crash(2, 2.0))


@pytest.mark.parametrize(
    ("recovery", "faults", "rests"),
    [
        # Of three sites two crash, but the first of them is in again when the second does so.
        ("non-atomic", CRASHES, True),
        ("non-atomic", (Crash(1, 0.3), Crash(2, 0.31)), False),
        ("non-atomic", (Crash(1, 0.3), SiteRestart(1, 0.35), Crash(2, 0.31)), False),
        ("non-atomic", (Crash(0, 0.3), Leave(1, 2.0, 2.0)), True),
        ("atomic", CRASHES, False),
        ("atomic", (Leave(1, 0.3, 2.0),), True),
        # It has no time to leave.
        ("atomic", (Leave(1, 0.3, 0.001),), False),
    ],
)
def test_rest_is_owed_if_enough_sites_of_each_opening_are_there(
    recovery: Literal["atomic", "non-atomic"], faults: tuple[SiteFault, ...], rests: bool
) -> None:
    """What a scenario says by itself is less: it does not know who is in again, or has left."""
    scenario = FederationScenario(
        sites=3,
        duration_s=3.0,
        drain_s=3.0,
        groups=(GroupOf("a", (0, 1, 2)), GroupOf("b", (1, 2))),
        federation=FederationSettings(recovery=recovery, null_ms=25.0, silence_ms=100.0),
        processes=faults,
    )
    assert not comes_to_rest(scenario)
    world = FederationWorld(scenario, 1)
    assert world.run().quiescent == rests
    assert may_rest(world) == rests


def test_a_case_is_shrunk_to_what_matters() -> None:
    cases = (federation_case(seed, "propagation") for seed in range(1, 500))
    case = next(one for one in cases if len(one.processes) > 3 and one.sites > 5)
    case = replace(case, faults=replace(case.faults, loss=0.2))
    found = shrink(case, lambda one: one.faults.loss > 0, lambda: True)
    assert found.processes == ()
    assert found.faults == Faults(loss=0.2)
    assert found.sites == 1
    assert len(found.groups) == 1


def test_a_bug_that_raises_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("of our own")

    monkeypatch.setattr("semcast.sim.exploring.federation_judge.run_and_judge", fails)
    assert "of our own" in judge(federation_case(1)).broken["Exception"]
