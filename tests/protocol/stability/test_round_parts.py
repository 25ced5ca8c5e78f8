"""What round trackers are made of: the roll, votes, timeouts, the trigger, shared sequences."""

import random
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import NEVER, Source
from semcast.model.trigger import trigger as closed_form
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.rounds.detection import RoundDetection
from semcast.protocol.stability.rounds.missing import Missing
from semcast.protocol.stability.rounds.rides import Rides
from semcast.protocol.stability.rounds.roll import Roll, rooted
from semcast.protocol.stability.rounds.round_message import ACK, INFO, START
from semcast.protocol.stability.rounds.shape import NOBODY, filled_tree
from semcast.protocol.stability.rounds.timeouts import RoundTimeouts
from semcast.protocol.stability.rounds.trigger import Trigger
from semcast.protocol.stability.rounds.votes import AllVotes, SomeVotes
from semcast.wire.decode import Decoder
from semcast.wire.families.measures import Echo, Times
from semcast.wire.families.repair import Fragment
from semcast.wire.families.rounds import ABSTAIN, HAVE_NONE, Round
from semcast.wire.limits import Limits

MS = 1_000_000


# -- who is missing --------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 300), max_size=150), st.lists(st.integers(0, 320), max_size=400))
def test_everybody_who_is_missing_leaves_once(members: set[int], come: list[int]) -> None:
    missing = Missing(sorted(members))
    left = set(members)
    for member in come:
        assert missing.remove(member) == (member in left)
        left.discard(member)
        assert missing.count == len(left)
    assert missing.members() == sorted(left)


def test_many_take_a_byte_each() -> None:
    missing = Missing(list(range(20_000)))
    assert sum(sys.getsizeof(getattr(missing, name)) for name in ("_few", "_many")) < 21_000


# -- the roll --------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(1, 4), st.data())
def test_a_tree_hung_up_elsewhere_is_still_a_tree_of_all(
    members: int, branching: int, data: st.DataObject
) -> None:
    shape = filled_tree(members, branching)
    root = data.draw(st.integers(0, members - 1))
    turned = rooted(shape, root)
    assert turned.parent(root) == NOBODY
    assert sum(len(level) for level in turned.levels) == members
    edges = {frozenset((m, shape.parent(m))) for m in range(members) if m != shape.root}
    assert {frozenset((m, turned.parent(m))) for m in range(members) if m != root} == edges
    assert int(turned.ring[0]) == root
    assert {*pairwise(turned.ring.tolist())} <= {
        *pairwise([*shape.ring.tolist(), *shape.ring.tolist()])
    }


def test_an_epoch_names_the_view_that_counts_whatever_counted_before() -> None:
    """INV-EPOCH, by views: who is gone, and in which life everybody is."""
    first = View.first([10, 20, 30], 1)
    again, without = first.with_life(20, 2), first.without(20)
    one, other = Roll(filled_tree(3, 2)), Roll(filled_tree(3, 2))
    epochs = set()
    for view in (first, again, without):
        one.install(view)
        epochs.add(int(one.epoch))
        assert [one.alive(at) for at in range(3)] == [True, view.is_present(20), True]
    assert len(epochs) == 3
    other.install(without)
    assert one.epoch == other.epoch
    other.install(without.with_life(20, 2))
    one.install(again)
    assert one.epoch == other.epoch, "however they came to it"
    assert other.alive_count == 3


def test_the_next_around_the_ring_stands_in() -> None:
    roll = Roll(filled_tree(5, 1))
    assert roll.successor(1) == 1
    roll.install(View.first(list(range(5)), 1).without(1).without(2))
    assert (roll.successor(1), roll.rank(3, 0), roll.rank(0, 3)) == (3, 1, 2)


# -- votes -----------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_what_enough_members_have_is_found_exactly(rows: list[list[int]], needed: int) -> None:
    every, some = AllVotes(), SomeVotes(needed)
    for row in rows:
        every.add(np.array(row), 1)
        some.add(np.array(row), 1)
    low, found = every.merged(), some.merged()
    assert low is not None
    assert found is not None
    assert low.tolist() == np.min(rows, axis=0).tolist()
    if len(rows) >= needed:
        assert found.tolist() == np.sort(rows, axis=0)[::-1][needed - 1].tolist()
        assert some.enough(found)
    else:
        assert not some.enough(np.zeros(3, np.int64))
    assert not every.enough(np.zeros(3, np.int64))


# -- timeouts --------------------------------------------------------------------------------------


def test_waiting_follows_what_was_measured_and_doubles_in_vain() -> None:
    timeouts = RoundTimeouts(100 * MS, MS)
    for _ in range(50):
        timeouts.measured(10 * MS)
    usual_ns = timeouts.wait_ns()
    assert 10 * MS <= usual_ns <= 15 * MS
    timeouts.in_vain()
    assert timeouts.wait_ns() == 2 * usual_ns
    for _ in range(50):
        timeouts.in_vain()
    assert timeouts.wait_ns() == 32 * usual_ns, "but not for ever"
    timeouts.ended()
    assert timeouts.wait_ns() == usual_ns


