"""PROP tables 1 and 2 against multicasts walked down random trees."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_propagation import over_broadcast, over_links, random_tree

from semcast.errors import ConfigError
from semcast.model.propagation import TreeShape, broadcast, point_to_point

seeds = st.integers(0, 2**32)
sizes = st.integers(1, 30)
delays_ms = st.integers(0, 100)


@given(seeds, sizes, delays_ms, delays_ms)
def test_over_links_the_messages_are_exact_and_the_delay_is_a_bound(
    seed: int, nodes: int, latency: int, processing: int
) -> None:
    tree = random_tree(random.Random(seed), nodes)
    messages, delay = over_links(tree, latency, processing)
    shape = TreeShape(tree.depth, tree.extra_nodes)
    cost = point_to_point(tree.members, latency, processing, shape)["propagation"]
    assert cost.messages == messages
    assert delay <= cost.delay_ms


@given(sizes, delays_ms, delays_ms)
def test_the_bound_is_reached_by_a_chain_and_by_a_star(
    nodes: int, latency: int, processing: int
) -> None:
    chain = TreeShape(nodes - 1, 0)
    bound = point_to_point(nodes, latency, processing, chain)["propagation"].delay_ms
    assert bound == nodes * (latency + processing)
    star = TreeShape(min(1, nodes - 1), 0)
    bound = point_to_point(nodes, latency, processing, star)["propagation"].delay_ms
    assert bound == processing + latency + (nodes - 1) * processing + star.depth * latency


@given(seeds, sizes, delays_ms)
def test_on_a_broadcast_medium_messages_and_delay_are_exact(
    seed: int, nodes: int, step: int
) -> None:
    tree = random_tree(random.Random(seed), nodes)
    shape = TreeShape(tree.depth, tree.extra_nodes)
    cost = broadcast(tree.members, step, tree.forwarding_nodes, shape)["propagation"]
    assert (cost.messages, cost.delay_ms) == over_broadcast(tree, step)


@pytest.mark.parametrize(
    ("members", "depth", "extra", "named"),
    [
        (0, 0.0, 0.0, "0 members"),
        (5, 0.5, 0.0, "depth is 0.5"),
        (5, 5.0, 0.0, "from 1 to 4"),
        (5, math.nan, 0.0, "depth is nan"),
        (5, 2.0, -1.0, "-1 extra nodes"),
        (5, 2.0, math.inf, "inf extra nodes"),
    ],
)
def test_a_shape_that_no_tree_has_is_refused(
    members: int, depth: float, extra: float, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        point_to_point(members, 1, 1, TreeShape(depth, extra))


def test_delays_and_forwarding_nodes_are_checked() -> None:
    shape = TreeShape(2, 0)
    with pytest.raises(ConfigError, match="latency is -1 ms"):
        point_to_point(5, -1, 1, shape)
    with pytest.raises(ConfigError, match="processing is nan ms"):
        point_to_point(5, 1, math.nan, shape)
    with pytest.raises(ConfigError, match="broadcast is inf ms"):
        broadcast(5, math.inf, 2, shape)
    with pytest.raises(ConfigError, match=r"1 forwarding nodes.*has 2 to 4"):
        broadcast(5, 1, 1, shape)
    with pytest.raises(ConfigError, match="5 forwarding nodes"):
        broadcast(5, 1, 5, shape)
