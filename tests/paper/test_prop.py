"""What PROP says of messages, delay and load, one test per claim.

Closed forms, and graphs of random groups.
"""

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_propagation import over_links, random_tree

from semcast.model.propagation import TreeShape, broadcast, point_to_point
from semcast.protocol.propagation.choices import Choice, Turn
from semcast.protocol.propagation.generator import generate
from semcast.protocol.propagation.rules import GREEDY, Rule
from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.propagation.grids import GraphOutcome, draw_groups, measure

members = st.integers(2, 1000)
delays_ms = st.integers(0, 1000)


@given(members, delays_ms, delays_ms)
def test_two_phase_takes_three_rounds_of_messages(n: int, latency: int, processing: int) -> None:
    """Table 1: out, back and out again, one message after the other. PROP §4.1"""
    cost = point_to_point(n, latency, processing, TreeShape(1, 0))["two_phase"]
    last_arrival = n * processing + latency
    answered = last_arrival + processing + latency
    assert cost.messages == n + n + n
    assert cost.delay_ms == answered + n * processing + latency


@given(members, delays_ms, delays_ms)
def test_the_centralized_solution_is_a_propagation_tree_of_depth_1(
    n: int, latency: int, processing: int
) -> None:
    """The footnote says so, and Table 1 agrees. PROP §4"""
    cost = point_to_point(n, latency, processing, TreeShape(1, 0))
    assert cost["centralized"] == cost["propagation"]


@given(st.integers(0, 2**32), st.integers(2, 40))
def test_without_extra_nodes_propagation_takes_one_message_a_member(seed: int, nodes: int) -> None:
    """N = n + eps: a third of two-phase in the best case. PROP §4.1"""
    tree = random_tree(random.Random(seed), nodes)
    shape = TreeShape(tree.depth, tree.extra_nodes)
    cost = point_to_point(tree.members, 10, 1, shape)
    assert over_links(tree, 10, 1)[0] == cost["propagation"].messages
    assert (3 * cost["propagation"].messages == cost["two_phase"].messages) == (
        tree.extra_nodes == 0
    )


@given(members, delays_ms, st.integers(1, 1000), st.integers(1, 2), st.integers(0, 1000))
def test_a_tree_no_deeper_than_2_delays_less_than_two_phase(
    n: int, latency: int, processing: int, depth: int, extra: int
) -> None:
    """As long as extra nodes are fewer than the members. PROP §4.1"""
    shape = TreeShape(min(depth, n - 1), min(extra, n))
    cost = point_to_point(n, latency, processing, shape)
    assert cost["propagation"].delay_ms < cost["two_phase"].delay_ms


def test_a_deeper_tree_loses_only_where_latency_dominates() -> None:
    """Depth 4, five members: once latency counts and once processing. PROP §4.1"""
    deep = TreeShape(4, 0)
    far, busy = point_to_point(5, 100, 1, deep), point_to_point(5, 1, 100, deep)
    assert far["propagation"].delay_ms > far["two_phase"].delay_ms
    assert busy["propagation"].delay_ms < busy["two_phase"].delay_ms


@given(members, delays_ms, st.data())
def test_on_a_broadcast_medium_the_delay_is_the_number_of_messages_times_t(
    n: int, step: int, data: st.DataObject
) -> None:
    """Table 2, D against N, for all three. PROP §4.2"""
    depth = data.draw(st.integers(1, n - 1))
    forwarding = data.draw(st.integers(depth, n - 1))
    for cost in broadcast(n, step, forwarding, TreeShape(depth, 0)).values():
        assert cost.delay_ms == cost.messages * step


@given(members, st.data())
def test_on_a_broadcast_medium_the_centralized_solution_takes_fewest_messages(
    n: int, data: st.DataObject
) -> None:
    """And two-phase the most, by a number that grows with the group. PROP §4.2"""
    depth = data.draw(st.integers(1, n - 1))
    forwarding = data.draw(st.integers(depth, n - 1))
    cost = broadcast(n, 1, forwarding, TreeShape(depth, 0))
    assert cost["centralized"].messages == 2 <= cost["propagation"].messages
    assert cost["propagation"].messages < cost["two_phase"].messages == n + 2


# -- graphs of random groups -----------------------------------------------------------------------

