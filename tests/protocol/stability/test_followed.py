"""Which lives are followed: they end in order, and nobody speaks of a later one only."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.protocol.config import LIVES_MAX
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import SENDERS_PER_PAGE, WIDTH, Followed, page_of

SENDERS = (1, 2, 3)
SOURCES = st.builds(Source, st.sampled_from(SENDERS), st.integers(0, 6))
KNOWN = st.sets(SOURCES, max_size=12)


def followed(life: int = 6, group: bool = True) -> Followed:
    return Followed(View.first(list(SENDERS), 1, life), group)


@given(KNOWN)
def test_who_does_not_speak_of_a_life_speaks_of_earlier_ones(known: set[Source]) -> None:
    """INV-IN-ORDER."""
    first = followed().first(known)
    assert set(first) <= known
    assert first == sorted(first)
    for sender in SENDERS:
        of_sender = [one for one in first if one.sender == sender]
        assert of_sender == sorted(one for one in known if one.sender == sender)[:LIVES_MAX]


@given(KNOWN)
def test_what_a_frame_speaks_of_fits_a_page(known: set[Source]) -> None:
    by_page: dict[int, int] = {}
    all_of = followed()
    for source in all_of.first(known):
        page = all_of.page(source)
        by_page[page] = by_page.get(page, 0) + 1
    assert all(count <= WIDTH for count in by_page.values())


@given(KNOWN, SOURCES)
def test_a_life_ends_only_after_all_before_it(known: set[Source], source: Source) -> None:
    all_of = followed()
    before = [one for one in known if one.sender == source.sender and one < source]
    over = source.incarnation < 6
    assert all_of.may_end(source, known) == (over and not before)


@given(st.lists(SOURCES, max_size=12))
def test_ends_in_any_order_are_the_same_ends(ends: list[Source]) -> None:
    """With a life all lives before it have ended, and none comes back."""
    all_of = followed()
    for at, source in enumerate(ends):
        all_of.end(source)
        for sender in SENDERS:
            lives = [one.incarnation for one in ends[: at + 1] if one.sender == sender]
            last = max(lives, default=-1)
            for life in range(7):
                assert all_of.has_ended(Source(sender, life)) == (life <= last)
            if last >= 0:
                assert all_of.last_ended(sender) == Source(sender, last)


@given(st.lists(st.tuples(SOURCES, st.booleans()), max_size=30))
def test_a_life_waits_while_two_before_it_have_not_ended(heard: list[tuple[Source, bool]]) -> None:
    """Whatever is heard of, and in whatever order lives end."""
    all_of = followed()
    known: set[Source] = set()
    for source, ends in heard:
        before = [one for one in known if one.sender == source.sender and one < source]
        wanted = len(before) < LIVES_MAX and not all_of.has_ended(source)
        assert all_of.follows(source, known) == wanted
        if wanted:
            known.add(source)
        if ends and all_of.may_end(source, known):
            all_of.end(source)
            known = {one for one in known if not all_of.has_ended(one)}


def test_a_third_life_waits_for_the_first_to_end() -> None:
    all_of = followed(life=3)
    first, second, third = (Source(1, life) for life in (1, 2, 3))
    assert not all_of.follows(third, [first, second])
    assert not all_of.may_end(second, [first, second])
    assert all_of.may_end(first, [first, second])
    all_of.end(first)
    assert all_of.follows(third, [second])
    assert not all_of.follows(first, [second])


def test_a_later_life_than_the_views_is_not_followed_nor_a_stranger() -> None:
    all_of = followed(life=2)
    assert not all_of.follows(Source(1, 3), [])
    assert not all_of.follows(Source(9, 1), [])
    assert all_of.page(Source(9, 1)) == -1
    all_of.install(all_of.view.with_life(1, 3))
    assert all_of.follows(Source(1, 3), [])


def test_the_present_life_never_ends_until_its_member_is_gone() -> None:
    all_of = followed(life=1)
    assert not all_of.may_end(Source(1, 1), [])
    all_of.install(all_of.view.without(1))
    assert all_of.may_end(Source(1, 1), [])
    assert not all_of.has_ended(Source(1, 1)), "others may have something of it"


def test_without_copies_at_others_whatever_is_over_has_ended() -> None:
    """In S-SM nobody could send what a life that is over had to say."""
    all_of = followed(life=1, group=False)
    assert not all_of.has_ended(Source(1, 1))
    all_of.install(all_of.view.with_life(1, 2).without(2))
    assert all_of.has_ended(Source(1, 1))
    assert not all_of.has_ended(Source(1, 2))
    assert all_of.has_ended(Source(2, 1))
    assert not all_of.has_ended(Source(3, 1))


def test_a_page_is_of_a_few_senders() -> None:
    view = View.first(list(range(20)), 1)
    all_of = Followed(view, True)
    for sender in view.members:
        assert all_of.page(Source(sender, 1)) == page_of(sender) == sender // SENDERS_PER_PAGE
