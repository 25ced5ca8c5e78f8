"""What came: duplicates, gaps that are told once, and bounded memory."""

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.epidemic.making import SECOND

from semcast.ids import NEVER, SEQ_MAX, Source
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.inbox import Inbox

A = Source(1, 1)


def inbox(
    seen: int = 8, sources: int = 100, patience_s: float = 1.0, joining: bool = False
) -> Inbox:
    config = GossipConfig(
        seen_messages=seen, sources_max=sources, patience_ns=round(patience_s * SECOND)
    )
    return Inbox(config, joining)


@given(st.lists(st.integers(1, 40), max_size=100), st.integers(1, 10))
def test_every_number_is_new_once_or_given_up_and_never_both(seqs: list[int], seen: int) -> None:
    here = inbox(seen, patience_s=5)
    came: set[int] = set()
    lost: set[int] = set()
    for at, seq in enumerate(seqs):
        if here.is_new(A, seq):
            assert seq not in came | lost
            came.add(seq)
            gone = here.note(A, seq, at * SECOND)
            assert gone == sorted(set(gone))
            assert not lost & set(gone)
            assert not came & set(gone)
            lost |= set(gone)
        else:
            assert seq in came | lost
    if came:
        # What lies back further than the window is settled.
        assert set(range(1, max(came) - seen + 1)) <= came | lost


def test_what_is_missing_for_long_is_given_up() -> None:
    here = inbox(seen=1000)
    assert here.note(A, 1, 0) == []
    assert here.note(A, 4, 0) == []
    assert here.note(A, 3, SECOND // 2) == []
    assert here.missing(A, 2)
    assert here.note(A, 5, 2 * SECOND) == [2]
    assert not here.is_new(A, 2)


def test_what_is_missing_of_a_source_that_fell_silent_is_given_up_as_soon() -> None:
    here = inbox(seen=1000)
    here.note(A, 1, 0)
    assert here.next_deadline_ns() == NEVER
    here.note(A, 3, 0)
    # A later gap, which the mark of the first one says nothing of.
    here.note(A, 5, SECOND // 10)
    found: list[tuple[Source, list[int]]] = []
    now_ns = last_ns = 0
    while (due_ns := here.next_deadline_ns()) != NEVER:
        assert due_ns > now_ns
        now_ns = due_ns
        found += here.expire(now_ns)
        last_ns = now_ns
    assert found == [(A, [2]), (A, [4])]
    assert SECOND < last_ns <= 3 * SECOND // 2
    assert not here.is_new(A, 2)


def test_a_gap_that_is_filled_in_time_is_not_told_and_nothing_goes_on() -> None:
    here = inbox(seen=1000)
    here.note(A, 2, 0)
    here.note(A, 1, SECOND // 2)
    assert here.expire(SECOND) == []
    assert here.next_deadline_ns() == NEVER


def test_a_source_that_was_forgotten_begins_anew_and_misses_nothing_of_before() -> None:
    here = inbox(sources=1)
    here.note(A, 1, 0)
    here.note(Source(2, 1), 1, 0)
    assert here.note(A, 7, 0) == []
    assert here.next_deadline_ns() == NEVER


def test_who_comes_later_misses_nothing_of_before() -> None:
    here = inbox(joining=True)
    assert here.note(A, 500, 0) == []
    assert not here.is_new(A, 499)
    assert here.note(A, 502, 5 * SECOND) == []
    assert here.note(A, 503, 9 * SECOND) == [501]


def test_a_number_from_far_away_costs_no_memory_and_hides_nothing() -> None:
    here = inbox()
    here.note(A, 1, 0)
    lost = here.note(A, SEQ_MAX, 0)
    assert lost[-1] == SEQ_MAX - 8
    assert len(lost) + here.untold == SEQ_MAX - 8 - 1


def test_only_so_many_sources_are_remembered_and_those_heard_of_last() -> None:
    here = inbox(sources=3)
    for sender in (1, 2, 3):
        here.note(Source(sender, 1), 1, 0)
    here.note(Source(1, 1), 2, 0)
    here.note(Source(4, 1), 1, 0)
    assert len(here) == 3
    assert here.forgotten == 1
    assert not here.is_new(Source(1, 1), 2)
    assert here.is_new(Source(2, 1), 1)
