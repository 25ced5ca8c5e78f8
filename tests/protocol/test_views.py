"""Views, and how members come from one to the next: what counts is what was said of this view."""

import random
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.lives import LIVES_ROWS_MAX, Lives
from semcast.wire.families.measures import Times, Tree
from semcast.wire.families.rounds import Round
from semcast.wire.families.votes import Vector
from semcast.wire.frames import ControlFrame

MS = 1_000_000
MEMBERS = [1, 2, 3]
PROTOCOLS = ["gossip", "coordp", "fulldist", "train", "s_coordp", "s_train"]
FIRST = View.first(MEMBERS, 1)


def make(
    sender: int,
    view: View = FIRST,
    config: MemberConfig | None = None,
    observer: Observer | None = None,
    joining: bool = False,
) -> Member:
    me = Source(sender, view.life(sender))
    stream = random.Random(f"views/{sender}")
    return Member(config or MemberConfig(), me, view, stream, observer, joining)


def frames_of(member: Member, now_ns: int) -> list[tuple[int, ControlFrame]]:
    """Control frames that it sends now, and to whom."""
    return [
        (outgoing.to, frame)
        for outgoing in member.datagrams(now_ns)
        for frame in Decoder().decode(outgoing.frames, member.me).control
    ]


def lives_of(member: Member, now_ns: int) -> list[tuple[int, Lives]]:
    return [(to, frame) for to, frame in frames_of(member, now_ns) if isinstance(frame, Lives)]


def send(member: Member, source: Source, frames: Iterable[ControlFrame], now_ns: int) -> None:
    writer = FrameWriter(source, 1300)
    for frame in frames:
        assert writer.add(frame)
    member.receive(writer.take(), source, now_ns)


# -- the value -------------------------------------------------------------------------------------


def test_a_view_knows_who_is_there_and_in_which_life() -> None:
    view = FIRST.with_life(2, 5).without(3)
    assert (view.number, view.members, view.lives) == (3, (1, 2, 3), (1, 5, 1))
    assert (view.present, view.present_bits) == ([1, 2], 0b011)
    assert [view.position(sender) for sender in (1, 2, 3, 9)] == [0, 1, 2, -1]
    assert [view.holds(Source(2, life)) for life in (4, 5, 6)] == [False, True, False]
    assert [view.is_over(Source(2, life)) for life in (4, 5, 6)] == [True, False, False]
    assert (view.holds(Source(3, 1)), view.is_over(Source(3, 1))) == (False, True)
    assert (view.holds(Source(9, 1)), view.life(9)) == (False, -1)
    back = view.with_life(3, 2)
    assert back.holds(Source(3, 2))


STEPS = st.lists(st.tuples(st.sampled_from(MEMBERS), st.booleans()), max_size=8)


@given(STEPS, STEPS)
def test_two_views_have_one_digest_only_if_they_say_the_same(
    one: list[tuple[int, bool]], other: list[tuple[int, bool]]
) -> None:
    views = []
    for steps in (one, other):
        view = FIRST
        for sender, gone in steps:
            view = view.without(sender) if gone else view.with_life(sender, view.life(sender) + 1)
        views.append(view)
    same = (views[0].lives, views[0].gone) == (views[1].lives, views[1].gone)
    assert (views[0].digest == views[1].digest) == same
    assert views[0].numbered(99).digest == views[0].digest


def test_members_and_f_are_in_the_digest_too() -> None:
    digests = {
        int(view.digest)
        for view in (FIRST, View.first([1, 2], 1), View.first([1, 2, 4], 1), View.first(MEMBERS, 2))
    }
    assert len(digests) == 4


@pytest.mark.parametrize(("members", "lives"), [((2, 1), (1, 1)), ((1, 1), (1, 1)), ((1, 2), (1,))])
def test_a_view_that_makes_no_sense_is_refused(
    members: tuple[int, ...], lives: tuple[int, ...]
) -> None:
    with pytest.raises(ConfigError, match="name everybody once, in order, with lives"):
        View(1, members, lives, 0)


# -- what counts -----------------------------------------------------------------------------------


def said_of(frame: ControlFrame, digest: int) -> ControlFrame:
    """The same as said of another view."""
    if isinstance(frame, Vector | Round | Times | Tree):
        frame.view = digest
    return frame


