"""When the next message is expected: at its time if they come regularly, else never."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.host.clock import FOREVER
from semcast.live.host.estimates import Rhythm
from semcast.live.host.timing import PERIOD_NS_MAX

WITHIN_NS = 100_000
MS = 1_000_000
# A time since 1970.
BEGIN = 1_800_000_000 * 1000 * MS


def heard(times_ns: list[int]) -> Rhythm:
    rhythm = Rhythm(WITHIN_NS)
    for now_ns in times_ns:
        rhythm.came(now_ns)
    return rhythm


def beats(period_ns: int, count: int, jitter_ns: int = 0, seed: int = 0) -> list[int]:
    stream = random.Random(f"{seed}/beats")
    return [
        BEGIN + number * period_ns + stream.randint(-jitter_ns, jitter_ns)
        for number in range(count)
    ]


def test_who_heard_nothing_expects_nothing() -> None:
    assert heard([]).next_ns(BEGIN) == FOREVER
    assert heard([BEGIN]).next_ns(BEGIN) == FOREVER


@given(period_ns=st.integers(3 * WITHIN_NS, PERIOD_NS_MAX), later_ns=st.integers(0, 1 << 40))
def test_what_comes_regularly_is_expected_at_its_time(period_ns: int, later_ns: int) -> None:
    """And at the time of the next if it did not come."""
    last_ns = BEGIN + 9 * period_ns
    passed = max(later_ns - WITHIN_NS + period_ns - 1, period_ns) // period_ns
    next_ns = heard(beats(period_ns, 10)).next_ns(last_ns + later_ns)
    assert next_ns == last_ns + passed * period_ns


@given(period_ns=st.integers(6 * WITHIN_NS, PERIOD_NS_MAX // 2), seed=st.integers(0, 1000))
def test_messages_that_are_early_or_late_do_not_hide_their_beat(period_ns: int, seed: int) -> None:
    times_ns = beats(period_ns, 100, WITHIN_NS // 4, seed)
    next_ns = heard(times_ns).next_ns(times_ns[-1])
    assert abs(int(next_ns) - (BEGIN + 100 * period_ns)) <= WITHIN_NS // 2


@given(period_ns=st.integers(4 * WITHIN_NS, PERIOD_NS_MAX), seed=st.integers(0, 1000))
def test_beats_without_a_message_are_no_mistake(period_ns: int, seed: int) -> None:
    """Messages that were replaced before they came, say; two beats of three."""
    stream = random.Random(f"{seed}/left out")
    times_ns = beats(period_ns, 8)
    times_ns += [BEGIN + n * period_ns for n in range(8, 200) if stream.random() < 1 / 3]
    assert (heard(times_ns).next_ns(times_ns[-1]) - BEGIN) % period_ns == 0


def test_one_that_is_far_too_late_changes_nothing() -> None:
    times_ns = beats(MS, 50)
    times_ns[40] += 400_000
    assert heard(times_ns[:41]).next_ns(times_ns[40]) == BEGIN + 41 * MS
    assert heard(times_ns).next_ns(times_ns[-1]) == BEGIN + 50 * MS


def test_another_beat_is_followed() -> None:
    times_ns = beats(MS, 50)
    times_ns += [times_ns[-1] + number * 1_700_000 for number in range(1, 30)]
    assert heard(times_ns).next_ns(times_ns[-1]) == times_ns[-1] + 1_700_000


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_at_random_is_not_expected(seed: int) -> None:
    """Once in a while there seems to be a beat; a tenth of the time at the most."""
    stream = random.Random(f"{seed}/random")
    rhythm, now_ns, expected = Rhythm(WITHIN_NS), BEGIN, 0
    for _ in range(2000):
        now_ns += int(stream.expovariate(1 / MS)) + 1
        rhythm.came(now_ns)
        expected += rhythm.next_ns(now_ns) < FOREVER
    assert expected < 200


@pytest.mark.parametrize("period_ns", [1, WITHIN_NS, 2 * WITHIN_NS, PERIOD_NS_MAX + 1, 10**18])
def test_beats_too_quick_or_too_slow_to_wake_up_for_are_none(period_ns: int) -> None:
    times_ns = [BEGIN + number * period_ns for number in range(8)]
    assert heard(times_ns).next_ns(times_ns[-1]) == FOREVER


@given(st.lists(st.integers(0, 1 << 62), max_size=60), st.integers(0, 1 << 62))
def test_whatever_comes_the_next_is_not_long_past(times_ns: list[int], now_ns: int) -> None:
    """Also when several are there at once, or years apart."""
    assert heard(sorted(times_ns)).next_ns(now_ns) >= now_ns - WITHIN_NS
