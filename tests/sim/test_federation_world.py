"""Federations simulated: the same seed gives the same run, what is counted is what happened, and
what a scenario cannot mean is refused.
"""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sim.orders import deliveries, order_faults

from semcast.errors import ConfigError, InputError
from semcast.pipeline.sweeping.cells import Cell
from semcast.pipeline.sweeping.simulate import simulate
from semcast.sim.network import Medium, Receiver
from semcast.sim.propagation.federation_scenario import (
    Change,
    FederationScenario,
    FederationSettings,
    GroupOf,
    RandomGroups,
    SiteRestart,
)
from semcast.sim.propagation.world import FederationWorld, run_federation
from semcast.sim.scenario import load, parse
from semcast.sim.scheduler import Scheduler
from semcast.sim.surroundings import Consumer, Crash, Faults, Ideal, Join, Leave, Pause
from semcast.sim.traffic import Chains, Overwrites

TWO_PHASE = FederationSettings(protocol="two-phase")
# Three groups in a row, each of which shares a site with the next.
ROW = FederationScenario(
    sites=6,
    duration_s=1.0,
    groups=(GroupOf("a", (0, 1, 2)), GroupOf("b", (2, 3)), GroupOf("c", (3, 4, 1))),
    to="any",
    traffic=Overwrites(rate_msg_s=40.0, r=0.5, d=2),
    federation=TWO_PHASE,
    faults=Faults(loss=0.1, jitter_ms=3.0, duplicate=0.1, reorder=0.1),
)
EXAMPLE = Path(__file__).parents[2] / "examples/scenarios/federation.toml"


# -- runs ------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = run_federation(ROW, 3, True), run_federation(ROW, 3, True)
    assert first.journal is not None
    assert second.journal is not None
    assert list(first.journal) == list(second.journal)
    assert first.outcome == second.outcome
    assert run_federation(ROW, 4).outcome != first.outcome


@pytest.mark.parametrize("seed", range(1, 6))
def test_all_sites_deliver_in_one_order(seed: int) -> None:
    """PROP §1, property c, and that all orders together have no cycle."""
    found = run_federation(ROW, seed, True)
    assert found.journal is not None
    assert order_faults(found.journal) == []
    assert found.outcome.quiescent
    taken = deliveries(found.journal)
    assert set(taken) == {"p0.1", "p1.1", "p2.1", "p3.1", "p4.1"}, "the last is in no group"
    assert found.outcome.delivered == sum(map(len, taken.values()))


def test_every_message_is_taken_or_replaced_at_every_member() -> None:
    found = run_federation(replace(ROW, consumers=(Consumer((1,), 40.0),)), 1, True)
    outcome = found.outcome
    members = {"a": 3, "b": 2, "c": 3}
    world = FederationWorld(ROW, 1)
    assert {name: len(sites) for name, sites in world.groups.items()} == members
    assert outcome.purged
    assert outcome.delivered + sum(outcome.purged.values()) >= 2 * outcome.sent
    assert outcome.delivered + sum(outcome.purged.values()) <= 3 * outcome.sent


def test_a_slow_consumer_with_small_queues_holds_senders_up() -> None:
    settings = replace(TWO_PHASE, window_messages=2, delivery_messages=2, purging=False)
    calm = replace(ROW, federation=settings, faults=Faults())
    slow = replace(calm, consumers=(Consumer((1,), 50.0),))
    assert run_federation(calm, 1).outcome.blocked_share_max < 0.2
    assert run_federation(slow, 1).outcome.blocked_share_max > 0.5


def test_what_is_sent_again_is_not_counted_twice() -> None:
    """N is about messages of the protocol, not about what a lossy network costs (PROP §4)."""
    lossy = replace(ROW, federation=replace(TWO_PHASE, purging=False))
    calm = replace(lossy, faults=Faults())
    first, second = run_federation(lossy, 1).outcome, run_federation(calm, 1).outcome
    assert first.messages_per_multicast == second.messages_per_multicast
    assert first.datagrams_per_multicast is not None
    assert second.datagrams_per_multicast is not None
    assert first.datagrams_per_multicast > second.datagrams_per_multicast


def test_a_paused_site_holds_its_groups_up_and_then_goes_on() -> None:
    paused = replace(ROW, processes=(Pause(3, 0.2, 0.5),), socket_datagrams=4)
    found = run_federation(paused, 1, True)
    assert found.outcome.quiescent
    assert found.journal is not None
    assert order_faults(found.journal) == []
    assert found.outcome.delay_max_ms is not None
    assert found.outcome.delay_max_ms > 400


def test_a_crash_blocks_the_two_phase_protocol() -> None:
    """PROP §5.2.3: it blocks under the same conditions as two-phase commit."""
    found = run_federation(replace(ROW, drain_s=5.0, processes=(Crash(2, 0.3),)), 1)
    assert not found.outcome.quiescent