def exchange(members: list[Member], change: Callable[[ControlFrame], ControlFrame]) -> None:
    """A second in which everybody hears everybody, but all say what `change` makes of it."""
    for now_ns in range(0, 1_000 * MS, 5 * MS):
        for one in members:
            if one.next_deadline_ns() <= now_ns:
                one.on_timer(now_ns)
        for one in members:
            for outgoing in one.datagrams(now_ns):
                decoded = Decoder().decode(outgoing.frames, one.me)
                writer = FrameWriter(one.me, 1300)
                for message in decoded.messages:
                    assert writer.add_message(message)
                for frame in decoded.control:
                    assert writer.add(change(frame))
                frames = writer.take()
                for other in members:
                    if other is not one and outgoing.to in (EVERYBODY, other.me.sender):
                        other.receive(frames, one.me, now_ns)


@pytest.mark.parametrize("stability", PROTOCOLS)
def test_votes_of_another_view_are_never_counted(stability: str) -> None:
    """However they came here: the position of a member is another's in another view."""
    config = MemberConfig(stability=stability, gossip_period_ns=20 * MS)
    for digest, counted in ((FIRST.digest, True), (FIRST.with_life(2, 2).digest, False)):
        members = [make(sender, config=config) for sender in MEMBERS]
        members[0].multicast(b"m", None, 0)
        exchange(members, lambda frame, digest=digest: said_of(frame, int(digest)))  # type: ignore[misc]
        assert all(member.deliverable() == 1 for member in members)
        assert members[0].all_stable() == counted


@pytest.mark.parametrize("of_another", [False, True])
def test_a_tree_of_another_view_is_never_gone_over_to(of_another: bool) -> None:
    member = make(2, config=MemberConfig(stability="s_coordp", stability_tree="measured"))
    view = FIRST.without(3) if of_another else FIRST
    tree = Tree(view.digest, 7, 0, bytes([0, 0, 1]), bytes([0, 1, 2]))
    send(member, Source(1, 1), [tree], 0)
    assert member.stats()["stability_tree_number"] == (0 if of_another else 7)


def test_whoever_speaks_of_another_view_is_told_of_lives_once_a_period() -> None:
    view = FIRST.with_life(3, 4)
    member = make(1, view)
    period_ns = member.config.gossip_period_ns
    late = Vector(FIRST.digest, 1, False, 1, 0b010, [])
    told: list[tuple[int, Lives]] = []
    for at in range(10):
        now_ns = period_ns + at * period_ns // 10
        send(member, Source(2, 1), [late, late], now_ns)
        told += lives_of(member, now_ns)
    assert [(to, frame.view, frame.number, sorted(frame.rows)) for to, frame in told] == [
        (2, view.digest, 1 + 1, [(1, 1, False), (2, 1, False), (3, 4, False)])
    ]
    send(member, Source(2, 1), [late], 2 * period_ns)
    assert len(lives_of(member, 2 * period_ns)) == 1
    send(member, Source(2, 1), [Vector(view.digest, 2, False, 1, 0b010, [])], 4 * period_ns)
    assert lives_of(member, 4 * period_ns) == [], "it has the same view"


# -- from view to view -----------------------------------------------------------------------------


