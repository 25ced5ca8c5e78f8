"""Who is a quorum, and what one member answers and decides."""

import pytest

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.membership.agreement import (
    HEIRS_MAX,
    NO_BALLOT,
    QUORUMS,
    Agreement,
    Electorate,
    Said,
    Succession,
    electorate_of,
)
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import ACCEPT, PREPARE, PROMISE, REFUSE, VOTE

ONE = Change(gone=(1,))
OTHER = Change(gone=(2,))
ROUND = 1 << 16


def view_of(members: int, gone: int = 0, since: tuple[int, ...] = ()) -> View:
    ids = tuple(range(members))
    names = tuple(f"p{at}" for at in ids)
    return View(3, ids, (1,) * members, 1, names, gone, since or (1,) * members, 77)


def agreement(me: int, members: int = 3) -> Agreement:
    return Agreement(Electorate(view_of(members), "majority"), me)


# -- quorums ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("quorum", ["majority", "all"])
@pytest.mark.parametrize("members", range(1, 7))
def test_two_quorums_share_a_member(members: int, quorum: str) -> None:
    for gone in range((1 << members) - 1):
        electorate = Electorate(view_of(members, gone), quorum)
        quorums = [bits for bits in range(1 << members) if electorate.is_quorum(bits)]
        there = ((1 << members) - 1) & ~gone
        assert there in quorums
        for one in quorums:
            assert all(one & other & there for other in quorums)


@pytest.mark.parametrize(
    ("members", "bits", "enough"),
    [
        (1, 0b1, True),
        (2, 0b01, True),
        (2, 0b10, False),
        (3, 0b001, False),
        (3, 0b110, True),
        (4, 0b0011, True),
        (4, 0b1100, False),
        (4, 0b1110, True),
        (5, 0b00011, False),
        (5, 0b11100, True),
    ],
)
def test_a_majority_decides_and_of_two_halves_the_one_with_the_first(
    members: int, bits: int, enough: bool
) -> None:
    assert Electorate(view_of(members), "majority").is_quorum(bits) == enough


def test_the_first_is_who_has_been_in_longest() -> None:
    """One that has just come in may have a lower id, and may not get in after all."""
    electorate = Electorate(view_of(4, since=(3, 2, 1, 1)), "majority")
    assert electorate.heirs == [2, 3, 1, 0]
    assert electorate.is_quorum(0b0101)
    assert not electorate.is_quorum(0b1010)
    gone = Electorate(view_of(4, gone=0b0100, since=(3, 2, 1, 1)), "majority")
    assert gone.heirs == [3, 1, 0]


def test_a_large_group_has_only_so_many_heirs() -> None:
    assert len(Electorate(view_of(100), "majority").heirs) == HEIRS_MAX


def test_with_quorum_one_anybody_decides_and_with_all_only_all() -> None:
    assert Electorate(view_of(3), "one").is_quorum(0b100)
    assert not Electorate(view_of(3), "one").is_quorum(0)
    assert not Electorate(view_of(3), "all").is_quorum(0b101)
    assert Electorate(view_of(3, gone=0b010), "all").is_quorum(0b101)


def test_a_quorum_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=QUORUMS[0]):
        Electorate(view_of(3), "most")


def test_electorates_are_shared_and_no_more_than_a_few_are_kept() -> None:
    first = electorate_of(view_of(3), "majority")
    assert electorate_of(view_of(3), "majority") is first
    assert electorate_of(view_of(3, since=(2, 1, 1)), "majority") is not first
    for members in range(1, 60):
        assert len(electorate_of(view_of(members), "all").view.members) == members


# -- ballots ---------------------------------------------------------------------------------------


def test_only_the_first_member_may_go_without_promises() -> None:
    assert agreement(0).claim()
    assert not agreement(1).claim()
    late = agreement(0)
    late.receive(Said(PREPARE, ROUND | 1), 1)
    assert not late.claim()


