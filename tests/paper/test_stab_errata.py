"""Where STAB prints what its protocols do not do; each shown by executing them on a real tree."""

import math
from fractions import Fraction

import pytest
from tests.model.brute_tree import BruteTree, coordp, s_coordp, s_train, train

from semcast.model.stability import (
    Tree,
    ack_hops_to_root,
    all_protocols,
    level_probabilities,
    train_ack_hops,
)
from semcast.model.trigger import trigger

SHAPES = [(2, 3, 1), (2, 5, 2), (3, 4, 2), (4, 5, 3)]


@pytest.mark.parametrize(("b", "p", "z"), SHAPES)
def test_acknowledgements_to_the_root_have_no_factor_p_in_the_second_term(
    b: int, p: int, z: int
) -> None:
    """F_a is printed with (p - 1)p·b^p/(1 - b); the sum beside it is right. STAB §5.3.1"""
    walked = coordp(BruteTree(b, p, z)).hops["ack"]
    first, leaves = Fraction(b - b**p, (1 - b) ** 2), p * z * b ** (p - 1)
    printed = first - Fraction((p - 1) * p * b**p, 1 - b) + leaves
    ours = first - Fraction((p - 1) * b**p, 1 - b) + leaves
    assert walked == ours == ack_hops_to_root(Tree(b, p, z))
    assert walked != printed


@pytest.mark.parametrize(("b", "p", "z"), SHAPES)
def test_the_children_of_the_root_are_a_subgroup_too(b: int, p: int, z: int) -> None:
    """The text of F_g sums subgroups from k = 1, its formula from k = 0. STAB §5.3.1"""
    log = s_train(BruteTree(b, p, z))
    walked = log.hops["ack1"] + log.hops["ack2"]
    lowest = (2 * z - 1) * b ** (p - 1)
    from_1 = (2 * b - 1) * sum(b**k for k in range(1, p - 1)) + lowest
    from_0 = (2 * b - 1) * sum(b**k for k in range(p - 1)) + lowest
    assert walked == from_0 == train_ack_hops(Tree(b, p, z))
    assert walked != from_1


@pytest.mark.parametrize(("b", "p", "z"), SHAPES)
def test_s_train_ends_earlier_where_leaf_groups_are_smaller(b: int, p: int, z: int) -> None:
    """Printed bp + 2 rounds; with z < b they are b(p - 1) + z + 2. STAB §4.2"""
    rounds = s_train(BruteTree(b, p, z)).rounds
    assert rounds == b * (p - 1) + z + 2 == all_protocols(Tree(b, p, z))["S_Train"].rounds
    assert (rounds == b * p + 2) == (z == b)


@pytest.mark.parametrize(("b", "p"), [(2, 3), (3, 3), (4, 4)])
def test_leaves_send_in_rounds_2_to_b_plus_1_and_the_rest_from_b_plus_2(b: int, p: int) -> None:
    """Printed: leaves in rounds 2 to b + 2, upper members from round b + 3. STAB §4.2"""
    tree = BruteTree(b, p, b)
    sends = [(at, node) for at, node, kind in s_train(tree).sends if kind.startswith("ack")]
    leaf_rounds = {at for at, node in sends if tree.depth[node] == p}
    upper_rounds = {at for at, node in sends if tree.depth[node] < p}
    assert leaf_rounds == set(range(2, b + 2))
    assert upper_rounds == set(range(b + 2, b * p + 2))


@pytest.mark.parametrize(("b", "p"), [(2, 3), (3, 3), (4, 4)])
def test_every_leaf_group_has_a_first_member_and_there_are_more_than_p(b: int, p: int) -> None:
    """Printed: those with e = 1, b + 1, …, (p - 1)b + 1 begin; that is p of them. STAB §4.2"""
    tree = BruteTree(b, p, b)
    beginners = [node for at, node, kind in s_train(tree).sends if at == 2 and kind == "ack1"]
    places = [node - tree.levels[p][0] + 1 for node in beginners]
    assert places == list(range(1, b**p, b))
    assert len(places) == b ** (p - 1) > p


def test_a_member_of_s_train_handles_up_to_five_messages() -> None:
    """§5.4.1 prints "up to 4"; Table 1 is right with 5. STAB §5.4.1"""
    assert max(s_train(BruteTree(3, 4, 3)).processed.values()) == 5


@pytest.mark.parametrize(("b", "p", "z"), SHAPES)
def test_train_has_no_start_message(b: int, p: int, z: int) -> None:
    """Table 4 prints START 1 and ACK F_d - 1; §3.3 begins with an ACK. STAB §5.3.1"""
    log, cost = train(BruteTree(b, p, z)), all_protocols(Tree(b, p, z))["Train"]
    assert log.hops["start"] == cost.start_hops == 0
    assert log.hops["ack"] == cost.ack_hops == cost.info_hops == log.hops["info"]
    assert log.sends[0] == (1, 0, "ack")


