"""Repair: requests wait, silence each other, stay within a window, and go on until answered."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from semcast.protocol.repair import Repair, RequestWindow, ranges_of

MS = 1_000_000
DELAY_NS = 2 * MS


def make(size_max: int = 64) -> tuple[Repair, RequestWindow]:
    window = RequestWindow(4 * DELAY_NS, size_max)
    return Repair(window, DELAY_NS, random.Random("repair")), window


def test_a_request_waits_for_a_random_back_off() -> None:
    repair, _ = make()
    repair.want([5], 0)
    due = repair.next_deadline_ns()
    assert 0 <= due < DELAY_NS
    assert repair.due(due - 1) == ([], 0)
    assert repair.due(due) == ([5], 0)


def test_a_message_is_asked_for_once_until_its_time_is_up() -> None:
    repair, window = make()
    repair.want([5], 0)
    assert repair.due(DELAY_NS)[0] == [5]
    repair.want([5], DELAY_NS)
    assert repair.due(DELAY_NS + window.rto_ns - 1)[0] == []
    assert repair.due(2 * DELAY_NS + window.rto_ns) == ([5], 1)


def test_what_arrives_is_not_asked_for_again() -> None:
    repair, _ = make()
    repair.want([5, 6], 0)
    repair.due(DELAY_NS)
    repair.arrived(5, DELAY_NS + MS)
    assert repair.due(1000 * MS)[0] == [6]


def test_the_request_of_another_silences_ours() -> None:
    repair, window = make()
    repair.want([5, 6], 0)
    repair.asked_by_another(5, 5, 0)
    assert repair.due(DELAY_NS)[0] == [6]
    assert repair.due(2 * DELAY_NS + window.rto_ns)[0] != []


def test_patience_doubles_with_every_try() -> None:
    repair, window = make()
    repair.want([1], 0)
    now = DELAY_NS
    gaps = []
    for _ in range(4):
        assert repair.due(now)[0] == [1]
        later = repair.next_deadline_ns()
        gaps.append(later - now)
        now = later
    first = window.rto_ns
    for tries, gap in enumerate(gaps):
        assert first << tries <= gap <= (first << tries) + DELAY_NS


def test_no_more_is_wanted_than_the_window_allows() -> None:
    repair, window = make()
    repair.want(list(range(1, 1000)), 0)
    assert len(repair) == window.size


def test_the_window_grows_fast_then_slowly_and_shrinks_on_loss() -> None:
    """As TCP's: slow start, one more per round trip, back to one. SRM §5.3"""
    window = RequestWindow(8 * MS, 64)
    for _ in range(100):
        window.on_arrival(MS, True)
    assert window.size == 64
    window.on_timeout(500 * MS)
    assert window.size == 1
    for _ in range(31):
        window.on_arrival(MS, True)
    assert window.size == 32
    for _ in range(32):
        window.on_arrival(MS, True)
    assert window.size == 33


def test_many_losses_in_one_round_trip_shrink_it_once() -> None:
    window = RequestWindow(8 * MS, 64)
    for _ in range(60):
        window.on_arrival(MS, True)
    window.on_timeout(100 * MS)
    window.on_arrival(MS, True)
    window.on_timeout(100 * MS + 1)
    assert window.size == 2


def test_only_a_message_asked_for_once_is_a_measure_of_time() -> None:
    """Karn's rule."""
    window = RequestWindow(8 * MS, 64)
    before = window.rto_ns
    window.on_arrival(900 * MS, False)
    assert window.rto_ns == before
    window.on_arrival(900 * MS, True)
    assert window.rto_ns > before


def test_answers_that_take_longer_than_any_wait_are_asked_for_ever_less() -> None:
    """Else a slow link fills with copies of what is on its way already."""
    repair = Repair(RequestWindow(40_000, 64), 10_000, random.Random(1))
    repair.want([1], 0)
    asked = 0
    while repair.next_deadline_ns() < 10_000 * MS:
        asked += len(repair.due(repair.next_deadline_ns())[0])
    assert asked < 30


@given(st.sets(st.integers(1, 60)))
def test_ranges_say_exactly_what_they_are_made_of(seqs: set[int]) -> None:
    ranges = ranges_of(sorted(seqs))
    assert {seq for first, last in ranges for seq in range(first, last + 1)} == seqs
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(ranges))
