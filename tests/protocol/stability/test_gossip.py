"""Stability and safety by gossip: what is agreed is true, and in the end everything is agreed."""

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.protocol.stability.gossip.tracker import SENDERS_PER_PAGE, GossipTracker
from semcast.wire.families.votes import Progress, Vector

MEMBERS = [10, 20, 30, 40]
SOURCE = Source(10, 1)


@dataclass
class Group:
    """Trackers that gossip by vectors, some of which get lost."""

    votes: int
    members: list[int] = field(default_factory=lambda: list(MEMBERS))
    safety: bool = False

    def __post_init__(self) -> None:
        self.trackers = [
            GossipTracker(self.members, at, self.safety, self.votes)
            for at in range(len(self.members))
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
    for tracker in group.trackers[:3]:
        tracker.remove(3)
    group.exchange(random.Random("gone on"), 60)
    assert [tracker.agreed(SOURCE) for tracker in group.trackers[:3]] == [5] * 3


def test_a_member_alone_agrees_with_itself() -> None:
    tracker = GossipTracker([10], 0, False, 0)
    tracker.has(SOURCE, 3)
    for _ in range(2):
        tracker.on_period()
    assert tracker.agreed(SOURCE) == 3


def test_a_voter_that_does_not_mention_a_source_has_nothing_of_it() -> None:
    tracker = GossipTracker([10, 20], 0, False, 0)
    tracker.has(SOURCE, 3)
    other = Source(20, 1)
    silent = Vector(False, 1, 0b10, [Progress(other, 0, 4, 4)])
    tracker.on_vector(silent)
    assert tracker.agreed(SOURCE) == 0


def test_the_newest_heard_of_is_passed_on() -> None:
    """Tail loss is noticed from gossip. SRM §5.3"""
    teller, hearer = GossipTracker([10, 20], 0, False, 0), GossipTracker([10, 20], 1, False, 0)
    teller.has(SOURCE, 8)
    for vector in teller.vectors():
        hearer.on_vector(vector)
    assert hearer.vectors()[0].rows[0].newest == 8
    assert not hearer.all_agreed()


def test_vectors_of_strangers_are_ignored() -> None:
    tracker = GossipTracker([10, 20], 0, False, 0)
    stranger = Source(99, 1)
    assert tracker.on_vector(Vector(False, 5, 0b11, [Progress(stranger, 9, 9, 9)])) == []
    assert tracker.agreed(stranger) == 0
    assert tracker.vectors() == []


def test_a_vector_never_has_more_rows_than_a_page() -> None:
    members = list(range(1, 101))
    tracker = GossipTracker(members, 0, False, 0)
    for sender in members:
        for life in (1, 2, 3):
            tracker.has(Source(sender, life), 1)
    vectors = tracker.vectors()
    assert len(vectors) == len(members) // SENDERS_PER_PAGE
    assert max(len(vector.rows) for vector in vectors) <= 2 * SENDERS_PER_PAGE
