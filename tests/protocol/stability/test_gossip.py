"""Stability and safety by gossip: what is agreed is true, and in the end everything is agreed."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import ENDED, SENDERS_PER_PAGE, WIDTH, Followed
from semcast.protocol.stability.gossip.tracker import GossipTracker
from semcast.wire.encode import FrameWriter
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.limits import Limits

MEMBERS = [10, 20, 30, 40]
SOURCE = Source(10, 1)


def make(
    members: list[int], at: int, safety: bool = False, votes: int = 0, joining: bool = False
) -> GossipTracker:
    """The tracker of the member at this position; all are in their first life."""
    followed = Followed(View.first(members, 0), True)
    return GossipTracker(followed, Source(members[at], 1), safety, votes, joining)


def install(tracker: GossipTracker, view: View) -> None:
    """As a detection does: what is followed comes first."""
    tracker.install(view, tracker._followed.install(view))


def vector_of(round_number: int, voters: int, *rows: Progress) -> Vector:
    """A vector; which view it speaks of was asked before it came here."""
    return Vector(0, 1, False, round_number, voters, list(rows))


@dataclass
class Group:
    """Trackers that gossip by vectors, some of which get lost."""

    votes: int
    members: list[int] = field(default_factory=lambda: list(MEMBERS))
    safety: bool = False

    def __post_init__(self) -> None:
        self.trackers = [
            make(self.members, at, self.safety, self.votes) for at in range(len(self.members))
        ]
        self.has: list[dict[Source, int]] = [{} for _ in self.members]

    def advance(self, at: int, source: Source, seq: int) -> None:
        self.has[at][source] = max(seq, self.has[at].get(source, 0))
        self.trackers[at].has(source, self.has[at][source])

    def holders(self, source: Source, seq: int) -> int:
        return sum(has.get(source, 0) >= seq for has in self.has)

    def exchange(self, stream: random.Random, rounds: int) -> None:
        for _ in range(rounds):
            at = stream.randrange(len(self.trackers))
            self.trackers[at].on_period()
            for vector in self.trackers[at].vectors():
                for other in range(len(self.trackers)):
                    if other != at and stream.random() < 0.7:
                        self.trackers[other].on_vector(vector)


@settings(deadline=None, max_examples=60)
@given(
    votes=st.sampled_from([0, 2, 3]),
    steps=st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from([Source(10, 1), Source(20, 1)]), st.integers(1, 9)
        ),
        max_size=30,
    ),
    seed=st.integers(0, 999),
)
def test_what_is_agreed_was_had_by_enough_members(
    votes: int, steps: list[tuple[int, Source, int]], seed: int
) -> None:
    """INV-AGREED, with vectors delivered late, twice, out of order or not at all. SRM §5.3"""
    group = Group(votes)
    needed = votes or len(MEMBERS)
    in_flight: list[Vector] = []
    stream = random.Random(seed)
    for at, source, seq in steps:
        group.advance(at, source, seq)
        in_flight += group.trackers[stream.randrange(4)].vectors()
        for _ in range(stream.randrange(4)):
            if in_flight:
                vector = in_flight[stream.randrange(len(in_flight))]
                group.trackers[stream.randrange(4)].on_vector(vector)
        for tracker in group.trackers:
            for known in (Source(10, 1), Source(20, 1)):
                agreed = tracker.agreed(known)
                assert agreed == 0 or group.holders(known, agreed) >= needed


def test_stability_comes_to_everybody_once_everybody_has_it() -> None:
    group = Group(votes=0)
    for at in range(4):
        group.advance(at, SOURCE, 7)
    group.exchange(random.Random("gossip"), 60)
    assert [tracker.agreed(SOURCE) for tracker in group.trackers] == [7] * 4
    assert all(tracker.all_agreed() for tracker in group.trackers)


def test_one_slow_member_holds_up_stability_but_not_safety() -> None:
    """SRM §6.4: safety is not affected by a single slow receiver."""
    stable, safe = Group(votes=0), Group(votes=2, safety=True)
    for group in (stable, safe):
        for at in range(3):
            group.advance(at, SOURCE, 9)
        group.advance(3, SOURCE, 2)
        group.exchange(random.Random("slow"), 80)
    assert stable.trackers[0].agreed(SOURCE) == 2
    assert safe.trackers[0].agreed(SOURCE) == 9


def test_removing_the_slow_member_lets_stability_go_on() -> None:
    group = Group(votes=0)
    for at in range(3):
        group.advance(at, SOURCE, 5)
    group.exchange(random.Random("gone"), 40)
    assert group.trackers[0].agreed(SOURCE) == 0
    without = View.first(MEMBERS, 0).without(40)
    for tracker in group.trackers[:3]:
        install(tracker, without)
    group.exchange(random.Random("gone on"), 60)
    assert [tracker.agreed(SOURCE) for tracker in group.trackers[:3]] == [5] * 3


def test_a_member_alone_agrees_with_itself() -> None:
    tracker = make([10], 0)
    tracker.has(SOURCE, 3)
    for _ in range(2):
        tracker.on_period()
    assert tracker.agreed(SOURCE) == 3


def test_a_voter_that_does_not_mention_a_source_has_nothing_of_it() -> None:
    tracker = make([10, 20], 0)
    tracker.has(SOURCE, 3)
    other = Source(20, 1)
    tracker.on_vector(vector_of(1, 0b10, Progress(other, 0, 4, 4)))
    assert tracker.agreed(SOURCE) == 0


def test_the_newest_heard_of_is_passed_on() -> None:
    """Tail loss is noticed from gossip. SRM §5.3"""
    one, other = make([10, 20], 0), make([10, 20], 1)
    one.has(SOURCE, 8)
    for vector in one.vectors():
        other.on_vector(vector)
    assert other.vectors()[0].rows[0].newest == 8
    assert not other.all_agreed()


def test_vectors_of_strangers_are_ignored() -> None:
    tracker = make([10, 20], 0)
    stranger = Source(99, 1)
    assert tracker.on_vector(vector_of(5, 0b11, Progress(stranger, 9, 9, 9))) == []
    assert tracker.agreed(stranger) == 0
    assert tracker.vectors() == []


def test_a_vector_never_has_more_rows_than_a_page() -> None:
    members = list(range(1, 101))
    tracker = make(members, 0)
    install(tracker, View(1, tuple(members), (1, *[3] * 99), 0))
    for sender in members[1:]:
        for life in (1, 2, 3):
            tracker.has(Source(sender, life), 1)
    vectors = tracker.vectors()
    assert len(vectors) == len(members) // SENDERS_PER_PAGE
    assert max(len(vector.rows) for vector in vectors) <= 2 * SENDERS_PER_PAGE


# -- views -----------------------------------------------------------------------------------------


def test_rounds_begin_anew_with_a_view_but_what_is_agreed_stays_so() -> None:
    tracker = make([10, 20], 0)
    tracker.has(SOURCE, 5)
    assert tracker.vectors()[0].round == 1
    assert tracker.on_vector(vector_of(1, 0b10, Progress(SOURCE, 0, 4, 5))) == [SOURCE]
    assert tracker.vectors()[0].round == 2
    again = View.first([10, 20], 0).with_life(20, 2)
    install(tracker, again)
    (vector,) = tracker.vectors()
    assert (vector.view, vector.number, vector.round, vector.voters) == (again.digest, 2, 1, 0b01)
    assert tracker.agreed(SOURCE) == 4
    assert tracker.on_vector(vector_of(1, 0b10, Progress(SOURCE, 0, 5, 5))) == [SOURCE]
    assert tracker.agreed(SOURCE) == 5


def test_who_came_back_begins_after_what_anybody_had_let_go_of() -> None:
    """INV-JOIN: nothing more is agreed on before it has a vote; what was, they tell it."""
    view = View.first(MEMBERS, 0).with_life(40, 2)
    group = Group(votes=0)
    for at in range(4):
        group.advance(at, SOURCE, 5)
    group.exchange(random.Random("before"), 60)
    assert {tracker.agreed(SOURCE) for tracker in group.trackers} == {5}
    for at in range(3):
        group.advance(at, SOURCE, 7)
    group.trackers[3] = GossipTracker(Followed(view, True), Source(40, 2), False, 0, joining=True)
    back = group.trackers[3]
    for tracker in group.trackers[:3]:
        install(tracker, view)
    assert not back.follows(SOURCE)
    joining = [back.joining]
    group.exchange(random.Random("back"), 60)
    assert [tracker.agreed(SOURCE) for tracker in group.trackers] == [5] * 4
    assert SOURCE in back.take_joined()
    assert back.follows(SOURCE)
    joining.append(back.joining)
    assert joining == [True, False]
    group.advance(3, SOURCE, 6)
    group.exchange(random.Random("and votes"), 60)
    assert group.trackers[0].agreed(SOURCE) == 6, "now it has a vote"


def test_a_life_that_is_over_ends_once_all_have_what_anybody_has() -> None:
    """And is not listened to any more: it comes back neither by messages nor by votes."""
    view = View.first(MEMBERS, 0).with_life(10, 2)
    group = Group(votes=0)
    for at in range(1, 4):
        group.advance(at, SOURCE, 5 if at > 1 else 4)
    group.trackers[0] = GossipTracker(Followed(view, True), Source(10, 2), False, 0, joining=True)
    for tracker in group.trackers[1:]:
        install(tracker, view)
    group.exchange(random.Random("over"), 80)
    assert not any(SOURCE in tracker.take_ended() for tracker in group.trackers)
    assert SOURCE in group.trackers[0].take_joined()
    # Who came back began after what all others had, and gets the rest from them.
    for at in (0, 1):
        group.advance(at, SOURCE, 5)
    group.exchange(random.Random("ended"), 120)
    for tracker in group.trackers:
        assert tracker.take_ended() == [SOURCE]
        assert SOURCE not in tracker.sources()
        assert tracker.agreed(SOURCE) == ENDED
        assert not tracker.follows(SOURCE)
        tracker.has(SOURCE, 9)
        tracker.on_vector(vector_of(99, 0b10, Progress(SOURCE, 5, 6, 6)))
        assert SOURCE not in tracker.sources()


def test_lives_of_a_sender_end_in_order_and_two_at_most_are_followed() -> None:
    view = View(5, (10, 20), (5, 1), 0)
    followed = Followed(view, True)
    lives = [Source(10, life) for life in range(1, 7)]
    known: list[Source] = []
    for source in lives:
        if followed.follows(source, known):
            known.append(source)
    assert known == lives[:2]
    assert [followed.may_end(source, known) for source in known] == [True, False]
    followed.end(lives[1])
    assert [followed.has_ended(source) for source in lives] == [True] * 2 + [False] * 4
    assert followed.follows(lives[4], [])
    assert not followed.may_end(lives[4], [lives[4]]), "it goes on"
    assert not followed.follows(lives[5], []), "the next view has it"


def test_of_one_sender_no_two_lives_end_in_one_round() -> None:
    """Whoever spoke of the earlier one may have had no room to speak of the later one."""
    view = View(5, (10, 20), (3, 1), 0)
    tracker = GossipTracker(Followed(view, True), Source(20, 1), False, 0)
    earlier, later = Source(10, 1), Source(10, 2)
    # This member has nothing of the later one; the other may have some, and speaks of the earlier.
    tracker.has(earlier, 4)
    assert tracker.follows(later)
    tracker.vectors()
    tracker.on_vector(vector_of(1, 0b01, Progress(earlier, 4, 4, 4)))
    assert tracker.take_ended() == [earlier]
    assert later in tracker.sources()


def test_with_messages_kept_by_their_sender_alone_what_is_over_has_ended() -> None:
    followed = Followed(View.first([10, 20], 0), False)
    assert not followed.has_ended(SOURCE)
    followed.install(followed.view.with_life(10, 3).without(20))
    assert [followed.has_ended(Source(10, life)) for life in (1, 2, 3)] == [True, True, False]
    assert followed.has_ended(Source(20, 1))


def test_nothing_ends_in_a_round_in_which_something_may_have_been_left_out() -> None:
    """But in the next one; and what has ended is told to whoever speaks of it."""
    view = View(3, (10, 20), (2, 1), 0)
    tracker = GossipTracker(Followed(view, True), Source(20, 1), False, 0)
    over = Source(10, 1)
    tracker.has(over, 4)
    vector = vector_of(1, 0b01, Progress(over, 0, 4, 4))
    vector.left_out = True
    tracker.on_vector(vector)
    assert tracker.take_ended() == []
    assert tracker.vectors()[0].former_left_out
    tracker.on_vector(vector_of(2, 0b01, Progress(over, 4, 4, 4)))
    assert tracker.take_ended() == [over]
    # Who speaks of it still may leave out the next life, so it is told, and nobody relies on it.
    tracker.on_vector(vector_of(3, 0b01, Progress(over, 4, 4, 4)))
    (said,) = tracker.vectors()
    assert (said.ended, said.former_left_out) == ([over], True)


def test_nothing_is_begun_with_after_a_round_in_which_something_may_have_been_left_out() -> None:
    view = View.first(MEMBERS[:3], 0).with_life(20, 2)
    for left_out, named in ((False, True), (True, True), (False, False)):
        back = GossipTracker(Followed(view, True), Source(20, 2), False, 0, joining=True)
        back.on_vector(vector_of(1, 0b00, Progress(SOURCE, 3, 3, 3)))
        back.vectors()
        # The next round has begun, so this one is over.
        begun = vector_of(2, 0b01, Progress(SOURCE if named else Source(10, 0), 3, 3, 3))
        begun.former_left_out = left_out
        back.on_vector(begun)
        assert back.take_joined() == ([SOURCE] if named and not left_out else [])


@pytest.mark.parametrize(("path_mtu_bytes", "members"), [(576, 512), (1_400, 7_104)])
def test_the_largest_vector_fits_a_datagram(path_mtu_bytes: int, members: int) -> None:
    """Of a page in which every sender has two lives and one that has ended; not with one more."""
    rows = [Progress(Source(at, 2), 0, 0, 0) for at in range(WIDTH)]
    ended = [Source(at, 1) for at in range(SENDERS_PER_PAGE)]
    writer = FrameWriter(SOURCE, Limits(path_mtu_bytes).frames_bytes_max)
    assert not writer.add(Vector(0, 1, False, 1, 1 << members, rows, ended))
    assert writer.add(Vector(0, 1, False, 1, 1 << (members - 1), rows, ended))
