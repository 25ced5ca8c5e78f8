"""When to look after an application: rarely if it is attentive, and between two of its visits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.host.estimates import Attention
from semcast.live.host.timing import AWAY_BUSY_NS, AWAY_LONG_NS, AWAY_USUAL_NS, PAUSE_NS

MS = 1_000_000
ROOM = 4 << 20
# A time since 1970.
BEGIN = 1_800_000_000 * 1000 * MS


def visited(period_ns: int, stay_ns: int, visits: int = 10) -> tuple[Attention, int]:
    """With one that comes at regular times; and when it last left."""
    attention = Attention(ROOM)
    for number in range(visits):
        came_ns = BEGIN + number * period_ns
        attention.came(came_ns)
        attention.stays(came_ns + stay_ns)
    return attention, came_ns + stay_ns


def look(attention: Attention, looks: int, *, attentive: bool = True, busy: bool = False) -> None:
    for _ in range(looks):
        attention.looked(attention._looked_ns + AWAY_USUAL_NS, attentive, busy, 0)


def test_one_that_is_attentive_is_looked_after_ever_more_rarely() -> None:
    attention = Attention(ROOM)
    assert attention.allowed_ns == AWAY_USUAL_NS
    look(attention, 1)
    assert attention.allowed_ns == 2 * AWAY_USUAL_NS
    look(attention, 10)
    assert attention.allowed_ns == AWAY_LONG_NS


def test_one_that_was_away_loses_it_all() -> None:
    attention = Attention(ROOM)
    look(attention, 10)
    look(attention, 1, attentive=False)
    assert attention.allowed_ns == AWAY_USUAL_NS


def test_one_that_sends_as_much_as_it_can_is_looked_after_at_once() -> None:
    attention = Attention(ROOM)
    look(attention, 10)
    look(attention, 1, busy=True)
    assert attention.allowed_ns == AWAY_BUSY_NS


@pytest.mark.parametrize("period_ms", [1, 10, 100])
def test_not_so_long_that_the_sockets_may_overflow(period_ms: int) -> None:
    """As much as a quarter of their room came in so many milliseconds."""
    attention = Attention(ROOM)
    came_bytes = 0
    for number in range(1, 20):
        came_bytes += ROOM // 4
        attention.looked(BEGIN + number * period_ms * MS, True, False, came_bytes)
    assert attention.allowed_ns == min(period_ms * MS, AWAY_LONG_NS)
    attention.looked(BEGIN + 20 * period_ms * MS, True, False, came_bytes + 1000 * ROOM)
    assert attention.allowed_ns == AWAY_BUSY_NS


def test_after_a_year_of_silence_it_counts_on() -> None:
    attention = Attention(1 << 30)
    look(attention, 1)
    attention.looked(BEGIN + 365 * 86_400 * 1000 * MS, True, False, 1 << 40)
    assert AWAY_BUSY_NS <= attention.allowed_ns <= AWAY_LONG_NS


@given(
    period_ns=st.integers(2 * PAUSE_NS, AWAY_USUAL_NS),
    later_ns=st.integers(0, AWAY_USUAL_NS - 1),
    waits=st.booleans(),
)
def test_who_comes_at_regular_times_is_looked_after_halfway_between(
    period_ns: int, later_ns: int, waits: bool
) -> None:
    attention, left_ns = visited(period_ns, stay_ns=50_000)
    now_ns = left_ns + later_ns
    at_ns = attention.look_ns(now_ns, waits)
    assert now_ns < at_ns <= now_ns + AWAY_USUAL_NS + period_ns
    assert (at_ns - BEGIN) % period_ns == period_ns // 2


@pytest.mark.parametrize("period_ns", [PAUSE_NS // 3, 2 * AWAY_USUAL_NS])
def test_who_comes_very_often_or_rarely_is_looked_after_when_its_time_is_up(period_ns: int) -> None:
    attention, left_ns = visited(period_ns, stay_ns=10_000)
    assert attention.look_ns(left_ns + MS, False) == left_ns + AWAY_USUAL_NS
    assert attention.look_ns(left_ns + MS, True) == left_ns + MS + AWAY_USUAL_NS


def test_who_comes_after_a_pause_is_told_from_who_was_just_here() -> None:
    attention = Attention(ROOM)
    assert attention.came(BEGIN)
    assert not attention.came(BEGIN + PAUSE_NS - 1)
    attention.stays(BEGIN + PAUSE_NS)
    assert attention.away_ns(BEGIN + 2 * PAUSE_NS) == PAUSE_NS
    assert attention.came(BEGIN + 2 * PAUSE_NS)