@pytest.mark.parametrize(("b", "p", "z"), [(3, 5, 3), (4, 5, 3), (4, 5, 4), (4, 7, 4)])
def test_structure_does_not_save_a_factor_log_n_in_messages(b: int, p: int, z: int) -> None:
    """Printed "by at least a factor of log n"; it is about 2 and 1.5. STAB §5.3.1

    Table 4 itself has Train and S_Train both O(n). Against FullDist it does hold.
    """
    tree = Tree(b, p, z)
    cost = all_protocols(tree)
    by_coordp = cost["CoordP"].all_hops / cost["S_CoordP"].all_hops
    by_train = cost["Train"].all_hops / cost["S_Train"].all_hops
    smallest_log = math.log(tree.size, b)
    assert by_coordp < smallest_log
    assert by_train < smallest_log
    assert cost["FullDist"].all_hops / cost["S_CoordP"].all_hops > math.log2(tree.size)


def test_the_factors_saved_at_1109_members_are_2_2_and_1_5() -> None:
    """Counted on the tree, not computed. STAB §5.3.1"""
    tree = BruteTree(4, 5, 3)
    counts = {run.__name__: run(tree).hops.total() for run in (coordp, s_coordp, train, s_train)}
    assert counts["coordp"] / counts["s_coordp"] == pytest.approx(2.2, abs=0.05)
    assert counts["train"] / counts["s_train"] == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize(("b", "p", "n"), [(2, 5, 47), (3, 5, 283), (4, 5, 1109)])
def test_the_levels_of_a_random_tree_get_all_the_members(b: int, p: int, n: int) -> None:
    """The exponent for level p is printed p + 1: that leaves members without a level. STAB §5.4.2

    It is even negative unless the lowest level is more than full.
    """
    upper = [Fraction(b**k, n - 1) for k in range(1, p)]
    printed = Fraction(n - (b ** (p + 1) - 1) // (b - 1), n - 1)
    ours = Fraction(n - (b**p - 1) // (b - 1), n - 1)
    assert sum(upper) + ours == 1
    assert sum(upper) + printed < 1
    assert printed < 0
    assert level_probabilities(n, b, p) == tuple(float(share) for share in [*upper, ours])


def blocked_messages(
    buffer: int, interval_ms: int, rtt_ms: int, alpha: Fraction, x: int, rounds: int
) -> int:
    """How often a sender finds its buffer full, message by message, within so many rounds.

    If the trigger is never reached no round starts, and the sender is blocked for good.
    """
    waiting, blocked, done, now_ms = 0, 0, 0, 0
    at_trigger, ends_ms = 0, -1
    while blocked < 1000:
        now_ms += interval_ms
        if ends_ms >= 0 and now_ms > ends_ms:  # what is sent at the very end still has to fit
            waiting -= math.floor(alpha * at_trigger)
            ends_ms, done = -1, done + 1
            if done == rounds:
                break
            if waiting >= x:
                at_trigger, ends_ms = waiting, now_ms - interval_ms + rtt_ms
        if waiting < buffer:
            waiting += 1
        else:
            blocked += 1
        if ends_ms < 0 and waiting >= x:
            at_trigger, ends_ms = waiting, now_ms + rtt_ms
    return blocked


@pytest.mark.parametrize("alpha", ["0", "0.05", "0.5", "0.9"])
def test_the_smaller_of_the_two_bounds_keeps_the_buffer_from_filling_and_the_larger_does_not(
    alpha: str,
) -> None:
    """Printed X = max(g - rf, (g - 2rf)/(1 - alpha)); both are upper bounds. STAB §6

    Two rounds in a row are what the constraints cover, with g = 100 and rf = 10.
    """
    g, interval_ms, rtt_ms, share = 100, 5, 50, Fraction(alpha)
    rf = rtt_ms // interval_ms
    printed = math.floor(max(Fraction(g - rf), Fraction(g - 2 * rf) / (1 - share)))
    ours = trigger(g, 1 / interval_ms, rtt_ms, float(alpha)).messages
    assert ours < printed
    assert blocked_messages(g, interval_ms, rtt_ms, share, ours, rounds=2) == 0
    assert blocked_messages(g, interval_ms, rtt_ms, share, printed, rounds=2) > 0


def test_with_nothing_stable_after_a_round_g_minus_rf_is_too_late() -> None:
    """Printed for alpha = 0: X = g - rf, although "(2) is redundant" there. STAB §6"""
    assert trigger(100, 0.2, 50, 0).exact == 80
    assert blocked_messages(100, 5, 50, Fraction(0), 90, rounds=2) > 0
    assert blocked_messages(100, 5, 50, Fraction(0), 80, rounds=2) == 0


@pytest.mark.parametrize(("alpha", "sustainable"), [("0.1", False), ("0.12", True), ("0.5", True)])
def test_below_the_crossover_the_rule_protects_two_rounds_only(
    alpha: str, sustainable: bool
) -> None:
    """Where alpha(g - rf) < rf, senders block in the end. STAB §6"""
    chosen = trigger(100, 0.2, 50, float(alpha))
    assert chosen.alpha_crossover == Fraction(1, 9)
    assert chosen.sustainable == sustainable
    blocked = blocked_messages(100, 5, 50, Fraction(alpha), chosen.messages, rounds=200)
    assert (blocked == 0) == sustainable