# Sites and groups of 5: depth, extra nodes, and the maximum load of propagation and of two-phase,
# from an independent model of the same experiment.
POINTS = {
    (20, 10): (2.36, 1.09, 30.4, 16.1),
    (20, 20): (3.29, 1.86, 61.6, 27.0),
    (20, 40): (4.26, 2.63, 124.6, 46.3),
    (100, 10): (1.29, 0.23, 13.8, 8.4),
    (100, 20): (3.04, 1.92, 26.3, 12.3),
    (100, 40): (6.64, 5.53, 68.1, 18.7),
    (1000, 10): (1.00, 0.00, 8.2, 4.9),
    (1000, 20): (1.00, 0.00, 10.7, 6.4),
    (1000, 40): (1.01, 0.01, 13.7, 8.2),
}


def measured(sites: int, groups: int, size: int = 5, sizes: str = "fixed") -> GraphOutcome:
    assert sizes in ("fixed", "exponential")
    scenario = GraphScenario(
        sites=sites,
        groups=groups,
        group_size=size,
        sizes="fixed" if sizes == "fixed" else "exponential",
        runs_min=60,
    )
    outcome = measure(scenario, seed=1)
    assert outcome.close_enough, "the paper's intervals are reached"
    return outcome


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_depth_extra_nodes_and_load_of_groups_of_5(point: tuple[int, int]) -> None:
    """Within the paper's intervals: ±10% of the mean, ±0.5 for extra nodes. PROP Graphs 1, 3, 4"""
    depth, extra, load, two_phase = POINTS[point]
    found = measured(*point)
    assert found.mean("depth") == pytest.approx(depth, rel=0.1)
    assert found.mean("extra_nodes") == pytest.approx(extra, abs=0.5)
    assert found.mean("propagation_load_max") == pytest.approx(load, rel=0.1)
    assert found.mean("two_phase_load_max") == pytest.approx(two_phase, rel=0.1)


class HighestLabel(Choice):
    """The site in most groups, as in the paper; of several, the one of the highest label."""

    def best(self, turn: Turn) -> int:
        return max(turn.candidates, key=lambda site: (len(turn.field.left[site]), site))


@pytest.mark.parametrize("groups", [10, 20, 40])
def test_extra_nodes_depend_on_how_ties_are_broken(groups: int) -> None:
    """On 20 sites ours makes fewer than the highest label alone, by a tenth at most. PROP §3.1"""
    scenario = GraphScenario(sites=20, groups=groups)
    means = []
    for rule in (GREEDY, Rule((HighestLabel(),))):
        graphs = [
            generate(draw_groups(scenario, random.Random(f"{seed}")), rule=rule)
            for seed in range(300)
        ]
        means.append(
            fmean(len(graph.extra_nodes(name)) for graph in graphs for name in graph.groups)
        )
    ours, highest = means
    assert ours < highest < 1.12 * ours


def test_depth_rises_and_falls_again_as_groups_get_sparse() -> None:
    """And so do extra nodes; 40 groups of 5 on ever more sites. PROP Graphs 1 and 3

    "Close to 2 when the group size is small" does not hold in the middle of the range.
    """
    found = [measured(sites, 40) for sites in (20, 100, 1000)]
    for measure_name in ("depth", "extra_nodes"):
        dense, middle, sparse = (one.mean(measure_name) for one in found)
        assert dense < middle > sparse
    assert found[1].mean("depth") > 4


def test_the_load_of_propagation_is_between_two_phase_and_the_central_site() -> None:
    """Two-phase is spread best, as far as receivers go. PROP Graphs 4 and 5"""
    for found in (measured(100, 40), measured(200, 20, 20)):
        two_phase, propagation, central = (
            found.mean(f"{name}_load_max") for name in ("two_phase", "propagation", "centralized")
        )
        assert two_phase < propagation < central


def test_groups_of_exponential_sizes_are_less_deep() -> None:
    """With the same mean size. PROP §4.1, end"""
    for sites, groups in ((100, 40), (200, 40)):
        exponential = measured(sites, groups, sizes="exponential")
        assert exponential.mean("depth") < measured(sites, groups).mean("depth")


def test_messages_and_delay_of_random_groups_follow_the_tables() -> None:
    """N = n + eps and D = (d+1)L + (n+eps)P, with means for d and eps. PROP Tables 1 and 2"""
    found = measured(100, 20)
    depth, extra = found.mean("depth"), found.mean("extra_nodes")
    assert found.mean("propagation_messages") == pytest.approx(5 + extra)
    assert found.mean("propagation_delay_ms") == pytest.approx((depth + 1) * 10 + 5 + extra)
    assert found.mean("two_phase_delay_ms") == pytest.approx(3 * 10 + 11)
    assert found.mean("propagation_broadcast_messages") == pytest.approx(
        1 + found.mean("forwarding_nodes")
    )
