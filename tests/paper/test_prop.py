"""What PROP says of messages and delay, checked with the closed forms, one test per claim."""

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_propagation import over_links, random_tree

from semcast.model.propagation import TreeShape, broadcast, point_to_point

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
