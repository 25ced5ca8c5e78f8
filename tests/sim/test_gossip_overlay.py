"""Simulated gossip with partial views, repair and the tree, while processes come and go; and what
applications are told of gaps.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from semcast.check import check_safety
from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.sim.epidemic.gaps import Gaps
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.scenario import load
from semcast.sim.surroundings import Crash, Faults, Ideal, Join, Leave, Restart
from semcast.sim.traffic import Chains
from semcast.wire.message import Message

SECOND_NS = 1_000_000_000
PARTIAL = GossipSettings(
    views="partial", form_s=0.5, repair="pull", rounds=16, buffer_messages=64, patience_s=3.0
)
GROUP = GossipScenario(
    members=14,
    duration_s=7.0,
    warm_up_s=2.0,
    cool_down_s=2.5,
    traffic=Chains(rate_msg_s=8.0, ratio=0.0),
    network=Ideal(latency_us=5_000),
    faults=Faults(loss=0.1),
    gossip=PARTIAL,
)


def world_of(scenario: GossipScenario, seed: int = 1) -> GossipWorld:
    return GossipWorld(scenario, seed, journal=True)


def assert_kept(world: GossipWorld) -> None:
    assert world.journal is not None
    report = check_safety(world.journal)
    assert report.ok, str(report)
    assert sum(int(node.refused) for node in world.nodes) == 0


# -- partial views ---------------------------------------------------------------------------------


def test_with_repair_messages_reach_almost_everybody_over_partial_views() -> None:
    world = world_of(GROUP)
    outcome = world.run()
    assert_kept(world)
    assert outcome.sent > 10
    assert outcome.receivers_mean is not None
    assert outcome.receivers_mean > 0.97 * GROUP.members
    overlays = [world.attendance.overlay(number) for number in world.attendance.living()]
    assert all(one is not None and 1 <= len(one.neighbours()) <= 5 for one in overlays)


def test_the_tree_sends_fewer_copies() -> None:
    flood = world_of(GROUP).run()
    world = world_of(replace(GROUP, gossip=replace(PARTIAL, tree=True)))
    tree = world.run()
    assert_kept(world)
    assert tree.receivers_mean is not None
    assert tree.receivers_mean > 0.97 * GROUP.members
    assert flood.copies_per_delivery is not None
    assert tree.copies_per_delivery is not None
    assert tree.copies_per_delivery < 0.7 * flood.copies_per_delivery


def test_repair_works_with_full_views_too() -> None:
    lossy = replace(GROUP, faults=Faults(loss=0.4))
    settings = GossipSettings(fanout=2, rounds=4, patience_s=5.0)
    shares = []
    for repair in ("none", "pull"):
        world = world_of(replace(lossy, gossip=replace(settings, repair=repair)))
        outcome = world.run()
        assert_kept(world)
        shares.append(outcome.receivers_mean or 0.0)
    assert shares[0] < shares[1]


def test_what_was_purged_before_it_came_is_told_as_skipped_and_not_as_missed() -> None:
    """Whoever hears of the cover of a message tells others, who hear of nobody that had it."""
    traffic = Chains(rate_msg_s=30.0, ratio=0.8, diversity=3, length=30)
    narrow = replace(PARTIAL, buffer_messages=8, link_kbit_s=12.0, patience_s=5.0)
    world = world_of(
        replace(GROUP, duration_s=12.0, traffic=traffic, faults=Faults(loss=0.02), gossip=narrow)
    )
    outcome = world.run()
    assert_kept(world)
    assert outcome.purged["relay"]["replaced"] > 500
    assert outcome.skipped > 200
    assert outcome.missed < outcome.skipped / 10


@pytest.mark.parametrize("views", ["full", "partial"])
def test_an_optimistic_multicast_is_one_copy_and_repair_brings_the_rest(
    views: Literal["full", "partial"],
) -> None:
    """PSRM §2.1: one multicast first, and gossip by asking for what was missed."""
    settings = replace(PARTIAL, views=views, optimistic=True)
    world = world_of(replace(GROUP, gossip=settings))
    outcome = world.run()
    assert_kept(world)
    assert world.journal is not None
    relays = [event for event in world.journal if event.event == "relay"]
    assert len(relays) == sum(event.event == "multicast" for event in world.journal) > 10
    assert {event.node for event in relays if event.node != event.sender} == set()
    assert outcome.receivers_mean is not None
    assert outcome.receivers_mean > 0.97 * GROUP.members


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = world_of(GROUP, 5), world_of(GROUP, 5)
    assert one.run() == other.run()
    assert one.journal is not None
    assert other.journal is not None
    assert list(one.journal) == list(other.journal)
    assert world_of(GROUP, 6).run() != one.outcome()


@pytest.mark.parametrize("views", ["full", "partial"])
def test_processes_come_and_go(views: Literal["full", "partial"]) -> None:
    faults = (
        Join(13, 3.0),
        Crash(3, 2.5),
        Restart(3, 4.0),
        Crash(4, 2.5),
        Leave(5, 3.0),
    )
    settings = replace(PARTIAL, views=views, fanout=5)
    world = world_of(replace(GROUP, gossip=settings, processes=faults, faults=Faults()))
    world.run()
    assert_kept(world)
    assert world.attendance.living() == [0, 1, 2, 3, *range(6, 14)]
    assert world.journal is not None
    by_node: dict[str, int] = {}
    for event in world.journal:
        if event.event == "deliver" and event.sender != event.node:
            by_node[event.node] = by_node.get(event.node, 0) + 1
    assert by_node["p13.1"] > 0
    assert by_node["p3.2"] > 0
    assert 0 < by_node["p4.1"] < by_node["p0.1"]


def test_a_tree_needs_partial_views_and_repair() -> None:
    with pytest.raises(ConfigError, match="tree is true with views 'full'"):
        GossipSettings(tree=True, repair="pull")
    with pytest.raises(ConfigError, match="repair 'none'"):
        GossipSettings(tree=True, views="partial")


def test_an_optimistic_multicast_needs_repair_and_no_tree() -> None:
    with pytest.raises(ConfigError, match="optimistic is true with tree False and repair 'none'"):
        GossipSettings(optimistic=True)
    with pytest.raises(ConfigError, match="no tree carries anything"):
        GossipSettings(optimistic=True, tree=True, views="partial", repair="pull")


def test_processes_name_members_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"processes\[0\] names member 14"):
        replace(GROUP, processes=(Crash(14, 1.0),))


def test_the_example_is_one_of_partial_views() -> None:
    folder = Path(__file__).parents[2] / "examples" / "scenarios"
    found = load(folder / "gossip-overlay.toml")
    assert isinstance(found, GossipScenario)
    assert found.gossip.partial
    assert found.gossip.repair == "pull"


# -- gaps ------------------------------------------------------------------------------------------


def message(seq: int, skipped: tuple[int, ...] = ()) -> Message:
    one = Message(Source(1, 1), seq, b"x", 0, 0, 0, False, 0, False, False)
    one.skipped = skipped
    return one


def told(*taken: tuple[Message, float], joining: bool = False) -> list[str]:
    gaps = Gaps("p0.1", joining, SECOND_NS)
    for one, at_s in taken:
        gaps.took(one, round(at_s * SECOND_NS))
    return gaps.faults


def test_a_number_that_is_told_or_may_still_come_is_no_fault() -> None:
    assert told((message(1), 0), (message(3), 0.1), (message(4), 0.9)) == []
    assert told((message(1), 0), (message(3, (2,)), 0.1)) == []
    assert told((message(20), 0), (message(21), 5), (message(22), 9), joining=True) == []


def test_what_is_hidden_or_told_wrongly_is_a_fault() -> None:
    late = told((message(1), 0), (message(3), 0.1), (message(4), 1.0), (message(5), 2.5))
    assert "nothing was told of 2" in late[0]
    assert "is taken twice" in told((message(1), 0), (message(1), 1))[0]
    assert "had it" in told((message(1), 0), (message(2, (1,)), 1))[0]
    assert "told twice" in told((message(2, (1,)), 0), (message(3, (1,)), 1))[0]
    assert "would not come" in told((message(2, (1,)), 0), (message(1), 1))[0]
    assert "nothing was told of 1" in told((message(20), 0), (message(21), 5), (message(22), 9))[0]
