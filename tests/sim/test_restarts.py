"""A hundred restarts of a sender under traffic: the group comes to rest, keeps every promise, and
keeps nothing of the lives that are over.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from semcast.check import check_all
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.sim import scenario as sc
from semcast.sim import surroundings as around
from semcast.sim.exploring.explore import judge
from semcast.sim.traffic import Overwrites
from semcast.sim.world import World

EXAMPLE = Path(__file__).parents[2] / "examples/scenarios/restarts.toml"
TIMES = 100
# Of each member a group may hold some streams: that of its life, and of former ones that somebody
# still lacks a part of.
SOURCES_PER_MEMBER = 3
OFTEN = around.Restarts(member=0, at_s=0.2, every_s=0.06, down_s=0.01, times=TIMES)
GROUP = sc.ProtocolScenario(
    members=3,
    duration_s=7.0,
    warm_up_s=0.0,
    drain_s=30.0,
    senders=(0, 1),
    traffic=Overwrites(rate_msg_s=100.0, r=0.5, d=5),
    protocol=sc.Protocol(
        window_messages=32, delivery_messages=32, gossip_period_ms=10.0, nak_delay_ms=1.0
    ),
    network=around.Ideal(),
    faults=around.Faults(loss=0.05),
    processes=(OFTEN,),
)


def restarted(scenario: sc.ProtocolScenario) -> World:
    """The world after a run that came to rest and kept every promise."""
    world = World(scenario, 1, True, "restarts")
    run = world.run()
    assert run.quiescent, "never at rest"
    assert world.journal is not None
    report = check_all(world.journal)
    assert report.ok, str(report)
    return world


def sources_held(world: World) -> list[int]:
    """Of how many streams each member keeps anything, once all is at rest."""
    lives = [process.life for process in world._processes if process.life is not None]
    return [life.member.stats()["sources_held"] for life in lives if life.member is not None]


@pytest.mark.parametrize("stability", STABILITY_PROTOCOLS)
@pytest.mark.parametrize("reliability", ["sender", "group"])
def test_a_hundred_restarts_of_a_sender_leave_nothing_behind(
    reliability: Literal["sender", "group"], stability: str
) -> None:
    protocol = replace(GROUP.protocol, reliability=reliability, stability=stability)
    world = restarted(replace(GROUP, protocol=protocol))
    assert max(sources_held(world)) <= SOURCES_PER_MEMBER * GROUP.members


@pytest.mark.parametrize("times", [10, 40])
def test_what_is_held_does_not_grow_with_the_number_of_restarts(times: int) -> None:
    world = restarted(replace(GROUP, processes=(replace(OFTEN, times=times),)))
    assert max(sources_held(world)) <= SOURCES_PER_MEMBER * GROUP.members


def test_those_who_live_all_along_get_what_every_life_sent() -> None:
    """Without loss, and with time for a message to get away, no life is lost on anybody."""
    world = restarted(replace(GROUP, faults=around.Faults()))
    assert world.journal is not None
    events = list(world.journal.events)
    lives = {event.sender for event in events if event.event == "multicast"} - {"p1.1"}
    got = {event.sender for event in events if event.event == "deliver" and event.node == "p2.1"}
    assert len(lives) > TIMES * 0.9
    assert lives <= got


@pytest.mark.parametrize(
    ("every_s", "down_s"),
    [(0.008, 0.002), (0.06, 0.055), (0.012, 0.009)],
    ids=["within a gossip period", "hardly ever there", "about a period"],
)
def test_however_quickly_it_comes_back(every_s: float, down_s: float) -> None:
    often = replace(OFTEN, every_s=every_s, down_s=down_s)
    world = restarted(replace(GROUP, processes=(often,)))
    assert max(sources_held(world)) <= SOURCES_PER_MEMBER * GROUP.members


@pytest.mark.parametrize("held_ms", [100.0, 2000.0], ids=["a life or two", "many lives"])
def test_datagrams_of_former_lives_that_come_late_do_no_harm(held_ms: float) -> None:
    """No promise rests on how long a datagram may be on its way."""
    faults = around.Faults(loss=0.05, reorder=0.1, reorder_ms=held_ms)
    faults = replace(faults, duplicate=0.2, duplicate_ms=held_ms)
    assert judge(replace(GROUP, faults=faults)).broken == {}


def test_the_example_comes_to_rest_and_keeps_its_promises() -> None:
    scenario = sc.load(EXAMPLE)
    assert isinstance(scenario, sc.ProtocolScenario)
    assert scenario.processes == (around.Restarts(0, 2.0, 0.5, 0.1, TIMES),)
    assert judge(scenario).broken == {}
