"""One sequence of openings, whatever fails: promises, accepts, and what the next manager finds."""

from itertools import combinations

import pytest
from tests.protocol.propagation.samples import STREAMS, opening

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.council import ACCEPTED_MAX, Ballots, Poll, is_quorum
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import NO_TERM, Opening, write_opening


def seats(count: int) -> tuple[Seat, ...]:
    """The first came first; ids are in no order."""
    return tuple(Seat((7 * site) % 11, 1, "", ()) for site in range(1, count + 1))


@pytest.mark.parametrize(
    ("count", "present", "enough"),
    [
        (1, (0,), True),
        (2, (0,), True),
        (2, (1,), False),
        (3, (0,), False),
        (3, (1, 2), True),
        (4, (0, 3), True),
        (4, (1, 2), False),
        (4, (1, 2, 3), True),
        (5, (0, 1), False),
        (5, (2, 3, 4), True),
    ],
)
def test_a_majority_decides_and_of_halves_the_one_with_the_first_site(
    count: int, present: tuple[int, ...], enough: bool
) -> None:
    sites = seats(count)
    assert is_quorum(sites, {sites[at].sender for at in present}) is enough


@pytest.mark.parametrize("count", range(1, 7))
def test_two_quorums_always_share_a_site(count: int) -> None:
    sites = seats(count)
    senders = [seat.sender for seat in sites]
    quorums = [
        set(some)
        for size in range(count + 1)
        for some in combinations(senders, size)
        if is_quorum(sites, set(some))
    ]
    assert quorums
    assert all(one & other for one in quorums for other in quorums)


def test_a_site_that_is_gone_counts_for_nothing() -> None:
    assert not is_quorum(seats(3), {77, 78, 79})


def test_a_promise_is_never_taken_back() -> None:
    """INV-TERM."""
    ballots = Ballots(Memory(None, Streams()))
    assert ballots.promise((2, 5))
    assert ballots.promise((2, 5))
    assert not ballots.promise((2, 4))
    assert not ballots.promise((1, 9))
    assert ballots.promise((2, 6))
    assert ballots.promised == (2, 6)


def test_nothing_of_an_earlier_term_is_accepted() -> None:
    ballots = Ballots(Memory(None, Streams()))
    assert ballots.accept((3, 1), 2, b"newer")
    assert not ballots.accept((2, 9), 2, b"older")
    assert ballots.accepted_after(1) == [((3, 1), b"newer")]
    assert ballots.accepted_after(2) == []


def test_what_was_accepted_is_known_by_the_numbers_of_graphs_and_bounded() -> None:
    """A manager may have several openings accepted before anybody has heard of the first."""
    ballots = Ballots(Memory(None, Streams()))
    assert ballots.accept((3, 1), 2, b"two")
    assert ballots.accept((4, 1), 3, b"three")
    assert ballots.accepted_after(1) == [((3, 1), b"two"), ((4, 1), b"three")]
    assert ballots.accept((5, 2), 2, b"two of another term")
    assert ballots.accepted_after(1) == [((5, 2), b"two of another term"), ((4, 1), b"three")]
    assert ballots.accepted() == ((4, 1), 3, b"three")
    for number in range(4, 50):
        assert ballots.accept((number + 2, 3), number, b"more")
    assert len(ballots.accepted_after(0)) == ACCEPTED_MAX


def test_to_accept_is_to_promise() -> None:
    ballots = Ballots(Memory(None, Streams()))
    assert ballots.accept((4, 2), 2, b"one")
    assert not ballots.promise((3, 9))
    assert ballots.promised == (4, 2)


def test_an_opening_that_was_not_finished_is_found_and_the_latest_term_counts() -> None:
    """A simple polling of the roots can determine that an Open is in progress (PROP §5.2.1)."""
    first = opening(1)
    poll = Poll((5, 2), first)
    assert poll.unfinished() == []
    poll.found(2, (2, 1), b"older")
    poll.found(2, (4, 3), b"newer")
    poll.found(2, (3, 1), b"between")
    assert poll.unfinished() == [b"newer"]


def test_all_openings_that_were_not_finished_are_found_in_order() -> None:
    poll = Poll((5, 2), opening(1))
    poll.found(3, (3, 1), b"three")
    assert poll.unfinished() == [], "nobody accepts the next one before this one is decided"
    poll.found(2, (2, 1), b"two")
    poll.found(2 + ACCEPTED_MAX, (4, 1), b"too far away")
    assert poll.unfinished() == [b"two", b"three"]
    poll.learned(opening(2))
    assert poll.unfinished() == [b"three"]


def test_what_was_found_before_an_opening_that_is_known_to_be_decided_means_nothing() -> None:
    poll = Poll((5, 2), opening(1))
    poll.found(2, (4, 3), write_opening(opening(2), STREAMS))
    poll.learned(opening(1))
    assert poll.unfinished()
    poll.learned(opening(2))
    assert poll.unfinished() == []
    assert poll.opening.number == 2


def won_by(known: Opening, *sites: int) -> bool:
    """Whether a poll is won if these sites promise, and one of them knows this opening."""
    poll = Poll((2, 2), opening(1))
    poll.learned(known)
    for site in sites:
        poll.promised(site)
    return poll.won


def test_a_poll_is_won_by_a_quorum_of_the_newest_opening_that_is_known() -> None:
    assert not won_by(opening(1), 2, 4)
    assert won_by(opening(1), 2, 4, 5)
    # After c failed there are four seats: two are enough only with a.
    assert not won_by(opening(2, recovers=True), 2, 4)
    assert won_by(opening(2, recovers=True), 2, 1)


def test_a_site_begins_without_a_promise() -> None:
    ballots = Ballots(Memory(None, Streams()))
    assert ballots.promised == NO_TERM
    assert ballots.accepted_after(0) == []
