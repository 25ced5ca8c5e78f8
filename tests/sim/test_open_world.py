"""Simulated open groups: processes come, go and come back, and everything promised is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from semcast.check import check_all
from semcast.journal import keys_in
from semcast.sim.scenario import Protocol, ProtocolScenario, load
from semcast.sim.surroundings import (
    Crash,
    Faults,
    Ideal,
    Join,
    Leave,
    Partition,
    Pause,
    ProcessFault,
    Restart,
)
from semcast.sim.traffic import Overwrites
from semcast.sim.world import Run, run

CHURN = Path(__file__).parents[2] / "examples" / "scenarios" / "churn.toml"
BOTH = pytest.mark.parametrize("reliability", ["group", "sender"])


def scenario(
    *processes: ProcessFault,
    members: int = 5,
    reliability: str = "group",
    duration_s: float = 6.0,
    readers: tuple[int, ...] = (),
    faults: Faults | None = None,
) -> ProtocolScenario:
    return ProtocolScenario(
        members=members,
        duration_s=duration_s,
        warm_up_s=0.0,
        senders=(0, 1),
        readers=readers,
        traffic=Overwrites(rate_msg_s=50.0),
        protocol=Protocol(membership="open", reliability=reliability),
        network=Ideal(),
        processes=processes,
        faults=faults or Faults(),
    )


def kept(one: ProtocolScenario) -> Run:
    """The run of a scenario, which came to rest and kept all promises."""
    outcome = run(one, 1)
    assert outcome.quiescent
    assert outcome.journal is not None
    report = check_all(outcome.journal)
    assert report.ok, str(report)
    assert outcome.membership is not None
    assert outcome.membership.outside == 0
    return outcome


def last_views(outcome: Run) -> set[tuple[str, ...]]:
    """The views that nodes which stayed went by at last."""
    assert outcome.journal is not None
    found = {
        one.node: tuple(keys_in(one.key or "")) for one in outcome.journal.select(event="view")
    }
    over = {one.node for one in outcome.journal if one.event in ("crash", "leave")}
    return {members for node, members in found.items() if node not in over}


@BOTH
def test_processes_that_nobody_counted_form_a_group(reliability: str) -> None:
    outcome = kept(scenario(reliability=reliability, duration_s=2.0))
    assert outcome.membership is not None
    assert outcome.membership.joins.count == 5
    assert all(node.delivered > 100 for node in outcome.nodes)


def test_all_go_by_one_view_of_those_who_stayed() -> None:
    faults = (Join(4, 1.0), Crash(2, 2.0), Leave(3, 3.0))
    outcome = kept(scenario(*faults))
    assert last_views(outcome) == {("p0.1", "p1.1", "p4.1")}
    assert outcome.membership is not None
    assert outcome.membership.detections.count == 2
    assert outcome.membership.undetected == 0


@BOTH
def test_a_process_that_restarts_gets_in_again(reliability: str) -> None:
    outcome = kept(scenario(Crash(2, 1.0), Restart(2, 1.2), reliability=reliability))
    nodes = {node.node: node for node in outcome.nodes}
    assert nodes["p2.2"].delivered > 0


def test_one_that_was_stopped_for_long_comes_back_by_itself() -> None:
    outcome = kept(scenario(Pause(2, 1.0, 4.0)))
    assert outcome.membership is not None
    assert outcome.membership.rejoins == 1
    assert last_views(outcome) == {("p0.1", "p1.1", "p2.2", "p3.1", "p4.1")}


def test_a_minority_that_was_cut_off_decides_nothing_and_comes_back() -> None:
    cut = Partition((3, 4), 1.0, 4.0)
    outcome = kept(scenario(faults=Faults(partitions=(cut,))))
    assert outcome.journal is not None
    alone = [one for one in outcome.journal.select(event="view") if one.node in ("p3.1", "p4.1")]
    assert all(one.time_ns < 1.0e9 or one.time_ns > 4.0e9 for one in alone)
    assert last_views(outcome) == {("p0.1", "p1.1", "p2.1", "p3.2", "p4.2")}


def test_one_who_does_not_hear_the_others_is_heard_by_them() -> None:
    """It hears nobody, but asks others through those who hear it: nobody need be put out."""
    cut = Partition((0, 1, 2), 1.0, 3.0, one_way=True)
    kept(scenario(faults=Faults(partitions=(cut,))))


def test_readers_come_and_go_without_a_view() -> None:
    faults = (Join(5, 1.0), Leave(4, 3.0))
    outcome = kept(scenario(*faults, members=6, readers=(4, 5)))
    nodes = {node.node: node for node in outcome.nodes}
    assert nodes["p5.1"].delivered > 0
    assert outcome.membership is not None
    assert outcome.membership.views is not None
    assert outcome.membership.views <= 4, "views of members only"


def test_a_newcomer_gets_what_stands_before_what_is_live() -> None:
    outcome = kept(scenario(Join(4, 3.0)))
    assert outcome.journal is not None
    events = [one.event for one in outcome.journal.select(node="p4.1")]
    assert "state" in events
    assert events.index("state") < events.index("deliver")


def test_many_who_come_at_once_share_a_view() -> None:
    """The 2,000 are in `bench/membership`."""
    one = scenario(members=100, duration_s=1.0)
    outcome = run(replace(one, senders=(0,), traffic=Overwrites(rate_msg_s=5.0)), 1, journal=False)
    assert outcome.membership is not None
    assert outcome.membership.views is not None
    assert outcome.membership.views <= 3
    assert outcome.membership.outside == 0


def test_the_same_seed_gives_the_same_run() -> None:
    one = scenario(Join(4, 0.5), Crash(2, 1.0), duration_s=2.0)
    first, second = (run(one, 3) for _ in range(2))
    assert first.journal is not None
    assert second.journal is not None
    assert first.journal.events == second.journal.events
    assert first.membership == second.membership


def test_the_example_of_churn_keeps_its_promises() -> None:
    one = load(CHURN, ["duration_s=16"])
    assert isinstance(one, ProtocolScenario)
    outcome = kept(one)
    assert outcome.membership is not None
    assert outcome.membership.rejoins >= 2
    assert outcome.membership.pauses.count > 10
