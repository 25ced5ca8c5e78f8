"""Closure by shift and or equals the transitive closure, cut to k. SRM §3.2"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError, LocalProtocolError
from semcast.obsolescence import K_MAX, Closure
from semcast.obsolescence.bitmap import check_k, distances
from semcast.testing import K_EDGES, bitmaps, ks


def reachable(links: dict[int, set[int]], start: int) -> set[int]:
    """Everything that chains of direct links lead to."""
    found: set[int] = set()
    ahead = [start]
    while ahead:
        for seq in links[ahead.pop()] - found:
            found.add(seq)
            ahead.append(seq)
    return found


# Each message names some predecessors by distance, near or far.
direct_links = st.lists(
    st.lists(st.integers(1, 6) | st.integers(1, 90), max_size=3), min_size=1, max_size=90
)


@given(direct_links, st.sampled_from([k for k in K_EDGES if k < 130]))
def test_closure_is_the_transitive_closure_cut_at_distance_k(said: list[list[int]], k: int) -> None:
    """closure(s) = every s−n with n ≤ k that a chain of direct links leads to.

    Nothing is lost by cutting at each step: all links of a chain whose ends are at most k apart,
    and all its parts, span at most k too.
    """
    closure = Closure(k)
    links: dict[int, set[int]] = {}
    for at, named in enumerate(said):
        seq = at + 1
        links[seq] = {seq - n for n in named if n < seq}
        closed = closure.add(seq, sum(1 << (seq - replaced - 1) for replaced in links[seq]))
        near = {old for old in reachable(links, seq) if seq - old <= k}
        assert {seq - n for n in distances(closed)} == near


@given(direct_links, ks())
def test_messages_that_never_existed_are_never_named(said: list[list[int]], k: int) -> None:
    closure = Closure(k)
    for at, named in enumerate(said):
        direct = sum(1 << (n - 1) for n in set(named) if n <= at)
        closed = closure.add(at + 1, direct)
        assert closed >> at == 0
        assert closed >> k == 0


@given(st.lists(st.integers(0, 70), min_size=1, max_size=100), ks())
def test_replacing_one_is_the_same_by_either_way(steps: list[int], k: int) -> None:
    """`add_one` is the hot path of keys; `add` is the definition."""
    hot, plain = Closure(k), Closure(k)
    for at, distance in enumerate(steps):
        seq = at + 1
        if 0 < distance < seq:
            assert hot.add_one(seq, seq - distance) == plain.add(seq, 1 << (distance - 1))
        else:
            assert hot.add_none(seq) == plain.add(seq, 0) == 0


@pytest.mark.parametrize("k", [k for k in K_EDGES if k > 0])
def test_a_shift_by_exactly_k_leaves_nothing(k: int) -> None:
    """The replaced message is the last one with a bit; what that one replaced has none."""
    closure = Closure(k)
    closure.add_none(1)
    assert closure.add_one(2, 1) == 1
    for seq in range(3, k + 2):
        closure.add_none(seq)
    assert closure.add_one(k + 2, 2) == 1 << (k - 1)
    # One further, and not even the direct link can be said.
    assert closure.add_one(k + 3, 2) == 0


@pytest.mark.parametrize("k", K_EDGES)
def test_a_chain_names_its_last_k_links_and_no_more(k: int) -> None:
    closure = Closure(k)
    closed = closure.add_none(1)
    for seq in range(2, k + 10):
        closed = closure.add_one(seq, seq - 1)
        assert closed == (1 << min(k, seq - 1)) - 1
    assert closed.bit_count() == k


@given(bitmaps())
def test_distances_are_the_set_bits_nearest_first(bitmap: int) -> None:
    found = distances(bitmap)
    assert found == sorted(set(found))
    assert sum(1 << (n - 1) for n in found) == bitmap


@given(direct_links, ks(), st.data())
def test_what_is_taken_back_never_happened(
    said: list[list[int]], k: int, data: st.DataObject
) -> None:
    kept, straight = Closure(k), Closure(k)
    for at, named in enumerate(said):
        if data.draw(st.booleans()):
            kept.add(at + 1, data.draw(bitmaps(min(at, K_MAX))))
            kept.take_back()
        direct = sum(1 << (n - 1) for n in set(named) if n <= at)
        assert kept.add(at + 1, direct) == straight.add(at + 1, direct)


@pytest.mark.parametrize("k", [0, 1, 64])
def test_only_one_message_can_be_taken_back(k: int) -> None:
    closure = Closure(k)
    with pytest.raises(LocalProtocolError, match="nothing to take back"):
        closure.take_back()
    closure.add_none(1)
    closure.add_none(2)
    closure.take_back()
    with pytest.raises(LocalProtocolError, match="nothing to take back"):
        closure.take_back()
    assert closure.seq == 1
    assert closure.add_none(2) == 0


CALLS: dict[str, Callable[[Closure, int], int]] = {
    "none": lambda closure, seq: closure.add_none(seq),
    "one": lambda closure, seq: closure.add_one(seq, 1),
    "many": lambda closure, seq: closure.add(seq, 0b1),
    "empty": lambda closure, seq: closure.add(seq, 0),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("seq", [-5, 0, 1, 2, 4, 1 << 62])
@pytest.mark.parametrize("k", [0, 3])
def test_messages_come_once_and_in_order(call: str, seq: int, k: int) -> None:
    closure = Closure(k)
    closure.add_none(1)
    closure.add_one(2, 1)
    with pytest.raises(LocalProtocolError):
        CALLS[call](closure, seq)
    assert closure.seq == 2
    # The 2 that 3 replaces replaced 1: nothing of the bad call is left.
    assert closure.add_one(3, 2) == (0b11 if k else 0)


@pytest.mark.parametrize("direct", [-1, 0b100, 1 << 1000])
def test_nobody_replaces_what_was_never_sent(direct: int) -> None:
    closure = Closure()
    closure.add_none(1)
    closure.add_none(2)
    with pytest.raises(LocalProtocolError, match="never sent"):
        closure.add(3, direct)
    for replaced in (0, 3, 4, -7):
        with pytest.raises(LocalProtocolError, match="cannot replace"):
            closure.add_one(3, replaced)
    assert closure.add(3, 0b11) == 0b11


@pytest.mark.parametrize("k", [-1, K_MAX + 1, 1 << 40])
def test_k_out_of_range_is_refused_with_the_numbers(k: int) -> None:
    with pytest.raises(ConfigError, match=rf"k is {k}; a bitmap has from 0 to {K_MAX} bits"):
        Closure(k)
    assert check_k(K_MAX) == K_MAX
