"""The promises of detection, of whatever protocol: the same tests for all six.

What members say is checked as they say it; see `member_group`.
"""

import random
from itertools import product

import pytest
from tests.protocol.stability.member_group import MS, MemberGroup

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.wire.decode import Decoder

# Runs in which a promise was broken once.
ONCE_FAILED = [
    ("gossip", 6),  # a life ended in a round in which some spoke of the one before it instead
    ("gossip", 66),
    ("gossip", 74),  # a vote that was told was raised in the same round
    ("gossip", 92),
    ("gossip", 110),  # nobody had room to say what was agreed of a third life
    ("gossip", 116),
    ("fulldist", 34),  # who just came back left out what it had not heard of
    ("fulldist", 83),  # a life ended before what was said of it could be taken
    ("fulldist", 185),
    ("fulldist", 227),
    ("train", 825),  # a result went through somebody who had no room for all of it
    ("fulldist", 14),  # a result that was passed on said nothing of what had just been joined
    ("train", 56),
    ("s_coordp", 136),  # nobody passed on that a life had ended
    ("s_coordp", 192),  # a column was given away before what was said of it had left
    ("s_train", 20),
]
# The same of crowds.
CROWD_ONCE_FAILED = [
    ("gossip", 186),  # a life was begun with of which nobody had room to say that it had ended
]
PROTOCOLS = pytest.mark.parametrize("stability", STABILITY_PROTOCOLS)


def group(stability: str, members: int = 4, seed: int = 0, f: int = 1) -> MemberGroup:
    config = MemberConfig(
        stability=stability, f=f, gossip_period_ns=10 * MS, nak_delay_ns=MS, deliver_own=False
    )
    return MemberGroup(config, members, seed)


@PROTOCOLS
def test_what_is_stable_is_what_all_have(stability: str) -> None:
    """While one hears nothing, nothing is; then everything is, and nobody keeps it."""
    all_of = group(stability)
    all_of.run(50)
    all_of.partition(3)
    for _ in range(5):
        all_of.send(0)
    all_of.run(500)
    source = Source(0, 1)
    assert all_of.stable[source] == 0
    assert all_of.heard[1].has[source] == all_of.heard[2].has[source] == 5
    all_of.cut.clear()
    assert all_of.run(5_000, lambda: all_of.stable[source] == 5)
    all_of.settle()


@PROTOCOLS
@pytest.mark.parametrize("f", [1, 2])
def test_what_is_safe_is_what_f_and_one_more_have(stability: str, f: int) -> None:
    """With one copy too few it is not; without the vote of one who is silent it is."""
    all_of = group(stability, f=f)
    all_of.run(50)
    source = Source(0, 1)
    for sender in range(f, 4):
        all_of.partition(sender)
    for _ in range(3):
        all_of.send(0)
    all_of.run(500)
    assert all_of.safe[source] == 0
    all_of.cut.clear()
    # Not the last: in "s_train" the votes of all others go through it.
    all_of.partition(1)
    assert all_of.run(20_000, lambda: all_of.safe[source] == 3)
    assert all_of.stable[source] == 0
    all_of.settle()


@PROTOCOLS
def test_a_late_frame_of_a_former_view_changes_nothing(stability: str) -> None:
    """Neither one of a life that is over, nor one in which somebody else speaks of its votes."""
    all_of = group(stability)
    for sender in (0, 1, 3):
        all_of.send(sender)
    all_of.settle()
    former = list(all_of.said)
    all_of.come_back(3)
    assert all_of.run(5_000, lambda: not all_of.members[3]._detection.joining())
    all_of.settle()
    for sender in (0, 1):
        all_of.send(sender)
    views = {sender: member.view for sender, member in all_of.members.items()}
    stable = dict(all_of.stable)
    controls = 0
    for source, frames in former:
        decoded = Decoder().decode(frames, source)
        votes = [frame for frame in decoded.control if frame.view_digest() >= 0]
        controls += len(votes)
        for sender, member in all_of.members.items():
            if votes and sender != source.sender:
                member.receive(frames, source, all_of.now_ns)
                assert member.view is views[sender]
    assert controls > 0
    assert dict(all_of.stable) == stable, "an old vote was counted"
    all_of.settle()


@PROTOCOLS
def test_a_joiner_begins_at_what_is_stable_and_misses_nothing(stability: str) -> None:
    """Half is stable when it comes back, and half is not, as it is not there."""
    all_of = group(stability, members=3)
    source = Source(0, 1)
    for _ in range(5):
        all_of.send(0)
    all_of.settle()
    all_of.partition(2)
    for _ in range(5):
        all_of.send(0)
    all_of.run(100)
    assert all_of.stable[source] == 5
    all_of.cut.clear()
    joiner = all_of.come_back(2)
    for _ in range(5):
        all_of.send(0)
        all_of.run(5)
    assert all_of.run(5_000, lambda: not joiner._detection.joining())
    all_of.send(0)
    all_of.settle()
    got = all_of.heard[2].got[source]
    assert got[-1] == 16
    assert got == list(range(got[0], 17))
    assert got[0] > 5