def test_the_next_in_order_loses_patience_first_and_a_sign_of_life_restores_it() -> None:
    timeouts = RoundTimeouts(MS, 1)
    tries = 0
    while not timeouts.should_stand_in(1):
        timeouts.in_vain()
        tries += 1
    assert not timeouts.should_stand_in(2)
    assert tries > 3
    timeouts.sign_of_life()
    assert not timeouts.should_stand_in(1)


def test_rounds_that_always_take_longer_than_was_thought_are_waited_for_in_the_end() -> None:
    timeouts = RoundTimeouts(MS, 1)
    for _ in range(20):
        for _ in range(6):
            if timeouts.wait_ns() < 50 * MS:
                timeouts.in_vain()
        timeouts.measured(50 * MS)
        timeouts.ended()
    assert timeouts.wait_ns() >= 50 * MS


@given(st.integers(1, 10**6), st.integers(1, 2**20), st.integers(0, 3))
def test_rounds_that_were_held_up_do_not_make_the_next_ones_longer_and_longer(
    took_us: int, seed: int, tries: int
) -> None:
    """Explorer, case 50171 --stability coordp: with much loss, waits had grown to minutes."""
    took_ns, first_ns, stream = took_us * 1000, 100 * MS, random.Random(seed)
    timeouts = RoundTimeouts(first_ns, MS)
    timeouts.measured(took_ns)
    for _ in range(200):
        held_up_ns = 0
        if stream.random() < 0.9:
            for _ in range(1 + tries):
                held_up_ns += timeouts.wait_ns()
                timeouts.in_vain()
        timeouts.measured(took_ns + held_up_ns)
        timeouts.ended()
    # A run of rounds that are all held up is seldom long; what is forgotten in it comes back.
    assert timeouts.wait_ns() <= 100 * max(first_ns, took_ns)


def test_a_network_that_became_slower_is_believed_in_the_end() -> None:
    timeouts = RoundTimeouts(10 * MS, MS)
    for _ in range(20):
        timeouts.measured(5 * MS)
        timeouts.ended()
    for _ in range(200):
        waited_ns = 0
        while waited_ns + timeouts.wait_ns() < 400 * MS:
            waited_ns += timeouts.wait_ns()
            timeouts.in_vain()
        timeouts.measured(400 * MS)
        timeouts.ended()
    assert timeouts.wait_ns() > 400 * MS


# -- the trigger -----------------------------------------------------------------------------------


def test_the_trigger_is_the_closed_form_of_what_was_measured() -> None:
    """STAB §6 with min: 1 message/ms, rounds of 20 ms, everything released."""
    trigger = Trigger(100, 1000 * MS, 0)
    for at_ms in range(0, 1000, 50):
        trigger.began(50, 50, at_ms * MS)
        trigger.ended(50)
    expected = closed_form(100, 1.0, 20.0, 1.0).messages
    assert trigger.threshold(20 * MS) == expected == 80
    for at_ms in range(1000, 3000, 50):
        trigger.began(50, 50, at_ms * MS)
        trigger.ended(25)
    assert trigger.threshold(20 * MS) == closed_form(100, 1.0, 20.0, 0.5).messages == 80
    assert trigger.threshold(40 * MS) == closed_form(100, 1.0, 40.0, 0.5).messages == 40


def test_a_round_begins_when_enough_waits_or_it_has_waited_long_enough() -> None:
    trigger = Trigger(10, 30 * MS, 0)
    assert trigger.deadline_ns() == NEVER
    assert not trigger.due(0, True, MS, 0)
    assert not trigger.due(3, True, MS, 5 * MS)
    assert trigger.deadline_ns() == 35 * MS
    assert trigger.due(3, False, MS, 35 * MS)
    assert trigger.due(10, True, MS, 6 * MS)
    assert not trigger.due(10, False, MS, 6 * MS), "nothing has come since the last round"
    trigger.began(10, 10, 40 * MS)
    assert trigger.deadline_ns() == NEVER


def test_a_fixed_period_is_kept() -> None:
    trigger = Trigger(10, 30 * MS, 100 * MS)
    assert trigger.due(10, True, MS, MS)
    trigger.began(10, 10, MS)
    assert not trigger.due(10, True, MS, 50 * MS)
    assert trigger.deadline_ns() == 101 * MS
    assert trigger.due(1, False, MS, 101 * MS)


# -- rides -----------------------------------------------------------------------------------------


def test_frames_ride_on_datagrams_with_room_and_go_alone_when_they_waited_enough() -> None:
    """STAB §7: piggy-backing on data."""
    me = Source(1, 1)
    limits = Limits(576)
    rides = Rides(me, limits, 5 * MS)
    frame = Round(9, 1, False, 1, 0, 0, 7, 0, 1, 0, 0, [])
    assert rides.wait(7, frame, 0)
    assert rides.board(bytes(limits.frames_bytes_max)) == bytes(limits.frames_bytes_max)
    assert rides.overdue(4 * MS) == []
    assert rides.next_deadline_ns() == 5 * MS
    assert Decoder().decode(rides.board(b""), me).control == [frame]
    assert rides.next_deadline_ns() == NEVER
    assert rides.wait(7, frame, 10 * MS)
    assert rides.overdue(15 * MS) == [(7, frame)]
    assert rides.board(b"") == b""


