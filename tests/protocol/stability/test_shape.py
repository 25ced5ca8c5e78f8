"""Shapes: trees and rings that are what the paper says, and that repair themselves alike."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.brute_tree import BruteTree

from semcast.errors import ConfigError
from semcast.model.stability import Tree, level_probabilities, ring_hops
from semcast.protocol.stability.rounds.shape import (
    NOBODY,
    Shape,
    Times,
    complete_tree,
    filled_tree,
    given_tree,
    measured_ring,
    measured_tree,
    random_tree,
)

TREES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)).filter(
    lambda t: t[2] <= t[0]
)


def require_tree(shape: Shape, present: set[int]) -> None:
    """Every one present reaches the root; children, siblings and levels say the same as parents."""
    assert {member for member in range(shape.members) if shape.has(member)} == present
    assert shape.present == len(present)
    assert shape.root in present
    depths = shape.depths()
    for member in present:
        at, steps = member, 0
        while shape.parent(at) != NOBODY:
            at, steps = shape.parent(at), steps + 1
            assert at in present
            assert steps <= shape.members
        assert at == shape.root
        assert steps == depths[member]
        children = shape.children(member)
        assert all(shape.parent(child) == member for child in children)
        assert shape.degree(member) == len(children)
        assert shape.last_child(member) == (children[-1] if children else NOBODY)
        befores = [shape.sibling_before(child) for child in children]
        assert befores == ([NOBODY, *children[:-1]] if children else [])
        afters = [shape.sibling_after(child) for child in children]
        assert afters == ([*children[1:], NOBODY] if children else [])
    assert sum(shape.degree(member) for member in present) == len(present) - 1
    assert shape.subtree_sizes()[shape.root] == len(present)
    assert shape.sibling_after(shape.root) == NOBODY


def require_ring(shape: Shape, present: set[int]) -> None:
    """Once around from the root meets everybody once, and back is the same way."""
    at, met = shape.root, []
    for place in range(len(present)):
        assert shape.place(at) == place
        assert shape.before(shape.after(at)) == at
        met.append(at)
        at = shape.after(at)
    assert at == shape.root
    assert set(met) == present


@given(TREES)
def test_a_complete_tree_and_its_ring_are_those_of_the_paper(tree: tuple[int, int, int]) -> None:
    """STAB §5.1, §5.3.1"""
    shape, brute = complete_tree(*tree), BruteTree(*tree)
    everybody = set(range(brute.size))
    require_tree(shape, everybody)
    require_ring(shape, everybody)
    assert shape.members == Tree(*tree).size
    assert shape.height == tree[1]
    assert [shape.children(member) for member in everybody] == brute.children
    assert shape.ring.tolist() == brute.snake()
    hops = sum(brute.hops(member, shape.after(member)) for member in everybody)
    assert hops == ring_hops(Tree(*tree))


@given(st.integers(1, 60), st.integers(1, 5))
def test_a_filled_tree_takes_any_number_of_members(members: int, branching: int) -> None:
    shape = filled_tree(members, branching)
    require_tree(shape, set(range(members)))
    require_ring(shape, set(range(members)))
    assert max(shape.degree(member) for member in range(members)) <= branching
    lengths = [len(level) for level in shape.levels]
    assert lengths[:-1] == [branching**depth for depth in range(len(lengths) - 1)]


def test_a_random_tree_fills_its_levels_as_the_paper_says() -> None:
    """STAB §5.4.2, with the exponent put right"""
    expected = [1.0, *(364 - 1) * np.array(level_probabilities(364, 3, 5))]
    counts = np.zeros(6)
    for seed in range(40):
        shape = random_tree(364, 3, 5, random.Random(seed))
        require_ring(shape, set(range(364)))
        counts += [len(level) for level in shape.levels]
    assert counts / 40 == pytest.approx(expected, rel=0.1, abs=1)
    assert random_tree(364, 3, 5, random.Random(3)).parents.tolist() == (
        random_tree(364, 3, 5, random.Random(3)).parents.tolist()
    )


@given(st.integers(0, 99))
def test_a_random_tree_has_no_empty_level(seed: int) -> None:
    shape = random_tree(16, 2, 4, random.Random(seed))
    require_tree(shape, set(range(16)))
    assert shape.height == 4


@given(TREES, st.data())
def test_whoever_is_left_makes_one_tree_and_one_ring(
    tree: tuple[int, int, int], data: st.DataObject
) -> None:
    shape = complete_tree(*tree)
    left = data.draw(st.sets(st.integers(0, shape.members - 1), min_size=1))
    alive = np.zeros(shape.members, np.bool_)
    alive[list(left)] = True
    repaired = shape.without(alive)
    require_tree(repaired, left)
    require_ring(repaired, left)
    # It is the same whoever works it out, and the same object for those who share the shape.
    assert shape.without(alive.copy()) is repaired
    assert complete_tree(*tree).without(alive).parents.tolist() == repaired.parents.tolist()
    for member in left - {repaired.root}:
        if shape.parent(member) in left:
            assert repaired.parent(member) == shape.parent(member)


def test_orphans_go_to_their_grandparent_and_a_lost_root_is_replaced_by_the_next() -> None:
    shape = complete_tree(2, 3, 2)
    alive = np.ones(15, np.bool_)
    alive[1] = False
    assert shape.without(alive).children(0) == [2, 3, 4]
    alive[0] = False
    repaired = shape.without(alive)
    assert repaired.root == 2
    assert repaired.children(2) == [3, 4, 5, 6]
    assert repaired.ring.tolist()[:3] == [2, 6, 5]
    alive[:] = True
    assert shape.without(alive) is shape


def test_a_tree_given_by_the_user_may_be_numbered_in_any_order() -> None:
    shape = given_tree([NOBODY, 3, 3, 0], ring=[0, 2, 1, 3])
    require_tree(shape, {0, 1, 2, 3})
    assert shape.ring.tolist() == [0, 2, 1, 3]
    assert given_tree([NOBODY, 3, 3, 0]).ring.tolist() == [0, 3, 2, 1]


# -- measured --------------------------------------------------------------------------------------


def distances(places: list[tuple[float, float]]) -> Times:
    points = np.array(places)
    return np.asarray(np.hypot(*(points[:, None, :] - points[None, :, :]).transpose(2, 0, 1)))


def around(ring: list[int], rtt: Times) -> float:
    return float(rtt[ring, [*ring[1:], ring[0]]].sum())


def test_sites_far_apart_become_subtrees_that_one_link_joins() -> None:
    """Three sites 80 ms apart, 1 ms within: only two links of the tree are long."""
    site = np.arange(30) % 3
    rtt = np.where(site[:, None] == site[None, :], 1.0, 80.0)
    shape = measured_tree(rtt, 12)
    require_tree(shape, set(range(30)))
    long = [m for m in range(1, 30) if site[m] != site[shape.parent(m)]]
    assert len(long) == 2
    assert sum(site[m] != site[shape.after(m)] for m in range(30)) == 3
    assert max(shape.degree(m) for m in range(30)) <= 12


@given(st.integers(1, 25), st.integers(0, 999))
def test_a_measured_ring_meets_everybody_and_is_no_longer_than_the_nearest_next(
    members: int, seed: int
) -> None:
    stream = random.Random(seed)
    rtt = distances([(stream.random(), stream.random()) for _ in range(members)])
    ring = measured_ring(rtt).tolist()
    assert sorted(ring) == list(range(members))
    nearest = [0]
    while len(nearest) < members:
        left = [member for member in range(members) if member not in nearest]
        nearest.append(min(left, key=lambda member: float(rtt[nearest[-1], member])))
    assert around(ring, rtt) <= around(nearest, rtt) + 1e-9


def test_a_measured_ring_around_a_circle_is_the_circle() -> None:
    order = random.Random(5).sample(range(24), 24)
    order.insert(0, order.pop(order.index(0)))
    angle = np.empty(24)
    angle[order] = np.arange(24) * (2 * np.pi / 24)
    ring = measured_ring(distances(list(zip(np.cos(angle), np.sin(angle), strict=True)))).tolist()
    assert ring in (order, [order[0], *order[:0:-1]])


def test_what_was_not_measured_counts_as_far_and_one_side_is_enough() -> None:
    rtt = np.full((4, 4), np.nan)
    rtt[0, 1] = rtt[1, 2] = 1.0
    rtt[3, 0] = 50.0
    rtt[2, 0] = -1.0
    shape = measured_tree(rtt, 2)
    assert shape.parents.tolist() == [NOBODY, 0, 1, 0]
    require_tree(measured_tree(np.zeros((5, 5)), 1), set(range(5)))


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "ring", "said"),
    [
        ([0], None, "member 0 is the root"),
        ([NOBODY, 2], None, "the parent of member 1 is 2"),
        ([NOBODY, NOBODY], None, "the parent of member 1 is -1"),
        ([NOBODY, 2, 1], None, "some never reach the root"),
        ([NOBODY, 1], None, "some never reach the root"),
        ([NOBODY, 0], [0], "a ring of 1 members for 2"),
        ([NOBODY, 0], [0, 0], "each must be on it once"),
        ([NOBODY, 0], [1, 0], "the ring begins at 1"),
        ([NOBODY, 0], [0, 7], "names member 7"),
        ([], None, "0 members"),
    ],
)
def test_what_is_no_tree_or_no_ring_is_refused(
    parents: list[int], ring: list[int] | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        given_tree(parents, ring)


def test_sizes_that_make_no_sense_are_refused_before_anything_is_allocated() -> None:
    for branching, height, leaf_degree in ((0, 1, 1), (2, 0, 1), (2, 2, 3), (1000, 20, 1)):
        with pytest.raises(ConfigError):
            complete_tree(branching, height, leaf_degree)
    for members, branching, height in ((1 << 40, 2, 2), (15, 2, 4), (100, 2, 9999)):
        with pytest.raises(ConfigError):
            random_tree(members, branching, height, random.Random(1))
    for members, branching in ((0, 2), (5, 0)):
        with pytest.raises(ConfigError):
            filled_tree(members, branching)
    with pytest.raises(ConfigError, match="square"):
        measured_tree(np.zeros((2, 3)), 2)
    with pytest.raises(ConfigError, match="branching"):
        measured_tree(np.zeros((2, 2)), 0)


def test_a_repair_starts_from_the_whole_group_and_needs_somebody_alive() -> None:
    shape = complete_tree(2, 2, 2)
    alive = np.ones(7, np.bool_)
    alive[3] = False
    with pytest.raises(ConfigError, match="whole group"):
        shape.without(alive).without(alive)
    with pytest.raises(ConfigError, match="alive"):
        shape.without(np.zeros(7, np.bool_))
    with pytest.raises(ConfigError, match="alive"):
        shape.without(np.ones(6, np.bool_))
