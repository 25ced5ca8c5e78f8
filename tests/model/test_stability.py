"""The closed forms of STAB tables 1 and 4 against protocols executed on real trees."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.brute_tree import PROTOCOLS, ROOT, BruteTree, Log

from semcast.errors import ConfigError
from semcast.model.stability import (
    ProtocolCost,
    Tree,
    all_protocols,
    level_probabilities,
    ring_hops,
)

SHAPES = [
    (b, p, z)
    for b in (1, 2, 3, 4, 5)
    for p in (1, 2, 3, 4, 5)
    for z in range(1, b + 1)
    if b**p <= 130
]


def role_of(name: str, tree: BruteTree, node: int) -> str:
    """Which of the model's roles a node plays, by looking at the tree alone."""
    if name in ("FullDist", "Train"):
        return "member"
    if name == "CoordP":
        return "coordinator" if node == ROOT else "other"
    if node == ROOT:
        return "root"
    leaf = not tree.children[node]
    if name == "S_Train":
        place = "first" if tree.siblings(node)[0] == node else "other"
        return f"{'leaf' if leaf else 'internal'}_{place}"
    if leaf:
        return "leaf"
    narrow = len(tree.children[node]) < len(tree.children[ROOT])
    return "internal_above_leaves" if narrow else "internal"


def assert_agree(name: str, tree: BruteTree, log: Log, cost: ProtocolCost) -> None:
    assert log.rounds == cost.rounds
    assert log.hops["start"] == cost.start_hops
    assert log.hops["ack"] + log.hops["ack1"] + log.hops["ack2"] == cost.ack_hops
    assert log.hops["info"] == cost.info_hops
    seen = {role_of(name, tree, node): log.processed[node] for node in range(tree.size)}
    for node in range(tree.size):
        assert log.processed[node] == seen[role_of(name, tree, node)]
    assert seen == cost.processed


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "b{}p{}z{}".format(*s))
def test_every_count_is_what_an_execution_on_the_tree_counts(
    shape: tuple[int, int, int], name: str
) -> None:
    brute, tree = BruteTree(*shape), Tree(*shape)
    assert brute.size == tree.size
    assert_agree(name, brute, PROTOCOLS[name](brute), all_protocols(tree)[name])


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "FullDist"])
def test_counts_hold_at_the_largest_size_of_table_3(name: str) -> None:
    brute, tree = BruteTree(4, 5, 4), Tree(4, 5, 4)
    assert_agree(name, brute, PROTOCOLS[name](brute), all_protocols(tree)[name])


@pytest.mark.parametrize(
    ("shape", "size", "hops"),
    [
        ((2, 5, 1), 47, [270, 2162, 352, 138, 153]),
        ((3, 5, 3), 364, [2367, 132132, 2108, 1089, 1331]),
        ((4, 5, 3), 1109, [7308, 1228772, 6184, 3324, 4091]),
        ((4, 5, 4), 1365, [9100, 1861860, 7208, 4092, 5115]),
    ],
)
def test_totals_at_the_sizes_of_the_paper(
    shape: tuple[int, int, int], size: int, hops: list[int]
) -> None:
    tree = Tree(*shape)
    assert tree.size == size
    assert [cost.all_hops for cost in all_protocols(tree).values()] == hops


@given(st.integers(1, 10**9))
def test_a_chain_is_walked_down_and_back(height: int) -> None:
    """With b = 1 the printed forms divide by zero."""
    assert ring_hops(Tree(1, height, 1)) == 2 * height


@given(st.integers(1, 6), st.integers(1, 12), st.data())
def test_structure_never_costs_more_messages_than_the_protocol_it_structures(
    b: int, p: int, data: st.DataObject
) -> None:
    cost = all_protocols(Tree(b, p, data.draw(st.integers(1, b))))
    assert cost["S_CoordP"].all_hops <= cost["CoordP"].all_hops
    assert cost["S_Train"].all_hops <= cost["Train"].all_hops


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 10**6))
@settings(max_examples=50)
def test_level_probabilities_are_a_distribution(b: int, p: int, extra: int) -> None:
    size = Tree(b, p, 1).inner_nodes + extra
    probabilities = level_probabilities(size, b, p)
    assert len(probabilities) == p
    assert min(probabilities) > 0
    assert math.isclose(math.fsum(probabilities), 1)


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ((0, 5, 1), "branching is 0"),
        ((2, 0, 1), "height is 0"),
        ((2, 5, 0), "leaf degree is 0"),
        ((2, 5, 3), "leaf degree is 3"),
        ((2, 63, 1), "has more than"),
        ((2, 10**12, 1), "height 1000000000000"),
        ((1, 2**62, 1), "has more than"),
    ],
)
def test_an_impossible_tree_is_refused_with_its_numbers(
    shape: tuple[int, int, int], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        Tree(*shape)


def test_a_random_tree_needs_a_member_for_its_lowest_level() -> None:
    with pytest.raises(ConfigError, match="31 members leave none for level 5"):
        level_probabilities(31, 2, 5)
    assert level_probabilities(32, 2, 5)[-1] == 1 / 31