def test_frames_of_any_type_ride_but_none_that_fits_no_datagram() -> None:
    me = Source(1, 1)
    limits = Limits(576)
    rides = Rides(me, limits, 5 * MS)
    echo, of_another = Echo(True, 7), Fragment(Source(2, 1), 1, 0, 1, b"piece")
    assert rides.wait(7, echo, 0)
    assert rides.wait(8, of_another, 0)
    assert not rides.wait(7, Times(9, 0, [1] * limits.frames_bytes_max), 0)
    assert Decoder().decode(rides.board(b""), me).control == [echo, of_another]


def test_without_a_time_to_wait_nothing_waits() -> None:
    frame = Round(9, 1, False, 1, 0, 0, 7, 0, 1, 0, 0, [])
    assert not Rides(Source(1, 1), Limits(), 0).wait(7, frame, 0)


# -- abstaining ------------------------------------------------------------------------------------


def test_a_result_that_is_heard_again_is_no_further_round_that_was_abstained_in() -> None:
    """Also if another source has come meanwhile, which is given a column between rounds."""
    config = MemberConfig(stability="coordp")
    view = View.first([1, 2], config.f).with_life(2, 2)
    back = RoundDetection(config, Source(2, 2), view, False, joining=True)
    theirs = Source(1, 1)

    def hear(kind: int, round_number: int) -> None:
        epoch = back._roll.epoch
        rows = [(theirs, 4, 4)]
        back.on_frame(
            Round(view.digest, 2, False, kind, 1, 0, -1, epoch, round_number, 0, 2, rows), theirs, 0
        )

    hear(START, 1)
    back.follows(Source(2, 1))
    hear(INFO, 1)
    assert back.follows(theirs), "it has abstained in a round"
    later = Source(1, 2)
    changed = view.with_life(1, 2)
    back.install(changed, 0)
    assert not back.follows(later)
    hear(INFO, 1)
    hear(INFO, 1)
    assert not back.follows(later), "it has not voted in a round of this view"


# -- lives that somebody had no room for -----------------------------------------------------------


def said(detection: RoundDetection, me: Source) -> list[Round]:
    """What a detection has to say."""
    outbox = Outbox(me, Limits())
    detection.pack(outbox, 0)
    outbox.close()
    found = [Decoder().decode(one.frames, me).control for one in outbox.take()]
    return [frame for frames in found for frame in frames if isinstance(frame, Round)]


@pytest.mark.parametrize("left_out", [False, True])
def test_nothing_is_begun_with_in_a_round_in_which_something_is_left_out(left_out: bool) -> None:
    config = MemberConfig(stability="coordp")
    view = View.first([1, 2], config.f).with_life(2, 2)
    back = RoundDetection(config, Source(2, 2), view, False, joining=True)
    theirs, epoch, rows = Source(1, 1), back._roll.epoch, [(Source(1, 1), 4, 4)]
    back.on_frame(Round(view.digest, 2, False, START, 0, 0, -1, epoch, 1, 0, 0, []), theirs, 0)
    back.on_frame(
        Round(view.digest, 2, False, INFO, 1, 0, -1, epoch, 1, 0, 2, rows, left_out), theirs, 0
    )
    assert back.follows(theirs) is not left_out


@pytest.mark.parametrize("left_out", [False, True])
def test_nothing_ends_in_a_round_in_which_something_is_left_out(left_out: bool) -> None:
    """The root counts votes; what it has heard, it passes on with the result."""
    config = MemberConfig(stability="coordp")
    view = View(3, (1, 2), (1, 2), config.f)
    me, over = Source(1, 1), Source(2, 1)
    root = RoundDetection(config, me, view, False, joining=False)
    root.has(over, 4, 0)
    root.no_room(0)
    root.poll(0)
    said(root, me)
    epoch, rows = root._roll.epoch, [(over, 4, 4)]
    root.on_frame(
        Round(view.digest, 3, False, ACK, 1, 0, 1, epoch, 1, 0, 1, rows, left_out), Source(2, 2), 0
    )
    agreed = root.poll(0)
    assert agreed is not None
    assert (over in agreed.ended) is not left_out
    assert [one.left_out for one in said(root, me) if one.kind == INFO] == [left_out]


@pytest.mark.parametrize("joining", [False, True])
def test_who_came_back_has_no_say_on_what_it_has_not_heard_of(joining: bool) -> None:
    config = MemberConfig(stability="fulldist")
    view = View.first([1, 2], config.f).with_life(2, 2)
    back = RoundDetection(config, Source(2, 2), view, False, joining=joining)
    epoch = back._roll.epoch
    start = Round(view.digest, 2, False, START, 0, 0, -1, epoch, 1, 0, 0, [])
    back.on_frame(start, Source(1, 1), 0)
    (vote,) = said(back, Source(2, 2))
    assert vote.unnamed == (ABSTAIN if joining else HAVE_NONE)