def test_groups_are_drawn_from_the_seed_of_a_run() -> None:
    scenario = replace(ROW, groups=(), random_groups=RandomGroups(20, 3))
    groups = scenario.groups_of_run(1)
    assert groups == scenario.groups_of_run(1) != scenario.groups_of_run(2)
    assert [len(sites) for sites in groups.values()] == [3] * 20
    sizes = RandomGroups(200, 3, "exponential").draw(40, random.Random(1)).values()
    assert 2 < sum(map(len, sizes)) / 200 < 4.5
    assert len({len(sites) for sites in sizes}) > 5


def test_sites_send_to_the_groups_that_the_scenario_says() -> None:
    for to, wanted in (("own", True), ("others", False)):
        scenario = parse({**_table(ROW), "to": to}, "here")
        assert isinstance(scenario, FederationScenario)
        world = FederationWorld(scenario, 1, journal=True)
        for site in range(6):
            targets = world._targets(site)
            assert all((site in world.groups[name]) == wanted for name in targets)


def _table(scenario: FederationScenario) -> dict[str, Any]:
    return {
        "model": "federation",
        "sites": scenario.sites,
        "groups": [{"name": one.name, "sites": list(one.sites)} for one in scenario.groups],
    }


# -- the medium ------------------------------------------------------------------------------------


class Ear(Receiver):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.heard: list[tuple[int, bytes]] = []

    def arrive(self, from_node: int, packet: bytes) -> None:  # noqa: ARG002
        self.heard.append((int(self.scheduler.now_ns), packet))


def test_a_medium_carries_one_transmission_at_a_time() -> None:
    """What goes to several nodes at one instant is one transmission (PROP §4.2)."""
    scheduler = Scheduler()
    medium = Medium(scheduler, 3, 100)
    ears = [Ear(scheduler) for _ in range(3)]
    for node, ear in enumerate(ears):
        medium.attach(node, ear)
    medium.send(0, 1, 10, b"first")
    medium.send(0, 2, 10, b"first")
    medium.send(1, 2, 10, b"other")
    medium.send(0, 1, 10, b"second")
    scheduler.run(1000)
    assert ears[1].heard == [(100, b"first"), (300, b"second")]
    assert ears[2].heard == [(100, b"first"), (200, b"other")]
    assert medium.transmissions == 3


# -- scenarios -------------------------------------------------------------------------------------


def test_the_example_is_run_by_every_means() -> None:
    scenario = load(EXAMPLE, ["federation.protocol=two-phase", "duration_s=1.0"])
    assert isinstance(scenario, FederationScenario)
    outcome = run_federation(scenario, 1).outcome
    assert outcome.quiescent
    assert outcome.messages_per_multicast == pytest.approx(14, abs=1.5)


def test_a_cell_of_a_sweep_has_the_measures_of_a_federation() -> None:
    table = {
        **_table(ROW),
        "duration_s": 0.5,
        "federation": {"protocol": "two-phase"},
        "traffic": {"kind": "overwrites", "rate_msg_s": 20.0},
    }
    cell = Cell("c", "p", (), 1, json.dumps(table), False)
    row = simulate(cell)
    assert row["status"] == "ok", row["detail"]
    assert row["model"] == "federation"
    assert row["messages_per_multicast"] is not None
    assert row["quiescent"] == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": ()}, "one of them"),
        ({"random_groups": RandomGroups()}, "not both"),
        ({"groups": (GroupOf("a", (0, 9)),)}, "names site 9"),
        ({"groups": (GroupOf("a", (0,)), GroupOf("a", (1,)))}, "name of its own"),
        ({"senders": (7,)}, "names site 7"),
        ({"processes": (Join(1, 0.2),)}, "never change"),
        ({"processes": (Leave(1, 0.2),)}, "never change"),
        ({"processes": (Change(1, 0.2, ("a",)),)}, "never change"),
        ({"processes": (SiteRestart(1, 0.2),)}, "alive"),
        ({"processes": (Crash(8, 0.2),)}, "names site 8"),
        ({"traffic": Chains()}, "who sends what"),
        ({"warm_up_s": 2.0}, "nothing would be left"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(ROW, **change)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("null_ms", 600.0, "null_ms is 600 and silence_ms 1000: a site must be silent for two"),
        ("silence_ms", 150.0, "null_ms is 100 and silence_ms 150: a site must be silent for two"),
        ("settle_ms", 0.0, "settle_ms is 0; it must be more than 0"),
    ],
)
def test_times_are_told_as_they_were_given(key: str, value: float, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        parse({**_table(ROW), "federation": {key: value}}, "here")
    assert "_ns" not in str(refused.value)


def test_a_group_needs_a_name_and_sites() -> None:
    for name, sites in (("", (1,)), ("a" * 65, (1,)), ("a", ()), ("a", (1, 1))):
        with pytest.raises(ConfigError):
            GroupOf(name, sites)
    with pytest.raises(InputError, match="unknown key"):
        parse({**_table(ROW), "federation": {"votes": 3}}, "here")


def test_an_ideal_network_needs_no_host() -> None:
    calm = replace(ROW, faults=Faults(), network=Ideal(latency_us=0.0))
    assert run_federation(calm, 1).outcome.delay_max_ms == 0.0
