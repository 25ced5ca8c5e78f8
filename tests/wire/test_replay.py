"""Replay protection: every packet number once, whatever the order; nobody's past comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError, ReplayError
from semcast.ids import ID_MAX, Source
from semcast.wire.header import PACKET_MAX
from semcast.wire.replay import (
    FRESH,
    NO_ROOM,
    OLD_INCARNATION,
    SEEN,
    TOO_OLD,
    WINDOW_SIZE_MAX,
    ReplayGuard,
    ReplayWindow,
)

SIZES = st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 1024])


def accept(window: ReplayWindow, packet: int) -> bool:
    """Ask and remember in one step: here nothing has to be verified in between."""
    fresh = window.verdict(packet) == FRESH
    if fresh:
        window.commit(packet)
    return fresh


@st.composite
def walks(draw: st.DrawFn) -> list[int]:
    """Packet numbers that wander: mostly near the last, at times far ahead."""
    near = st.integers(-80, 80)
    steps = draw(st.lists(near | st.integers(-1100, 1100) | st.just(1), min_size=1, max_size=150))
    at, numbers = draw(st.integers(1, 200) | st.integers(1, PACKET_MAX - 200_000)), []
    for step in steps:
        at = max(1, at + step)
        numbers.append(at)
    return numbers


def expected(packet: int, newest: int, size: int, seen: set[int]) -> str:
    """The definition of the window, with unbounded memory."""
    if packet > newest - size:
        return SEEN if packet in seen else FRESH
    return TOO_OLD


@given(size=SIZES, numbers=walks())
def test_the_ring_decides_as_unbounded_memory_would(size: int, numbers: list[int]) -> None:
    window, seen, newest = ReplayWindow(size), set[int](), 0
    for packet in numbers:
        verdict = expected(packet, newest, size, seen)
        assert window.verdict(packet) == verdict
        assert accept(window, packet) == (verdict == FRESH)
        if verdict == FRESH:
            seen.add(packet)
            newest = max(newest, packet)
        assert window.newest == newest
    # Not only the numbers asked for: the whole window and its edges hold no other bit.
    for packet in range(max(1, newest - size - 9), min(newest + 9, PACKET_MAX)):
        assert window.verdict(packet) == expected(packet, newest, size, seen)


@given(numbers=st.permutations(range(1, 101)))
def test_any_reordering_inside_the_window_is_accepted_once(numbers: list[int]) -> None:
    window = ReplayWindow(100)
    assert all(accept(window, packet) for packet in numbers)
    assert not any(accept(window, packet) for packet in numbers)


def test_the_default_window_holds_exactly_the_newest_1024_packets() -> None:
    window = ReplayWindow()
    window.commit(5000)
    assert window.verdict(5000 - 1024) == TOO_OLD
    assert window.verdict(5000 - 1023) == FRESH
    assert window.verdict(5000) == SEEN


def test_a_jump_to_the_largest_number_costs_no_more_than_the_window() -> None:
    window = ReplayWindow(64)
    assert all(accept(window, packet) for packet in range(1, 65))
    assert accept(window, PACKET_MAX)
    assert [window.verdict(PACKET_MAX - back) for back in (0, 1, 63, 64)] == [
        SEEN,
        FRESH,
        FRESH,
        TOO_OLD,
    ]


@given(size=SIZES, numbers=walks(), asked=walks())
def test_asking_changes_nothing(size: int, numbers: list[int], asked: list[int]) -> None:
    window, undisturbed = ReplayWindow(size), ReplayWindow(size)
    for packet in numbers:
        for other in asked[:20]:
            window.verdict(other)
        assert accept(window, packet) == accept(undisturbed, packet)


@pytest.mark.parametrize("size", [0, -1, WINDOW_SIZE_MAX + 1])
def test_a_window_of_no_sensible_size_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=str(size)):
        ReplayWindow(size)
    with pytest.raises(ConfigError, match=str(size)):
        ReplayGuard(window_size=size)


def test_a_guard_for_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="sources_max is 0"):
        ReplayGuard(sources_max=0)


def test_senders_have_windows_of_their_own() -> None:
    guard = ReplayGuard()
    guard.commit(Source(1, 1), 9)
    assert guard.verdict(Source(1, 1), 9) == SEEN
    assert guard.verdict(Source(2, 1), 9) == FRESH


def test_an_older_incarnation_is_refused_once_a_newer_one_is_authentic() -> None:
    guard = ReplayGuard()
    guard.commit(Source(1, 5), 100)
    # A newer one that was only asked for, not authenticated, ends nobody's life.
    assert guard.verdict(Source(1, 6), 1) == FRESH
    assert guard.verdict(Source(1, 5), 101) == FRESH
    guard.commit(Source(1, 6), 1)
    assert guard.verdict(Source(1, 5), 101) == OLD_INCARNATION
    assert guard.verdict(Source(1, 6), 2) == FRESH
    assert guard.verdict(Source(1, 6), 1) == SEEN


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Source, int]]:
    sources = st.builds(Source, st.integers(1, 6), st.integers(0, 3))
    return draw(st.lists(st.tuples(sources, st.integers(1, 12)), max_size=80))


@given(history=histories(), sources_max=st.integers(1, 6))
def test_nothing_is_accepted_twice_nor_after_a_newer_life_nor_beyond_the_bound(
    history: list[tuple[Source, int]], sources_max: int
) -> None:
    guard, accepted = ReplayGuard(sources_max), list[tuple[Source, int]]()
    for source, packet in history:
        senders = {earlier.sender for earlier, _ in accepted}
        lives = [s.incarnation for s, _ in accepted if s.sender == source.sender]
        verdict = guard.verdict(source, packet)
        if not lives:
            assert verdict == (FRESH if len(senders) < sources_max else NO_ROOM)
        elif source.incarnation < max(lives):
            assert verdict == OLD_INCARNATION
        else:
            assert verdict == (SEEN if (source, packet) in accepted else FRESH)
        if verdict == FRESH:
            guard.commit(source, packet)
            accepted.append((source, packet))
        assert len(guard) <= sources_max


def test_a_full_guard_refuses_strangers_and_forgets_nobody() -> None:
    guard = ReplayGuard(sources_max=3)
    for sender in (1, 2, 3):
        guard.commit(Source(sender, 1), 1)
    assert guard.verdict(Source(4, 1), 1) == NO_ROOM
    assert [guard.verdict(Source(sender, 1), 1) for sender in (1, 2, 3)] == [SEEN] * 3
    # A restart takes no more room.
    assert guard.verdict(Source(1, 2), 1) == FRESH


@pytest.mark.parametrize(
    ("source", "packet", "verdict", "text"),
    [
        (Source(1, 5), 2000, SEEN, "packet 2000 .* seen before"),
        (Source(1, 5), 976, TOO_OLD, "packet 976 .* newest is 2000 .* 1024 packets"),
        (Source(1, 4), 1, OLD_INCARNATION, "incarnation 5 .* larger incarnation"),
        (Source(ID_MAX, 1), 1, NO_ROOM, "raise sources_max .now 1."),
    ],
)
def test_a_refusal_says_why_with_numbers(
    source: Source, packet: int, verdict: str, text: str
) -> None:
    guard = ReplayGuard(sources_max=1)
    guard.commit(Source(1, 5), 2000)
    assert guard.verdict(source, packet) == verdict
    error = guard.refusal(verdict, source, packet)
    assert type(error) is ReplayError
    with pytest.raises(ReplayError, match=text):
        raise error


# -- lives that have to be proved ------------------------------------------------------------------


def test_what_is_not_proved_displaces_nothing_that_is() -> None:
    """Neither a later life nor an earlier one; and of two that are not, either may come."""
    guard = ReplayGuard(proving=True)
    for life in (5, 9, 3, 9):
        assert guard.verdict(Source(1, life), 1) == FRESH
        assert not guard.commit(Source(1, life), 1)
        assert guard.verdict(Source(1, life), 1) == SEEN
    assert guard.prove(Source(1, 5), 7)
    guard.commit(Source(1, 9), 2)
    assert guard.verdict(Source(1, 5), 8) == FRESH
    assert guard.commit(Source(1, 5), 8)
    assert guard.verdict(Source(1, 4), 1) == OLD_INCARNATION
    assert not guard.prove(Source(1, 4), 1)
    assert not guard.prove(Source(1, 5), 9)
    assert guard.prove(Source(1, 9), 3)
    assert guard.verdict(Source(1, 5), 9) == OLD_INCARNATION


def test_nothing_from_before_the_proof_is_fresh() -> None:
    guard = ReplayGuard(proving=True)
    guard.commit(Source(1, 5), 40)
    guard.commit(Source(1, 5), 37)
    assert guard.prove(Source(1, 5), 37)
    verdicts = {packet: guard.verdict(Source(1, 5), packet) for packet in range(1, 50)}
    assert {one for packet, one in verdicts.items() if packet <= 37} == {TOO_OLD}
    assert [packet for packet, one in verdicts.items() if one == SEEN] == [40]
    assert str(guard.refusal(TOO_OLD, Source(1, 5), 3)).endswith("it may have been recorded before")


def test_those_who_prove_nothing_take_no_room_from_those_who_do() -> None:
    guard = ReplayGuard(sources_max=3, proving=True)
    for sender in range(100):
        assert guard.verdict(Source(sender, 1), 1) == FRESH
        guard.commit(Source(sender, 1), 1)
    assert len(guard._guests) == 3
    assert [guard.prove(Source(sender, 1), 1) for sender in range(5)] == [True] * 3 + [False] * 2
    assert guard.verdict(Source(0, 1), 1) == TOO_OLD
