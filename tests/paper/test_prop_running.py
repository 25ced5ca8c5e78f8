"""PROP Tables 1 and 2 by running the protocols, one message at a time, beside the formulas."""

import pytest

from semcast.model.propagation import TreeShape, broadcast, point_to_point
from semcast.protocol.propagation.generator import generate
from semcast.protocol.propagation.graph import Graph
from semcast.sim.propagation.federation_scenario import (
    FederationScenario,
    FederationSettings,
    GroupOf,
)
from semcast.sim.propagation.outcome import FederationOutcome, outcome_of
from semcast.sim.propagation.world import FederationWorld, run_federation
from semcast.sim.surroundings import Costs, Host, Ideal, Medium, Network, NoCost
from semcast.sim.traffic import Overwrites

# L, P and T, in milliseconds. All phases are over before anything is acknowledged, so that
# acknowledgements, which the paper does not count, are not in the way.
L, P, T = 0.2, 0.05, 0.05
SHAPE = TreeShape(1, 0)
SIZES = pytest.mark.parametrize("members", [2, 3, 5, 9])
PROTOCOLS = pytest.mark.parametrize("protocol", ["two-phase", "central", "propagation"])
# PROP Figure 3, with the group {d, a} beside it, for which c is an extra node. Sites are letters,
# without i as in the paper; the last one, which sends, is in no group.
LETTERS = "abcdefghj"
FIGURE_3 = {
    "1": "cd", "2": "abc", "3": "bcde", "4": "def", "5": "ef", "6": "bg", "7": "ch", "8": "dj",
    "9": "da",
}  # fmt: skip


def settings_of(protocol: str) -> FederationSettings:
    """The paper has no null messages while there is traffic, so they are rare here."""
    assert protocol in ("two-phase", "central", "propagation")
    # The central site of Table 1 is a member of the group.
    return FederationSettings(
        protocol=protocol,  # type: ignore[arg-type]
        central_site=1,
        null_ms=100_000.0,
        silence_ms=1_000_000.0,
        settle_ms=40.0,
    )


def one_at_a_time(
    members: int, settings: FederationSettings, network: Network, host: Host
) -> FederationOutcome:
    """Site 0 sends to a group that it is not in."""
    scenario = FederationScenario(
        sites=members + 1,
        duration_s=2.0,
        groups=(GroupOf("a", tuple(range(1, members + 1))),),
        senders=(0,),
        to="others",
        traffic=Overwrites(rate_msg_s=4.0, r=0.0),
        federation=settings,
        network=network,
        host=host,
    )
    outcome = run_federation(scenario, 1).outcome
    assert outcome.quiescent
    assert outcome.sent > 5
    assert outcome.delivered == members * outcome.sent
    return outcome


def point(members: int, settings: FederationSettings) -> FederationOutcome:
    network, host = Ideal(latency_us=L * 1000), Costs(send_us=P * 1000)
    return one_at_a_time(members, settings, network, host)


def medium(members: int, settings: FederationSettings) -> FederationOutcome:
    return one_at_a_time(members, settings, Medium(transmission_us=T * 1000), NoCost())


NAMES = {"two-phase": "two_phase", "central": "centralized", "propagation": "propagation"}


@SIZES
@PROTOCOLS
def test_n_and_d_of_table_1(protocol: str, members: int) -> None:
    """One group, from site to site: 3n messages, or n. Delays are exact too (PROP §4.1)."""
    found = point(members, settings_of(protocol))
    formula = point_to_point(members, L, P, SHAPE)[NAMES[protocol]]
    assert found.messages_per_multicast == formula.messages
    assert found.delay_p50_ms == pytest.approx(formula.delay_ms)


@SIZES
@PROTOCOLS
def test_n_and_d_of_table_2(protocol: str, members: int) -> None:
    """One group, on a medium: only the answers of members go one by one (PROP §4.2)."""
    found = medium(members, settings_of(protocol))
    formula = broadcast(members, T, 1, SHAPE)[NAMES[protocol]]
    assert found.transmissions_per_multicast == formula.messages
    assert found.delay_p50_ms == pytest.approx(formula.delay_ms)


@pytest.mark.parametrize("members", [6])
def test_the_load_of_two_phase_is_on_the_source(members: int) -> None:
    """A source sends 2n messages and gets n; a member gets 2 and sends 1 (PROP §4.1)."""
    found = point(members, settings_of("two-phase"))
    loads = [site.load / found.sent for site in found.sites]
    assert loads == [3 * members, *[3] * members]


# -- overlapping groups ----------------------------------------------------------------------------


class ToOneGroup(FederationWorld):
    """Whoever sends, sends to one group."""

    only = ""

    def _targets(self, node: int) -> list[str]:  # noqa: ARG002
        return [self.only]


@pytest.fixture(scope="module", params=sorted(FIGURE_3))
def group(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def figure_3(group: str, network: Network, host: Host) -> tuple[Graph, FederationOutcome]:
    """Somebody outside sends to one of the groups of Figure 3; and the graph of them all."""
    groups = {name: tuple(map(LETTERS.index, sites)) for name, sites in FIGURE_3.items()}
    scenario = FederationScenario(
        sites=len(LETTERS) + 1,
        duration_s=2.0,
        groups=tuple(GroupOf(name, sites) for name, sites in groups.items()),
        senders=(len(LETTERS),),
        to="others",
        traffic=Overwrites(rate_msg_s=4.0, r=0.0),
        federation=settings_of("propagation"),
        network=network,
        host=host,
    )
    world = ToOneGroup(scenario, 1)
    world.only = group
    outcome = outcome_of(world.run(), world.meter, world.counter)
    assert outcome.quiescent
    assert outcome.delivered == len(groups[group]) * outcome.sent > 0
    return generate(groups), outcome


def shape_of(graph: Graph, group: str) -> TreeShape:
    return TreeShape(graph.depth(group), len(graph.extra_nodes(group)))


def test_propagation_takes_n_and_the_extra_nodes_messages(group: str) -> None:
    """N is exact; D is at most what Table 1 says, as the farthest need not be last (PROP §4.1)."""
    network, host = Ideal(latency_us=L * 1000), Costs(send_us=P * 1000)
    graph, found = figure_3(group, network, host)
    shape = shape_of(graph, group)
    assert shape.extra_nodes == (1 if group == "9" else 0)
    formula = point_to_point(len(FIGURE_3[group]), L, P, shape)["propagation"]
    assert found.messages_per_multicast == formula.messages
    assert found.delay_p50_ms is not None
    assert found.delay_p50_ms <= formula.delay_ms + 1e-9
    assert found.delay_p50_ms >= (shape.depth + 1) * (L + P) - 1e-9


def test_propagation_on_a_medium_takes_one_transmission_from_each_that_forwards(group: str) -> None:
    """And one from the source: not d + 1, where two sites of a level forward (PROP §4.2)."""
    graph, found = figure_3(group, Medium(transmission_us=T * 1000), NoCost())
    forwarding = graph.forwarding_nodes(group)
    shape = shape_of(graph, group)
    formula = broadcast(len(FIGURE_3[group]), T, forwarding, shape)["propagation"]
    assert found.transmissions_per_multicast == formula.messages == 1 + forwarding
    assert found.delay_p50_ms is not None
    assert found.delay_p50_ms <= formula.delay_ms + 1e-9
