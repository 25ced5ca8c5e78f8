"""A view says who is in the group in one number: the same if it says the same of everybody."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import ID_MAX, Source
from semcast.protocol.membership.view import View

LIFE_MAX = 1 << 61
Steps = list[tuple[int, int, bool]]


@st.composite
def views(draw: st.DrawFn) -> View:
    """Any view at all: ids and lives as they are in live groups, or small and close together."""
    ids = draw(st.sets(st.integers(0, 6) | st.integers(0, ID_MAX), min_size=1, max_size=6))
    lives = tuple(draw(st.integers(0, 3) | st.integers(0, LIFE_MAX)) for _ in ids)
    gone = draw(st.integers(0, (1 << len(ids)) - 1))
    number, f = draw(st.integers(1, 9)), draw(st.integers(0, 3))
    return View(number, tuple(sorted(ids)), lives, f, (), gone)


def said(view: View) -> tuple[object, ...]:
    """All that a digest is about."""
    return view.members, view.lives, view.gone, view.f


@given(views(), views())
def test_digests_agree_exactly_when_views_do(one: View, other: View) -> None:
    assert (one.digest == other.digest) == (said(one) == said(other))


@given(views(), st.data())
def test_one_difference_is_another_digest(view: View, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(view.members) - 1))
    lives = list(view.lives)
    lives[at] += data.draw(st.integers(1, 5))
    others = [
        View(1, view.members, tuple(lives), view.f, (), view.gone),
        View(1, view.members, view.lives, view.f, (), view.gone ^ 1 << at),
        View(1, view.members, view.lives, view.f + 1, (), view.gone),
        View(1, view.members[:at] + view.members[at + 1 :], (1,) * (len(lives) - 1), view.f),
    ]
    assert len({int(one.digest) for one in [view, *others]}) == len(others) + 1


def test_no_two_of_many_small_views_have_the_same_digest() -> None:
    """Small numbers are where sums of few meet: every view of up to three of four members."""
    digests, count = set(), 0
    for size in range(4):
        for members in combinations(range(4), size):
            for state in range(6**size):
                lives = tuple(state // 6**at % 3 for at in range(size))
                gone = sum((state // 6**at // 3 % 2) << at for at in range(size))
                for f in range(3):
                    digests.add(int(View(1, members, lives, f, (), gone).digest))
                    count += 1
    assert len(digests) == count


def test_neither_number_nor_names_are_part_of_it() -> None:
    one = View(1, (1, 2), (1, 1), 1, ("a", "b"))
    assert one.digest == View(7, (1, 2), (1, 1), 1).digest == one.numbered(9).digest
    assert one.numbered(9).number == 9
    assert one.numbered(9).names == ("a", "b")


@given(st.permutations([(1, 2, False), (2, 2, True), (2, 3, False), (3, 1, True)]))
def test_the_order_of_steps_does_not_matter(steps: Steps) -> None:
    """As far as they can be made in that order: nobody goes back to a former life."""
    view = View.first([1, 2, 3], 1)
    for sender, life, gone in steps:
        if life > view.life(sender):
            view = view.with_life(sender, life)
        if gone and life == view.life(sender):
            view = view.without(sender)
    assert said(view) == ((1, 2, 3), (2, 3, 1), 0b100, 1)
    assert view.digest == View(1, (1, 2, 3), (2, 3, 1), 1, (), 0b100).digest


def test_each_step_is_a_view_of_its_own_with_the_next_number() -> None:
    first = View.first([3, 1, 2], 1, names=("a", "b", "c"))
    gone = first.without(2)
    back = gone.with_life(2, 5)
    assert [view.number for view in (first, gone, back)] == [1, 2, 3]
    assert first.is_present(2)
    assert not gone.is_present(2)
    assert back.is_present(2)
    assert (first.present, gone.present, back.present) == ([1, 2, 3], [1, 3], [1, 2, 3])
    assert (first.present_bits, gone.present_bits) == (0b111, 0b101)
    assert gone.names == back.names == ("a", "b", "c")


def test_who_is_gone_keeps_its_position() -> None:
    view = View.first([5, 7, 9], 1).without(5)
    assert [view.position(sender) for sender in (5, 7, 9, 11)] == [0, 1, 2, -1]
    assert view.others(Source(7, 1)) == [9]


@given(views(), st.integers(0, LIFE_MAX))
def test_a_life_is_there_or_over_or_yet_to_come(view: View, life: int) -> None:
    for sender in view.members:
        source = Source(sender, life)
        later = life > view.life(sender)
        assert [view.holds(source), view.is_over(source), later].count(True) == 1


def test_a_stranger_is_in_no_life() -> None:
    view = View.first([1, 2], 1)
    assert view.life(3) == -1
    assert not view.is_present(3)
    assert not view.holds(Source(3, 1))
    assert not view.is_over(Source(3, 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: View(1, (2, 1), (1, 1), 1),
        lambda: View(1, (1, 1), (1, 1), 1),
        lambda: View(1, (1, 2), (1,), 1),
        lambda: View.first([1, 2, 1], 1),
    ],
    ids=["out of order", "twice", "a life too few", "first: twice"],
)
def test_members_are_named_once_in_order_and_with_lives(make: Callable[[], View]) -> None:
    with pytest.raises(ConfigError, match="name everybody once, in order, with lives"):
        make()


def test_it_says_in_short_what_it_is() -> None:
    view = View.first([1, 2, 3], 1).without(1)
    assert repr(view) == f"<View 2 of 2 members, {int(view.digest):x}>"