def test_one_round_trip_decides() -> None:
    first, second = agreement(0), agreement(1)
    assert first.claim()
    vote = second.receive(first.offer(ONE), 0)
    assert vote is not None
    assert (vote.step, vote.ballot) == (VOTE, 0)
    assert first.decided is None
    first.receive(vote, 1)
    assert first.decided is ONE


def test_whoever_is_alone_decides_at_once() -> None:
    alone = agreement(0, 1)
    assert alone.claim()
    alone.offer(ONE)
    assert alone.decided is ONE


def test_a_promise_carries_the_last_vote_and_binds_who_gets_it() -> None:
    second, third = agreement(1), agreement(2)
    second.receive(Said(ACCEPT, 0, NO_BALLOT, ONE), 0)
    promise = second.receive(third.prepare(), 2)
    assert promise is not None
    assert (promise.step, promise.voted, promise.change) == (PROMISE, 0, ONE)
    third.receive(promise, 1)
    assert third.ready
    assert third.offer(OTHER).change is ONE


def test_what_was_promised_to_one_is_refused_to_a_lower_ballot() -> None:
    second = agreement(1)
    second.receive(Said(PREPARE, ROUND | 2), 2)
    for said in (Said(PREPARE, 0), Said(ACCEPT, 0, NO_BALLOT, ONE)):
        refusal = second.receive(said, 0)
        assert refusal is not None
        assert (refusal.step, refusal.ballot) == (REFUSE, ROUND | 2)
    assert second.voted == NO_BALLOT


def test_a_refused_proposer_goes_above_what_it_was_refused_for() -> None:
    first = agreement(0)
    first.claim()
    first.offer(ONE)
    first.receive(Said(REFUSE, 5 * ROUND | 2), 1)
    assert first.overtaken
    assert first.prepare().ballot == 6 * ROUND


def test_votes_and_promises_of_another_ballot_do_not_count() -> None:
    first = agreement(0)
    first.claim()
    first.offer(ONE)
    first.prepare()
    first.receive(Said(PROMISE, 0), 1)
    assert not first.ready
    first.receive(Said(PROMISE, first.ballot), 1)
    first.offer(OTHER)
    first.receive(Said(VOTE, 0), 1)
    assert first.decided is None
    first.receive(Said(VOTE, first.ballot), 1)
    # What it voted for itself in ballot 0 may have been decided, so that it was proposed again.
    assert first.decided is ONE


def test_votes_of_one_member_count_once() -> None:
    first = agreement(0, 5)
    first.claim()
    first.offer(ONE)
    for _ in range(5):
        first.receive(Said(VOTE, 0), 1)
    assert first.decided is None


@pytest.mark.parametrize("ballot", [0, ROUND | 1, (1 << 31) * ROUND | 2, 2])
def test_a_ballot_that_is_not_its_sender_s_is_ignored(ballot: int) -> None:
    acceptor = agreement(1)
    assert acceptor.receive(Said(PREPARE, ballot), 2) is None
    assert acceptor.receive(Said(ACCEPT, ballot, NO_BALLOT, ONE), 2) is None
    assert (acceptor.promised, acceptor.voted) == (0, NO_BALLOT)


def test_a_copy_goes_its_own_way() -> None:
    first = agreement(0)
    first.claim()
    other = first.copy()
    assert other.state() == first.state()
    other.offer(ONE)
    assert first.offered is None
    assert other.state() != first.state()


# -- views -----------------------------------------------------------------------------------------


def test_only_steps_of_this_view_by_members_in_this_life_count() -> None:
    view = view_of(3)
    member = Succession(Source(1, 1), view, "majority")
    accept = Said(ACCEPT, 0, NO_BALLOT, ONE)
    digest, number = view.digest, view.number
    assert member.receive(digest + 1, number, accept, Source(0, 1)) is None
    assert member.receive(digest, number + 1, accept, Source(0, 1)) is None
    assert member.receive(digest, number, accept, Source(0, 2)) is None
    assert member.receive(digest, number, accept, Source(9, 1)) is None
    assert member.agreement.voted == NO_BALLOT
    assert member.receive(digest, number, accept, Source(0, 1)) is not None
    assert member.agreement.voted == 0
