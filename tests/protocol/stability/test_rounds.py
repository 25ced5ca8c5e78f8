"""The round trackers: what is agreed is true whatever goes wrong, and in the end all is agreed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.stability.lossy_group import (
    MS,
    TRACKERS,
    LossyGroup,
    restless_group,
    settle,
)

from semcast.model import stability as model
from semcast.protocol.stability.rounds.shape import complete_tree, filled_tree

KINDS = sorted(TRACKERS)
COSTS = {
    "coordp": model.coordp,
    "fulldist": model.fulldist,
    "train": model.train,
    "s_coordp": model.s_coordp,
    "s_train": model.s_train,
}


def role_counts(kind: str, group: LossyGroup) -> dict[int, int]:
    """Messages that Table 1 says each member processes."""
    tree = model.Tree(3, 3, 2)
    processed, shape = COSTS[kind](tree).processed, group.shape
    found = {}
    for at in range(group.size):
        leaf, root = shape.degree(at) == 0, at == shape.root
        first = shape.sibling_before(at) == -1
        if kind in ("fulldist", "train"):
            name = "member"
        elif kind == "coordp":
            name = "coordinator" if root else "other"
        elif root:
            name = "root"
        elif kind == "s_train":
            name = f"{'leaf' if leaf else 'internal'}_{'first' if first else 'other'}"
        elif leaf:
            name = "leaf"
        else:
            name = "internal" if shape.degree(at) == 3 else "internal_above_leaves"
        found[at] = processed[name]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_agrees_on_the_minimum_with_as_many_messages_as_the_paper_says(kind: str) -> None:
    """STAB Table 1: a multicast is one message sent and comes back to its sender."""
    group = LossyGroup(kind, complete_tree(3, 3, 2), 3, 31)
    for at in range(group.size):
        for column, seq in enumerate((100 - at, 7, 3 + at)):
            group.advance(at, column, seq)
    group.start(0)
    group.settle()
    assert all(tracker.agreed.tolist() == [70, 7, 3] for tracker in group.trackers)
    assert dict(group.processed) == role_counts(kind, group)
    assert not any(tracker.under_way() for tracker in group.trackers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", [1, 2, 3])
def test_the_smallest_groups_agree_too(kind: str, members: int) -> None:
    for votes in {members, min(2, members)}:
        group = LossyGroup(kind, filled_tree(members, 2), 1, votes)
        for at in range(members):
            group.advance(at, 0, 5)
        group.start(0)
        group.settle()
        assert [int(tracker.agreed[0]) for tracker in group.trackers] == [5] * members


def disturb(group: LossyGroup, stream: random.Random, removals: int) -> None:
    """A few hundred milliseconds in which everything goes wrong at once."""
    group.loss, group.repeat = stream.choice((0.05, 0.3)), stream.choice((0.0, 0.2))
    group.latency_ms = stream.choice((0.1, 1.0, 10.0))
    for _ in range(stream.randrange(5, 25)):
        at, column = stream.choice(group.alive), stream.randrange(group.width)
        group.advance(at, column, int(group.has[at][column]) + stream.randrange(1, 5))
        if stream.random() < 0.5:
            group.start(stream.choice(group.alive))
        if stream.random() < 0.15:
            group.paused[stream.choice(group.alive)] = group.now_ns + stream.randrange(300 * MS)
        if removals and stream.random() < 0.2:
            removals -= 1
            remove(group, stream.choice(group.alive), stream)
        group.run(stream.random() * 40)


def remove(group: LossyGroup, member: int, stream: random.Random) -> None:
    """Somebody crashes, and the others are told, one after the other."""
    group.gone.add(member)
    for at in stream.sample(group.alive, len(group.alive)):
        group.install(at, group.views[at].without(member))
        group.trackers[at].epoch_changed(group.now_ns)
        group.send(at)
        group.check()
        group.run(stream.random() * 5)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(2, 12), st.booleans(), st.integers(0, 10**9))
def test_nothing_is_agreed_too_early_and_everything_in_the_end(
    kind: str, members: int, safety: bool, seed: int
) -> None:
    """Loss, repetition, delay, reordering, pauses, crashes; then calm. STAB §2 leaves these out."""
    stream = random.Random(seed)
    votes = 2 if safety and members > 2 else members
    group = LossyGroup(kind, filled_tree(members, stream.choice((1, 2, 3))), 3, votes, stream)
    disturb(group, stream, removals=members - 2 if votes == members else 0)
    settle(group)
    assert group.all_agreed(), [tracker.agreed for tracker in group.trackers]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(3, 7), st.integers(0, 10**9))
def test_whoever_comes_back_without_memory_lacks_nothing_that_is_agreed(
    kind: str, members: int, seed: int
) -> None:
    """Crashes and new lives at any moment, under loss; everybody has a vote in the end."""
    group = restless_group(kind, members, members, random.Random(seed))
    settle(group)
    assert group.voters == list(range(members))
    assert group.all_agreed(), [tracker.agreed for tracker in group.trackers]