class Views(Observer):
    """Writes down which views counted."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def view(self, view: View) -> None:
        self.numbers.append(view.number)


def test_a_later_life_that_is_heard_makes_the_next_view() -> None:
    seen = Views()
    member = make(1, observer=seen)
    writer = FrameWriter(Source(2, 3), 1300)
    member.receive(writer.take(), Source(2, 3), 0)
    assert member.view.holds(Source(2, 3))
    assert seen.numbers == [1, 2]
    for life in (1, 2, 3):
        member.receive(writer.take(), Source(2, life), 0)
    assert seen.numbers == [1, 2], "lives only go on"
    assert member.view.number == 2


def test_what_a_life_says_that_is_over_does_not_count() -> None:
    member = make(1)
    send(member, Source(2, 2), [], 0)
    before = member.view
    send(member, Source(2, 1), [Lives(0, 1, [(3, 9, False)])], 0)
    assert member.view is before
    member.remove(3, 0)
    send(member, Source(3, 1), [Lives(0, 1, [(2, 9, False)])], 0)
    assert member.view.life(2) == 2
    assert member.view.present == [1, 2]


def test_members_come_to_one_view_in_whatever_order_they_hear() -> None:
    said = [(2, 2, False), (2, 3, True), (3, 2, False), (2, 4, False), (3, 1, True)]
    for seed in range(20):
        member = make(1)
        for row in random.Random(seed).sample(said, len(said)):
            member._views.on_frame(Lives(0, 1, [row]), Source(3, 1), 0)
        view = member._views.view
        assert (view.lives, view.gone) == ((1, 4, 2), 0), seed


def test_word_of_lives_makes_the_next_view_but_nobody_is_told_of_itself() -> None:
    member = make(1)
    send(member, Source(2, 1), [Lives(0, 1, [(1, 9, True), (3, 2, True), (77, 1, False)])], 0)
    assert (member.view.lives, member.view.present) == ((1, 1, 2), [1, 2])
    member.multicast(b"still here", None, 0)


def test_those_with_one_view_come_to_have_one_number() -> None:
    seen = Views()
    member = make(1, observer=seen)
    send(member, Source(2, 1), [Vector(FIRST.digest, 9, False, 1, 0b010, [])], 0)
    send(member, Source(2, 1), [Vector(FIRST.digest, 4, False, 1, 0b010, [])], 0)
    send(member, Source(2, 1), [Vector(FIRST.without(3).digest, 99, False, 1, 0b010, [])], 0)
    assert (member.view.number, member.view.digest) == (9, FIRST.digest)
    assert seen.numbers == [1, 9]


@pytest.mark.parametrize("stability", ["gossip", "s_coordp"])
def test_who_came_back_says_so_ever_less_often_while_nobody_answers(stability: str) -> None:
    view = FIRST.with_life(2, 2)
    member = make(2, view, MemberConfig(stability=stability), joining=True)
    times_ns = []
    now_ns = 0
    while now_ns < 20_000 * MS:
        member.on_timer(now_ns)
        for to, frame in lives_of(member, now_ns):
            assert (to, frame) == (EVERYBODY, Lives(view.digest, 2, [(2, 2, False)]))
            times_ns.append(now_ns)
        now_ns = max(now_ns + 1, member.next_deadline_ns())
    gaps_ns = [later - sooner for sooner, later in pairwise(times_ns)]
    assert times_ns[0] == 0
    assert len(gaps_ns) > 5
    assert gaps_ns == sorted(gaps_ns)
    assert gaps_ns[-1] >= 16 * gaps_ns[0]


@pytest.mark.parametrize("stability", PROTOCOLS)
def test_who_came_back_has_a_vote_in_the_end_and_says_no_more(stability: str) -> None:
    config = MemberConfig(stability=stability, gossip_period_ns=20 * MS)
    members = [make(1, config=config), make(3, config=config)]
    members.append(make(2, FIRST.with_life(2, 2), config, joining=True))
    exchange(members, lambda frame: frame)
    for member in members:
        member.multicast(b"m", None, 1_000 * MS)
    exchange(members, lambda frame: frame)
    exchange(members, lambda frame: frame)
    assert {int(member.view.digest) for member in members} == {FIRST.with_life(2, 2).digest}
    assert all(member.all_stable() for member in members)
    assert members[2]._views.next_deadline_ns() > 1 << 60


def test_two_that_came_back_do_not_answer_each_other_for_ever() -> None:
    """Found by the explorer's traffic: 2,982 frames in 0.6 s."""
    both = [make(sender, FIRST.with_life(sender, 7 + sender), joining=True) for sender in (1, 2)]
    said = 0
    for _ in range(50):
        for one, other in (both, both[::-1]):
            one.on_timer(0)
            for outgoing in one.datagrams(0):
                other.receive(outgoing.frames, one.me, 0)
                control = Decoder().decode(outgoing.frames, one.me).control
                said += sum(isinstance(frame, Lives) for frame in control)
    assert 2 <= said <= 10
    assert both[0].view.digest == both[1].view.digest
    assert both[0].view.lives == (8, 9, 1)


def test_of_many_lives_as_many_are_told_as_fit_a_datagram() -> None:
    """And others the next time, so that all are told in the end."""
    first = View.first(list(range(1, 101)), 1)
    later = View(2, first.members, (1, 1, *[2] * 98), 1)
    member = make(1, first)
    member._views.on_frame(
        Lives(later.digest, 2, [(sender, 2, False) for sender in range(3, 101)]), Source(2, 1), 0
    )
    told: set[int] = set()
    for period in range(1, 2_000):
        now_ns = period * int(member.config.gossip_period_ns)
        late = Vector(first.digest, 1, False, 1, 0b010, [])
        send(member, Source(2, 1), [late], now_ns)
        for to, frame in lives_of(member, now_ns):
            assert to == 2
            assert len(frame.rows) <= LIVES_ROWS_MAX
            told |= {sender for sender, life, _ in frame.rows if life == 2}
    assert told == set(range(3, 101))
