"""Views that nobody agrees on: whoever hears the same facts, in any order, has the same view."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.membership.static import StaticViews
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.decode import Decoder
from semcast.wire.families.lives import LIVES_ROWS_MAX, Lives
from semcast.wire.limits import Limits

MS = 1_000_000
PERIOD_NS = 30 * MS
# Sender, life, whether it is gone in it.
Fact = tuple[int, int, bool]
FACTS = st.lists(st.tuples(st.integers(3, 5), st.integers(0, 4), st.booleans()), max_size=12)


def views(me: int, members: int = 5, life: int = 1, joining: bool = False) -> StaticViews:
    first = View.first(list(range(1, members + 1)), 1)
    if life > 1:
        first = first.with_life(me, life)
    return StaticViews(Source(me, life), first, joining, PERIOD_NS, random.Random(me))


def frames_to_send(by: StaticViews, now_ns: int) -> list[tuple[int, Lives]]:
    """What it says, and to whom, as it comes out of the smallest datagrams."""
    me = Source(1, 1)
    outbox = Outbox(me, Limits(path_mtu_bytes=576))
    by.pack(outbox, now_ns)
    found = []
    for outgoing in outbox.take():
        for frame in Decoder().decode(outgoing.frames, me).control:
            assert isinstance(frame, Lives)
            found.append((outgoing.to, frame))
    return found


def hear(by: StaticViews, facts: list[Fact]) -> None:
    """Facts as they come: a datagram of a life, or word of it by somebody with the same view."""
    for sender, life, gone in facts:
        if gone:
            word = Lives(by.view.digest, by.view.number, [(sender, life, True)])
            by.on_frame(word, Source(2, 1), 0)
        else:
            by.reborn(Source(sender, life), 0)


def exchange(one: StaticViews, other: StaticViews, now_ns: int, lost: bool = False) -> None:
    """`one` speaks of its view; if `other` has another, it answers, and so on while it helps."""
    by, to = one, other
    by.on_frame(Lives(to.view.digest, to.view.number, []), to_source(to, one, other), now_ns)
    for _ in range(4):
        frames = frames_to_send(by, now_ns)
        for _, frame in frames:
            if not lost:
                to.on_frame(frame, to_source(by, one, other), now_ns)
        by, to = to, by


def to_source(who: StaticViews, one: StaticViews, other: StaticViews) -> Source:
    assert who is one or who is other
    return Source(1 if who is one else 2, 1)


@given(FACTS, st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_make_the_same_view(
    facts: list[Fact], stream: random.Random
) -> None:
    """Heard several times, or not."""
    one, other = views(1), views(2)
    hear(one, facts)
    again = facts + stream.sample(facts, len(facts) // 2)
    stream.shuffle(again)
    hear(other, again)
    assert one.view.digest == other.view.digest
    assert one.view.lives == other.view.lives
    assert one.view.gone == other.view.gone


@given(FACTS, FACTS, st.lists(st.booleans(), max_size=6))
def test_two_that_tell_each_other_soon_have_the_same_view(
    mine: list[Fact], yours: list[Fact], losses: list[bool]
) -> None:
    """Each hears half of it, and some of what they say is lost; then it is not."""
    one, other = views(1), views(2)
    hear(one, mine)
    hear(other, yours)
    now_ns = 0
    for lost in [*losses, False, False]:
        now_ns += PERIOD_NS
        exchange(one, other, now_ns, lost)
    assert one.view.digest == other.view.digest
    before = one.view
    exchange(one, other, now_ns + PERIOD_NS)
    assert one.view is before
    assert (
        frames_to_send(one, now_ns + PERIOD_NS) == frames_to_send(other, now_ns + PERIOD_NS) == []
    )


@given(FACTS, st.lists(st.integers(0, 20), max_size=5))
def test_numbers_never_fall(facts: list[Fact], numbers: list[int]) -> None:
    one = views(1)
    last = one.view.number
    for at, fact in enumerate(facts):
        before = one.view
        hear(one, [fact])
        assert (one.view is before) == (one.view.digest == before.digest)
        if at < len(numbers):
            one.heard_number(numbers[at])
            assert one.view.number >= numbers[at]
        assert one.view.number >= last
        last = one.view.number


def test_a_number_that_is_not_larger_changes_nothing() -> None:
    one = views(1)
    one.reborn(Source(3, 2), 0)
    before = one.view
    one.heard_number(2)
    assert one.view is before
    one.heard_number(5)
    assert (one.view.number, one.view.digest) == (5, before.digest)


def test_a_stranger_is_answered_at_most_once_a_period() -> None:
    one = views(1)
    stranger = Source(2, 1)
    answered = []
    for now_ns in range(0, 10 * PERIOD_NS, PERIOD_NS // 7):
        one.stranger(stranger, now_ns)
        answered += [now_ns for to, _ in frames_to_send(one, now_ns) if to == 2]
    gaps = [later - earlier for earlier, later in itertools.pairwise(answered)]
    assert len(answered) >= 2
    assert min(gaps) >= PERIOD_NS


def test_strangers_have_periods_of_their_own() -> None:
    """In a group of four everybody answers; each of those who ask is told."""
    one = views(1, members=4)
    for sender in (2, 3, 4):
        one.stranger(Source(sender, 1), 0)
    assert [to for to, _ in frames_to_send(one, 0)] == [2, 3, 4]
    assert frames_to_send(one, 0) == []


def test_of_a_large_group_only_some_answer() -> None:
    answers = 0
    for me in range(2, 101):
        one = views(me, members=100)
        one.stranger(Source(1, 1), 0)
        answers += len(frames_to_send(one, 0))
    assert 0 < answers < 20


def test_whoever_is_told_of_itself_ignores_it() -> None:
    one = views(1)
    before = one.view
    rows = [(1, 9, False), (1, 1, True), (1, 3, True)]
    one.on_frame(Lives(before.digest, 1, rows), Source(2, 1), 0)
    one.gone(1, 0)
    one.reborn(Source(1, 5), 0)
    assert one.view is before


def test_what_is_said_of_somebody_who_is_no_member_changes_nothing() -> None:
    one = views(1)
    before = one.view
    one.on_frame(Lives(before.digest, 1, [(99, 2, False), (98, 1, True)]), Source(2, 1), 0)
    one.gone(99, 0)
    one.reborn(Source(99, 2), 0)
    assert one.view is before


def test_gone_is_gone_in_that_life_only() -> None:
    one = views(1)
    one.gone(3, 0)
    assert not one.view.is_present(3)
    one.reborn(Source(3, 1), 0)
    assert not one.view.is_present(3), "a late datagram of the life that is over"
    one.reborn(Source(3, 2), 0)
    assert one.view.is_present(3)
    one.on_frame(Lives(0, 1, [(3, 1, True)]), Source(2, 1), 0)
    assert one.view.is_present(3), "word of the end of a former life"


def test_who_came_back_says_so_ever_less_often_until_it_has_a_vote() -> None:
    one = views(1, life=2, joining=True)
    said: list[int] = []
    now_ns = 0
    while len(said) < 12:
        now_ns = int(one.next_deadline_ns())
        one.on_timer(now_ns)
        ((to, frame),) = frames_to_send(one, now_ns)
        assert (to, frame.rows) == (EVERYBODY, [(1, 2, False)])
        said.append(now_ns)
    gaps = [later - earlier for earlier, later in itertools.pairwise(said)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == gaps[-2] == 32 * PERIOD_NS
    one.joined()
    assert one.next_deadline_ns() == NEVER


def test_who_never_left_has_nothing_to_say() -> None:
    one = views(1)
    assert one.next_deadline_ns() == NEVER
    one.on_timer(10**12)
    assert frames_to_send(one, 10**12) == []


def test_a_frame_names_no_more_members_than_a_datagram_has_room_for() -> None:
    """And they are others each time, so that whoever lags behind comes to know of everybody."""
    one = views(1, members=4 * LIVES_ROWS_MAX)
    for sender in range(2, 4 * LIVES_ROWS_MAX + 1):
        one.reborn(Source(sender, 2), 0)
    other = views(2, members=4 * LIVES_ROWS_MAX, life=2)
    now_ns = 0
    for _ in range(2000):
        now_ns += PERIOD_NS
        one.stranger(Source(2, 2), now_ns)
        for _, frame in frames_to_send(one, now_ns):
            assert len(frame.rows) <= LIVES_ROWS_MAX
            other.on_frame(frame, Source(1, 1), now_ns)
    assert one.view.digest == other.view.digest
