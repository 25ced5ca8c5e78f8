"""Whole groups that learn what to forget by each protocol, under faults, judged by the checkers."""

from dataclasses import replace

import pytest

from semcast.check import check_all
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.sim.exploring.cases import case
from semcast.sim.exploring.explore import judge
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Ideal, Pause, Restart
from semcast.sim.traffic import Overwrites
from semcast.sim.world import run

ROUNDS: list[str] = ["coordp", "fulldist", "train", "s_coordp", "s_train"]


def scenario(stability: str, **changes: object) -> ProtocolScenario:
    """Six members, three of whom send, for half a second; a tenth of all datagrams get lost."""
    protocol = Protocol(
        stability=stability,
        stability_branching=2,
        window_messages=16,
        delivery_messages=16,
        gossip_period_ms=5.0,
        f=2,
    )
    base = ProtocolScenario(
        members=6,
        seed=7,
        duration_s=0.5,
        warm_up_s=0.0,
        drain_s=30.0,
        senders=(0, 1, 5),
        traffic=Overwrites("overwrites", 200.0, "constant", 64, 0.5, 3),
        protocol=protocol,
        network=Ideal(latency_us=200.0),
        faults=Faults(loss=0.1, duplicate=0.1, reorder=0.1),
        detection_ms=20.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def assert_kept(case_: ProtocolScenario) -> None:
    verdict = judge(case_)
    assert verdict.broken == {}
    assert verdict.events > 1000


def test_every_protocol_is_tested() -> None:
    assert {"gossip", *ROUNDS} == set(STABILITY_PROTOCOLS)


@pytest.mark.parametrize("stability", ROUNDS)
def test_everything_becomes_stable_and_nothing_too_early_under_loss(stability: str) -> None:
    assert_kept(scenario(stability))


@pytest.mark.parametrize("stability", ROUNDS)
@pytest.mark.parametrize("member", [0, 1])
def test_a_coordinator_or_inner_member_that_crashes_is_done_without(
    stability: str, member: int
) -> None:
    assert_kept(scenario(stability, processes=(Crash(member, 0.2),)))


@pytest.mark.parametrize("stability", ROUNDS)
def test_a_coordinator_that_comes_back_without_memory_misses_nothing(stability: str) -> None:
    again = (Crash(0, 0.15), Restart(0, 0.25), Crash(3, 0.2), Restart(3, 0.22))
    assert_kept(scenario(stability, processes=again))


@pytest.mark.parametrize("stability", ROUNDS)
def test_somebody_who_stands_still_is_waited_for(stability: str) -> None:
    held = (Pause(0, 0.1, 0.2), Pause(2, 0.25, 0.15))
    outcome = run(scenario(stability, processes=held), 7)
    assert outcome.quiescent
    assert outcome.journal is not None
    assert not check_all(outcome.journal).violations


@pytest.mark.parametrize("stability", ROUNDS)
def test_the_refinements_change_nothing_but_the_traffic(stability: str) -> None:
    """STAB §7: only what changed, and on datagrams that go anyway. A fixed period, too."""
    plain = scenario(stability)
    protocol = replace(plain.protocol, stability_delta=True, stability_ride_ms=2.0)
    assert_kept(replace(plain, protocol=protocol))
    assert_kept(replace(plain, protocol=replace(plain.protocol, stability_period_ms=10.0)))


@pytest.mark.parametrize("stability", ROUNDS)
def test_a_sender_reliable_group_can_choose_it_too(stability: str) -> None:
    plain = scenario(stability)
    assert_kept(replace(plain, protocol=replace(plain.protocol, reliability="sender")))


@pytest.mark.parametrize("stability", ROUNDS)
def test_the_same_seed_gives_the_same_journal(stability: str) -> None:
    found = [list(run(scenario(stability), 3).journal or ()) for _ in range(2)]
    assert found[0] == found[1]


def test_the_explorer_draws_measured_trees_too() -> None:
    drawn = [case(seed, "s_coordp").protocol.stability_tree for seed in range(1, 120)]
    assert set(drawn) == {"filled", "measured"}


def test_the_explorer_draws_every_protocol() -> None:
    drawn = {case(seed).protocol.stability for seed in range(1, 120)}
    assert drawn == set(STABILITY_PROTOCOLS)
