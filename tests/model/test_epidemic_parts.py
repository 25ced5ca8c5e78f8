"""The parts of the round model: sets of links, views, traffic, and the buffers of all members."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.model.epidemic.buffers import Buffers, Held
from semcast.model.epidemic.links import Overlay, each_link, random_sets, random_views, word_type
from semcast.model.epidemic.settings import POLICIES, Epidemic
from semcast.model.epidemic.traffic import Multicast, multicasts

MEMBERS = 6


@given(st.integers(1, 64), st.data())
def test_a_random_set_has_its_size_and_no_link_that_is_not_there(
    links: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, links))
    sets = random_sets(np.random.default_rng(1), 50, size, links)
    assert sets.dtype == word_type(links)
    for one in sets.tolist():
        assert (one.bit_count(), one >> links) == (size, 0)


@pytest.mark.parametrize(("size", "links"), [(1, 4), (2, 5), (3, 5), (2, 6)])
def test_every_set_is_as_likely_as_any_other(size: int, links: int) -> None:
    count = 60_000
    seen = Counter(random_sets(np.random.default_rng(2), count, size, links).tolist())
    every = [sum(1 << link for link in some) for some in combinations(range(links), size)]
    assert set(seen) == set(every)
    expected = count / len(every)
    # Six standard deviations.
    assert all(abs(seen[one] - expected) < 6 * expected**0.5 for one in every)


@pytest.mark.parametrize("links", [3, 8, 9, 16, 30, 64])
def test_each_link_of_each_set_is_found(links: int) -> None:
    sets = random_sets(np.random.default_rng(3), 40, min(3, links), links)
    at, which = each_link(sets)
    expected = [
        (place, link)
        for place, one in enumerate(sets.tolist())
        for link in range(links)
        if one >> link & 1
    ]
    assert list(zip(at.tolist(), which.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("members", "links"), [(12, 10), (50, 3), (400, 30)])
def test_views_have_no_member_twice_and_not_its_owner(members: int, links: int) -> None:
    views = random_views(np.random.default_rng(4), members, links)
    for owner, view in enumerate(views.tolist()):
        assert len(set(view)) == links
        assert owner not in view
        assert set(view) <= set(range(members))
    assert len({tuple(view) for view in views.tolist()}) > members // 2


@pytest.mark.parametrize("view", ["full", "partial"])
def test_as_many_links_as_others_lead_to_each_of_them(view: str) -> None:
    overlay = Overlay(Epidemic(7, links=20, fanout=2, view=view), np.random.default_rng(5))
    targets = overlay.targets(np.full(6, 3), np.arange(6))
    assert sorted(targets.tolist()) == [0, 1, 2, 4, 5, 6]


def test_a_link_of_a_full_view_leads_to_anybody_but_oneself() -> None:
    overlay = Overlay(Epidemic(40, links=10), np.random.default_rng(6))
    targets = overlay.targets(np.full(5_000, 39), np.zeros(5_000, np.intp))
    assert set(targets.tolist()) == set(range(39))


def test_a_link_of_a_partial_view_leads_to_the_same_one_each_time() -> None:
    overlay = Overlay(Epidemic(40, links=10, view="partial"), np.random.default_rng(6))
    targets = overlay.targets(np.repeat(np.arange(40), 10), np.tile(np.arange(10), 40))
    again = overlay.targets(np.repeat(np.arange(40), 10), np.tile(np.arange(10), 40))
    assert targets.tolist() == again.tolist()


@given(
    st.floats(0.01, 20.0), st.floats(0, 1), st.integers(1, 6), st.integers(1, 8), st.integers(0, 9)
)
def test_messages_are_evenly_spaced_in_chains_of_their_length(
    rate: float, ratio: float, diversity: int, length: int, seed: int
) -> None:
    given = Epidemic(
        30, rate_msg_round=rate, related_ratio=ratio, diversity=diversity, chain_length=length,
        settle_rounds=5, measured_rounds=20,
    )  # fmt: skip
    made = multicasts(given, 10, np.random.default_rng(seed))
    for upto in range(given.rounds + 1):
        assert sum(one.born < upto for one in made) == int(upto * rate)
    assert [one.number for one in made] == list(range(len(made)))
    assert all(10 <= one.source < 30 for one in made)
    for one in made:
        later = [two for two in made if two.number > one.number and two.chain == one.chain]
        assert one.never_obsolete == (one.chain is None or not later)
    chains = Counter(one.chain for one in made if one.chain is not None)
    assert all(count <= length for count in chains.values())
    # At most one chain is open at each place.
    assert sum(count < length for count in chains.values()) <= diversity


def test_a_ratio_of_none_and_of_all() -> None:
    for ratio, related in ((0.0, 0), (1.0, 100)):
        given = Epidemic(9, links=8, related_ratio=ratio, settle_rounds=0, measured_rounds=25)
        made = multicasts(given, 0, np.random.default_rng(7))
        assert sum(one.chain is not None for one in made) == related


def waiting(message: Held) -> list[int]:
    return [one.bit_count() for one in message.waiting.tolist()]


@settings(max_examples=150)
@given(
    st.sampled_from(POLICIES),
    st.integers(1, 3),
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 7), st.sets(st.integers(0, MEMBERS - 1), min_size=1)),
            max_size=5,
        ),
        max_size=6,
    ),
    st.integers(0, 1 << 16),
)
def test_buffers_stay_within_bounds_and_lose_only_what_the_policy_says(
    policy: str, capacity: int, turns: list[list[tuple[int, set[int]]]], seed: int
) -> None:
    """Eight messages, of which pairs (0, 2), (1, 3) and so on are chains, enter in any order."""
    given = Epidemic(MEMBERS, links=5, fanout=2, policy=policy, buffer_messages=capacity)
    rng = np.random.default_rng(seed)
    buffers = Buffers(given, rng)
    messages = [Held(Multicast(n, 0, 0, n % 2 + 2 * (n // 4), True), given) for n in range(8)]
    entered = 0
    for turn in turns:
        before = [waiting(message) for message in messages]
        new = [[0] * MEMBERS for _ in messages]
        for number, members in turn:
            here = np.array(sorted(members))
            here = here[messages[number].waiting[here] == 0]
            if len(here) and not any(new[number]):
                sets = random_sets(rng, len(here), 2, 5)
                buffers.enter(messages[number], here, sets)
                entered += 2 * len(here)
                for member in here.tolist():
                    new[number][member] = 2
        buffers.settle(messages)
        after = [waiting(message) for message in messages]
        assert buffers.held.tolist() == [sum(row[at] for row in after) for at in range(MEMBERS)]
        assert [message.copies for message in messages] == [sum(row) for row in after]
        assert entered == buffers.purged_copies + buffers.dropped_copies + int(buffers.held.sum())
        for at in range(MEMBERS):
            assert_policy(given, [[row[at] for row in rows] for rows in (before, new, after)])


def assert_policy(given: Epidemic, rows: list[list[int]]) -> None:
    """What one member had, got, and has now, by message."""
    before, new, after = rows
    had = [old + got for old, got in zip(before, new, strict=True)]
    capacity = given.capacity_copies
    assert all(now <= then for now, then in zip(after, had, strict=True))
    assert sum(after) <= capacity
    if given.policy == "eager":
        for earlier, later in ((0, 2), (1, 3), (4, 6), (5, 7)):
            assert not (after[earlier] and after[later])
    else:
        # Nothing leaves while there is room.
        if sum(had) <= capacity:
            assert after == had
        if given.policy != "lazy":
            assert sum(after) == min(sum(had), capacity)
    if given.policy == "drop-new":
        assert all(now >= old for now, old in zip(after, before, strict=True))
    if given.policy == "age":
        partly = [n for n in range(8) if after[n] < had[n]]
        if partly:
            assert all(after[n] == 0 for n in range(partly[-1]) if had[n])
    if given.policy == "lazy" and sum(had) > capacity:
        for earlier, later in ((0, 2), (1, 3), (4, 6), (5, 7)):
            assert not (after[earlier] and had[later])


def test_links_that_are_busy_carry_nothing() -> None:
    given = Epidemic(MEMBERS, links=5, fanout=2)
    buffers = Buffers(given, np.random.default_rng(8))
    message = Held(Multicast(0, 0, 0, None, True), given)
    here = np.array([1, 4])
    buffers.enter(message, here, np.array([0b00110, 0b01001], np.uint8))
    free = np.full(MEMBERS, 0b00011, np.uint8)
    assert buffers.send(message, here, free).tolist() == [0b00010, 0b00001]
    assert message.waiting.tolist() == [0, 0b00100, 0, 0, 0b01000, 0]
    assert free.tolist() == [3, 1, 3, 3, 2, 3]
    assert (message.copies, buffers.held.tolist()) == (2, [0, 1, 0, 0, 1, 0])
