"""What STAB says of costs and the trigger, checked with the closed forms, one test per claim."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_tree import BruteTree, s_train, train

from semcast.model.stability import Tree, all_protocols, ring_hops
from semcast.model.trigger import stability_rounds, trigger

TABLE_3 = [
    (2, 1, 47),
    (2, 2, 63),
    (3, 1, 202),
    (3, 2, 283),
    (3, 3, 364),
    (4, 1, 597),
    (4, 2, 853),
    (4, 3, 1109),
    (4, 4, 1365),
]
HEIGHT = 5


@pytest.mark.parametrize(("b", "z", "n"), TABLE_3)
def test_group_sizes(b: int, z: int, n: int) -> None:
    """Table 3. STAB §5.1"""
    assert Tree(b, HEIGHT, z).size == n


@given(st.integers(2, 6), st.integers(2, 8))
def test_rounds_and_messages_processed_in_complete_trees(b: int, p: int) -> None:
    """Table 1, which assumes z = b. STAB §4.3"""
    n = (b ** (p + 1) - 1) // (b - 1)
    cost = all_protocols(Tree(b, p, b))
    assert {name: c.rounds for name, c in cost.items()} == {
        "CoordP": 3,
        "FullDist": 2,
        "Train": 2 * n,
        "S_CoordP": p + 2,
        "S_Train": b * p + 2,
    }
    assert cost["CoordP"].processed == {"coordinator": n + 3, "other": 3}
    assert cost["FullDist"].processed == {"member": n + 1}
    assert cost["Train"].processed == {"member": 4}
    assert cost["S_CoordP"].processed == {"root": b + 4, "internal": b + 3, "leaf": 3}
    assert cost["S_Train"].processed == {
        "root": 5,
        "internal_first": 4,
        "internal_other": 5,
        "leaf_first": 3,
        "leaf_other": 4,
    }


@given(st.integers(2, 6), st.integers(2, 12))
def test_no_member_of_a_structured_protocol_works_harder_in_a_larger_group(b: int, p: int) -> None:
    """Implosion is completely eliminated: the load is O(1) at every node. STAB §4.3"""
    small, large = all_protocols(Tree(b, p, b)), all_protocols(Tree(b, p + 1, b))
    for name in ("S_CoordP", "S_Train"):
        assert large[name].processed == small[name].processed
    assert max(large["CoordP"].processed.values()) > max(small["CoordP"].processed.values())


@pytest.mark.parametrize(("b", "z", "n"), TABLE_3)
def test_totals_on_all_hops_as_table_4_composes_them(b: int, z: int, n: int) -> None:
    """Table 4: 3(n - 1) and n(n - 1) need no tree. STAB §5.3.1"""
    cost = all_protocols(Tree(b, HEIGHT, z))
    assert cost["S_CoordP"].all_hops == 3 * (n - 1)
    assert cost["FullDist"].all_hops == n * (n - 1)


@pytest.mark.parametrize(("b", "z", "n"), TABLE_3)
def test_the_printed_length_of_the_ring_is_right(b: int, z: int, n: int) -> None:
    """F_d as printed, and walked. STAB §5.3.1"""
    p = HEIGHT
    printed = 2 * (b * b * (b ** (p - 1) - 1) / (b - 1) ** 2 - b * (p - 1) / (b - 1))
    printed -= (p - 1) * (p - 2)
    printed += 2 + 2 * z * b ** (p - 1) + 2 * b * (b ** (p - 1) - 1) / (b - 1) - 2 * p
    assert ring_hops(Tree(b, p, z)) == pytest.approx(printed)
    brute = BruteTree(b, p, z)
    assert brute.size == n
    assert train(brute).hops["ack"] == ring_hops(Tree(b, p, z))


@pytest.mark.parametrize(("b", "p"), [(2, 3), (3, 3), (4, 4)])
def test_the_last_acknowledgement_of_s_train_travels_2b_minus_1_hops_a_level(
    b: int, p: int
) -> None:
    """H_h = p(2(b - 1) + 1), against F_d for Train. STAB §5.4.2"""
    brute = BruteTree(b, p, b)
    node, hops = brute.levels[p][0], 0
    while brute.parent[node] is not None:
        siblings = brute.siblings(node)
        hops += sum(brute.hops(one, other) for one, other in pairwise(siblings))
        parent = brute.parent[siblings[-1]]
        assert parent is not None
        hops += brute.hops(siblings[-1], parent)
        node = parent
    assert hops == p * (2 * (b - 1) + 1)
    assert s_train(brute).rounds == b * p + 2
    assert hops < ring_hops(Tree(b, p, b))


def test_a_perfect_round_leaves_the_trigger_to_the_first_round() -> None:
    """With alpha = 1, X = g - rf. STAB §6"""
    assert trigger(100, 0.2, 50, 1).exact == 90


@given(st.floats(0.05, 1), st.integers(1, 89))
def test_the_largest_trigger_needs_the_fewest_rounds(alpha: float, smaller: int) -> None:
    """A smaller X means a larger T(X) = K/(alpha X). STAB §6"""
    best = trigger(100, 0.1, 50, alpha).messages
    fewest = stability_rounds(10_000, alpha, best)
    more = stability_rounds(10_000, alpha, min(smaller, best - 1))
    assert fewest is not None
    assert more is not None
    assert fewest < more
