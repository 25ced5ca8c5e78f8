"""Where PROP prints what its algorithm does not do, shown by walking a multicast down a tree."""

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_propagation import GroupTree, over_broadcast, random_tree

from semcast.model.propagation import TreeShape, broadcast


def test_two_forwarding_nodes_on_a_level_cost_two_broadcasts() -> None:
    """Table 2 prints N = d + 1, "a multicast at each level". PROP §4.2

    Here the primary destination has two children that each have one: depth 2, but three nodes
    forward, so there are 4 messages and, as only one is on the medium at a time, 4 delays.
    """
    tree = GroupTree(((1, 2), (3,), (4,), (), ()), (True,) * 5)
    messages, delay = over_broadcast(tree, 10)
    printed = tree.depth + 1
    cost = broadcast(5, 10, tree.forwarding_nodes, TreeShape(tree.depth, 0))["propagation"]
    assert (messages, delay) == (cost.messages, cost.delay_ms) == (4, 40)
    assert printed == 3


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_the_printed_count_is_only_a_lower_bound(seed: int, nodes: int) -> None:
    """It is met exactly where no level has two nodes that forward. PROP §4.2"""
    tree = random_tree(random.Random(seed), nodes)
    messages, _ = over_broadcast(tree, 1)
    assert messages == 1 + tree.forwarding_nodes >= tree.depth + 1
    assert (messages == tree.depth + 1) == (tree.forwarding_nodes == tree.depth)