@PROTOCOLS
def test_a_life_that_is_over_ends_and_nothing_is_kept_of_it(stability: str) -> None:
    all_of = group(stability, members=3)
    for life in range(1, 6):
        for sender in range(3):
            all_of.send(sender)
        all_of.run(200)
        assert int(all_of.members[2].me.incarnation) == life
        all_of.come_back(2)
    for sender in range(3):
        all_of.send(sender)
    all_of.settle()
    assert all_of.run(10_000, all_of.forgot_what_is_over), all_of.followed()


@PROTOCOLS
def test_a_life_that_somebody_lacks_a_part_of_has_not_ended(stability: str) -> None:
    """Its sender is gone, and who lacks it gets it from the others."""
    all_of = group(stability, members=3)
    all_of.run(50)
    all_of.partition(1)
    for _ in range(3):
        all_of.send(2)
    all_of.run(100)
    all_of.come_back(2)
    all_of.run(500)
    over = Source(2, 1)
    assert all_of.members[0].stats()["retained_held"] == 3
    assert all_of.heard[0].got[over] == [1, 2, 3]
    assert all_of.heard[1].got[over] == []
    all_of.settle()
    assert all_of.heard[1].got[over] == [1, 2, 3]
    assert all_of.run(10_000, all_of.forgot_what_is_over), all_of.followed()


@PROTOCOLS
def test_a_third_life_waits_for_the_first_to_end(stability: str) -> None:
    """And is not lost: it is taken in as soon as one has."""
    all_of = group(stability, members=3)
    all_of.run(50)
    all_of.partition(1)
    for life in (1, 2, 3):
        all_of.send(2)
        all_of.run(200)
        if life < 3:
            all_of.come_back(2)
    first, second, third = (Source(2, life) for life in (1, 2, 3))
    assert all_of.heard[0].got[first] == all_of.heard[0].got[second] == [1]
    assert all_of.heard[0].got[third] == []
    all_of.settle()
    assert all_of.run(10_000, all_of.forgot_what_is_over), all_of.followed()
    for sender in (0, 1):
        assert all_of.heard[sender].got[first] == [1]
        assert all_of.heard[sender].got[third] == [1]
        of_two = [source for source, _ in all_of.heard[sender].order if source.sender == 2]
        assert of_two.index(first) < of_two.index(third)


@pytest.mark.parametrize(
    ("stability", "seed"),
    [*product(STABILITY_PROTOCOLS, range(4)), *ONCE_FAILED],
)
def test_whatever_goes_wrong_what_is_said_is_so(stability: str, seed: int) -> None:
    """Two members come back again and again; datagrams are lost, and late ones are of old lives."""
    all_of = restless(stability, seed)
    all_of.settle()
    assert all_of.run(20_000, all_of.forgot_what_is_over), all_of.followed()
    lasting = [Source(sender, 1) for sender in (0, 1)]
    for sender in (0, 1):
        for source in lasting:
            if source.sender != sender:
                got = all_of.heard[sender].got[source]
                assert got == list(range(1, all_of.sent[source] + 1))
    for hears in all_of.heard.values():
        for source in lasting:
            got = hears.got[source]
            assert got == list(range(got[0], got[0] + len(got))) if got else True


def restless(stability: str, seed: int) -> MemberGroup:
    stream = random.Random(f"{stability}/{seed}")
    all_of = group(stability, seed=seed, f=2)
    all_of.loss, all_of.repeat = stream.choice((0.0, 0.1, 0.3)), stream.choice((0.0, 0.2))
    all_of.late_ms = stream.choice((5, 50, 300))
    for _ in range(40):
        for _ in range(stream.randrange(3)):
            all_of.send(stream.randrange(4))
        all_of.run(stream.random() * stream.choice((1, 10, 60)))
        if stream.random() < 0.25:
            all_of.come_back(stream.choice((2, 3)))
    return all_of


@pytest.mark.parametrize(
    ("stability", "seed"),
    [*product(STABILITY_PROTOCOLS, range(2)), *CROWD_ONCE_FAILED],
)
def test_whatever_goes_wrong_in_a_crowd_what_is_said_is_so(stability: str, seed: int) -> None:
    """Several pages of members, many of whom come back, some before they have begun."""
    all_of = crowd(stability, seed)
    all_of.settle()
    assert all_of.run(20_000, all_of.forgot_what_is_over), all_of.followed()


def crowd(stability: str, seed: int) -> MemberGroup:
    stream = random.Random(f"wild{stability}/{seed}")
    members = stream.choice((3, 5, 6, 9))
    f = stream.choice((1, min(2, members // 2)))
    all_of = group(stability, members=members, seed=seed, f=f)
    all_of.loss, all_of.repeat = stream.choice((0.0, 0.1, 0.3)), stream.choice((0.0, 0.2, 0.4))
    all_of.late_ms = stream.choice((5, 50, 300, 1000))
    often = stream.choice((0.25, 0.5, 0.8))
    first = 1 if stream.random() < 0.5 else members // 2
    for _ in range(stream.choice((20, 60))):
        for _ in range(stream.randrange(4)):
            all_of.send(stream.randrange(members))
        all_of.run(stream.random() * stream.choice((1, 10, 60)))
        if stream.random() < often:
            all_of.come_back(stream.randrange(first, members))
    return all_of
