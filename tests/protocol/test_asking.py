"""Asking: the sender first, then whoever has it; a silent member holds nobody up."""

import random

import pytest

from semcast.ids import Source
from semcast.protocol.streams.asking import NOBODY, SIZE_MAX, Asking, RequestWindow

MS = 1_000_000
RTO_NS = 8 * MS
SENDER, A, B, C = 1, 2, 3, 4
OTHERS = [SENDER, A, B, C]
SOURCE = Source(SENDER, 1)


def make(group: bool = True) -> Asking:
    return Asking(OTHERS, RTO_NS, group, random.Random("asking"))


def targets(asking: Asking, tries: int, alive: bool = True, last: int = 10) -> set[int]:
    return {asking.target(SOURCE, last, tries, alive, OTHERS) for _ in range(200)}


def test_the_sender_is_asked_first_and_then_anybody() -> None:
    asking = make()
    assert targets(asking, 0) == {SENDER}
    assert targets(asking, 1) == set(OTHERS)


def test_of_a_feed_only_the_sender_is_asked() -> None:
    asking = make(group=False)
    assert targets(asking, 0) == targets(asking, 5) == {SENDER}
    assert targets(asking, 0, alive=False) == {NOBODY}
    asking.timed_out(SENDER, 5, 20)
    assert targets(asking, 1) == {SENDER}


def test_a_sender_that_is_gone_is_not_asked() -> None:
    asking = make()
    others = [A, B]
    assert {asking.target(SOURCE, 9, 0, False, others) for _ in range(99)} == {A, B}
    assert asking.target(SOURCE, 9, 0, False, []) == NOBODY


def test_a_silent_member_is_asked_only_if_there_is_nobody_else() -> None:
    """Issue 15.7: the dead sender was asked first for every message, for ever."""
    asking = make()
    asking.heard(SENDER, 10)
    asking.timed_out(SENDER, 20, 30)
    assert targets(asking, 0) == targets(asking, 1) == {A, B, C}
    asking.heard(SENDER, 40)
    assert targets(asking, 0) == {SENDER}


def test_one_that_was_heard_since_it_was_asked_is_not_silent() -> None:
    """The answer was lost, or it has not got the message; it is there all the same."""
    asking = make()
    asking.heard(SENDER, 25)
    asking.timed_out(SENDER, 20, 30)
    assert targets(asking, 0) == {SENDER}


def test_when_all_are_silent_any_of_them_is_asked() -> None:
    asking = make()
    for member in OTHERS:
        asking.timed_out(member, 5, 10)
    assert targets(asking, 1) == set(OTHERS)


def test_those_whose_votes_show_that_they_have_it_are_asked_before_others() -> None:
    asking = make()
    asking.has(B, SOURCE, 10)
    asking.has(C, SOURCE, 9)
    assert targets(asking, 1) == {B}
    assert targets(asking, 1, last=9) == {B, C}
    asking.restarted(B)
    assert targets(asking, 1) == set(OTHERS)


def test_the_time_outs_of_a_silent_member_do_not_count_against_others() -> None:
    asking = make()
    before = asking.size(SOURCE, True, OTHERS)
    for at in range(10):
        asking.timed_out(SENDER, at * 100 * MS, at * 100 * MS + 50 * MS)
    assert asking.size(SOURCE, True, OTHERS) >= before
    assert asking.rto_ns(A) == RTO_NS


def test_without_the_sender_the_windows_of_all_others_count() -> None:
    asking = make()
    one = asking.size(SOURCE, True, OTHERS)
    assert asking.size(SOURCE, False, [A, B, C]) == 3 * one


@pytest.mark.parametrize("size_max", [1, 2, 64])
def test_the_window_never_leaves_its_bounds(size_max: int) -> None:
    window, draw = RequestWindow(RTO_NS, size_max), random.Random(size_max)
    for now in range(0, 20_000 * MS, 20 * MS):
        if draw.random() < 0.5:
            window.on_arrival(MS, True, now)
        else:
            window.on_timeout(now)
        assert 1 <= window.size <= size_max


def test_the_window_grows_fast_then_slowly() -> None:
    """As TCP's: slow start, then one more per round trip. SRM §5.3"""
    window = RequestWindow(RTO_NS, 64)
    for _ in range(100):
        window.on_arrival(MS, True, MS)
    assert window.size == 64
    window.on_timeout(500 * MS)
    assert window.size == 32
    for _ in range(32):
        window.on_arrival(MS, True, 501 * MS)
    assert window.size == 33


def test_the_window_starts_again_only_if_nothing_at_all_is_answered() -> None:
    """One loss among answers is no reason to ask for one thing at a time."""
    window = RequestWindow(RTO_NS, SIZE_MAX)
    window.on_arrival(MS, True, 99 * MS)
    window.on_timeout(100 * MS)
    assert window.size > 1
    window.on_timeout(200 * MS)
    assert window.size == 1


def test_many_losses_in_one_round_trip_shrink_it_once() -> None:
    window = RequestWindow(RTO_NS, 64)
    for _ in range(60):
        window.on_arrival(MS, True, MS)
    window.on_timeout(100 * MS)
    size = window.size
    window.on_timeout(100 * MS + 1)
    assert window.size == size


def test_only_what_was_asked_for_once_is_a_measure_of_time() -> None:
    """Karn's rule."""
    window = RequestWindow(RTO_NS, 64)
    before = window.rto_ns
    window.on_arrival(900 * MS, False, 1)
    assert window.rto_ns == before
    window.on_arrival(900 * MS, True, 1)
    assert window.rto_ns > before


def test_members_that_come_may_be_asked_and_those_dropped_are_forgotten() -> None:
    asking = make()
    asking.restarted(5)
    assert {asking.target(SOURCE, 10, 1, False, [5]) for _ in range(5)} == {5}
    asking.has(5, SOURCE, 10)
    asking.dropped(5)
    asking.has(5, SOURCE, 20)
    asking.timed_out(5, 0, RTO_NS)
    assert asking.rto_ns(5) == RTO_NS
    assert asking.target(SOURCE, 10, 1, False, []) == NOBODY
