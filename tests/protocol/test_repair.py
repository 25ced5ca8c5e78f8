"""Repair: requests wait, silence each other, and go on until answered; ranges, not messages."""

import random

from hypothesis import given
from hypothesis import strategies as st

from semcast.protocol.streams.holes import Holes
from semcast.protocol.streams.repair import Repair, Want

MS = 1_000_000
DELAY_NS = 2 * MS
RTO_NS = 8 * MS
SOMEBODY = 7
FAR = 1 << 40


def make() -> Repair:
    return Repair(DELAY_NS, random.Random("repair"))


def missing(*ranges: tuple[int, int]) -> Holes:
    holes = Holes()
    for first, last in ranges:
        holes.add(first, last)
    return holes


def want(repair: Repair, *ranges: tuple[int, int], run: int = 100, most: int = 10) -> None:
    repair.want(missing(*ranges), FAR, run, most, 0)


def ask(repair: Repair, now_ns: int) -> list[tuple[int, int]]:
    """Ask for everything that is due, as a member does; says for what."""
    due = repair.due(now_ns)
    for one in due:
        repair.asked(one, SOMEBODY, RTO_NS, now_ns)
    repair.look_again()
    return ranges_of(due)


def ranges_of(wants: list[Want]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in wants]


def test_a_request_waits_for_a_random_back_off() -> None:
    repair = make()
    want(repair, (5, 5))
    due = repair.next_deadline_ns()
    assert 0 <= due < DELAY_NS
    assert ask(repair, due - 1) == []
    assert ask(repair, due) == [(5, 5)]


def test_a_range_is_asked_for_once_until_its_time_is_up() -> None:
    repair = make()
    want(repair, (5, 9))
    assert ask(repair, DELAY_NS) == [(5, 9)]
    want(repair, (5, 9))
    assert ask(repair, DELAY_NS + RTO_NS - 1) == []
    (again,) = repair.due(2 * DELAY_NS + RTO_NS)
    assert (again.first, again.last, again.tries) == (5, 9, 1)


def test_a_lost_burst_is_asked_for_in_ranges_of_a_datagram_each() -> None:
    repair = make()
    want(repair, (1, 950), (2000, 2100), run=900)
    assert ask(repair, DELAY_NS) == [(1, 900), (901, 950), (2000, 2100)]


def test_no_more_is_wanted_than_whoever_is_asked_can_take_and_the_nearest_first() -> None:
    repair = make()
    want(repair, (1, 500), run=10, most=4)
    assert ask(repair, DELAY_NS) == [(1, 10), (11, 20), (21, 30), (31, 40)]
    repair.arrived(11, 20)
    want(repair, (1, 10), (21, 500), run=10, most=5)
    assert ask(repair, 2 * DELAY_NS) == [(41, 50), (51, 60)]


def test_what_is_farther_than_there_is_room_for_is_not_asked_for() -> None:
    repair = make()
    repair.want(missing((1, 10), (50, 60)), 55, 100, 10, 0)
    assert ask(repair, DELAY_NS) == [(1, 10), (50, 55)]


def test_what_arrives_is_not_asked_for_again() -> None:
    repair = make()
    want(repair, (5, 9))
    ask(repair, DELAY_NS)
    assert repair.arrived(5, 6) == []
    assert repair.arrived(8, 8) == []
    assert ask(repair, 1000 * MS) == [(7, 7), (9, 9)]
    assert ranges_of(repair.arrived(1, 7)) == [(7, 7)]
    assert ranges_of(repair.passed(100)) == [(9, 9)]
    assert repair.next_deadline_ns() < 0


def test_what_comes_before_it_was_asked_for_answers_no_request() -> None:
    repair = make()
    want(repair, (5, 9))
    assert repair.arrived(5, 9) == []
    assert len(repair) == 0


def test_the_request_of_another_silences_ours() -> None:
    repair = make()
    want(repair, (5, 5), (9, 9))
    repair.asked_by_another(4, 6, RTO_NS, 0)
    assert ask(repair, DELAY_NS) == [(9, 9)]
    assert (5, 5) in ask(repair, 2 * DELAY_NS + RTO_NS)


def test_a_request_for_a_part_silences_nothing() -> None:
    """The rest of the range would be asked for by nobody."""
    repair = make()
    want(repair, (5, 9))
    repair.asked_by_another(5, 6, RTO_NS, 0)
    assert ask(repair, DELAY_NS) == [(5, 9)]


def test_patience_doubles_with_every_try() -> None:
    repair = make()
    want(repair, (1, 1))
    now = DELAY_NS
    gaps = []
    for _ in range(4):
        assert ask(repair, now) == [(1, 1)]
        later = repair.next_deadline_ns()
        gaps.append(later - now)
        now = later
    for tries, gap in enumerate(gaps):
        assert RTO_NS << tries <= gap <= (RTO_NS << tries) + DELAY_NS


def test_answers_that_take_longer_than_any_wait_are_asked_for_ever_less() -> None:
    """Else a slow link fills with copies of what is on its way already."""
    repair = Repair(10_000, random.Random(1))
    want(repair, (1, 1))
    asked = 0
    while repair.next_deadline_ns() < 10_000 * MS:
        now = repair.next_deadline_ns()
        for one in repair.due(now):
            repair.asked(one, SOMEBODY, 40_000, now)
            asked += 1
        repair.look_again()
    assert asked < 30


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 60), st.integers(0, 9), st.integers(1, 6)),
        max_size=25,
    )
)
def test_wants_are_the_nearest_of_what_is_missing_and_nothing_else(
    steps: list[tuple[bool, int, int, int]],
) -> None:
    """Whatever comes and goes, every want is missing, no number is wanted twice, and with room
    for more all that is missing is wanted.
    """
    repair, holes, naive = make(), Holes(), set[int]()
    for adds, first, more, run in steps:
        some = set(range(first, first + more + 1))
        if adds and not naive & some:
            holes.add(first, first + more)
            naive |= some
        elif not adds:
            holes.fill(first, first + more)
            repair.arrived(first, first + more)
            naive -= some
        repair.want(holes, FAR, run, 1000, 0)
        wanted = [seq for one in repair.due(FAR) for seq in range(one.first, one.last + 1)]
        assert wanted == sorted(naive)
