"""When to look after an application: rarely if it is attentive, and between two of its visits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.host.patience import BUSY_NS, LONG_NS, PAUSE_NS, USUAL_NS, Patience

MS = 1_000_000
ROOM = 4 << 20
# A time since 1970.
BEGIN = 1_800_000_000 * 1000 * MS


def visited(period_ns: int, stay_ns: int, visits: int = 10) -> tuple[Patience, int]:
    """With one that comes at regular times; and when it last left."""
    patience = Patience(ROOM)
    for number in range(visits):
        came_ns = BEGIN + number * period_ns
        patience.came(came_ns)
        patience.stays(came_ns + stay_ns)
    return patience, came_ns + stay_ns


def look(patience: Patience, looks: int, *, attentive: bool = True, busy: bool = False) -> None:
    for _ in range(looks):
        patience.looked(patience._looked_ns + USUAL_NS, attentive, busy, 0)


def test_one_that_is_attentive_is_looked_after_ever_more_rarely() -> None:
    patience = Patience(ROOM)
    assert patience.ns == USUAL_NS
    look(patience, 1)
    assert patience.ns == 2 * USUAL_NS
    look(patience, 10)
    assert patience.ns == LONG_NS


def test_one_that_was_away_loses_it_all() -> None:
    patience = Patience(ROOM)
    look(patience, 10)
    look(patience, 1, attentive=False)
    assert patience.ns == USUAL_NS


def test_one_that_sends_as_much_as_it_can_is_looked_after_at_once() -> None:
    patience = Patience(ROOM)
    look(patience, 10)
    look(patience, 1, busy=True)
    assert patience.ns == BUSY_NS


@pytest.mark.parametrize("period_ms", [1, 10, 100])
def test_not_so_long_that_the_sockets_may_overflow(period_ms: int) -> None:
    """As much as a quarter of their room came in so many milliseconds."""
    patience = Patience(ROOM)
    came_bytes = 0
    for number in range(1, 20):
        came_bytes += ROOM // 4
        patience.looked(BEGIN + number * period_ms * MS, True, False, came_bytes)
    assert patience.ns == min(period_ms * MS, LONG_NS)
    patience.looked(BEGIN + 20 * period_ms * MS, True, False, came_bytes + 1000 * ROOM)
    assert patience.ns == BUSY_NS


def test_after_a_year_of_silence_it_counts_on() -> None:
    patience = Patience(1 << 30)
    look(patience, 1)
    patience.looked(BEGIN + 365 * 86_400 * 1000 * MS, True, False, 1 << 40)
    assert BUSY_NS <= patience.ns <= LONG_NS


@given(
    period_ns=st.integers(2 * PAUSE_NS, USUAL_NS),
    later_ns=st.integers(0, USUAL_NS - 1),
    waits=st.booleans(),
)
def test_who_comes_at_regular_times_is_looked_after_halfway_between(
    period_ns: int, later_ns: int, waits: bool
) -> None:
    patience, left_ns = visited(period_ns, stay_ns=50_000)
    now_ns = left_ns + later_ns
    at_ns = patience.look_ns(now_ns, waits)
    assert now_ns < at_ns <= now_ns + USUAL_NS + period_ns
    assert (at_ns - BEGIN) % period_ns == period_ns // 2


@pytest.mark.parametrize("period_ns", [PAUSE_NS // 3, 2 * USUAL_NS])
def test_who_comes_very_often_or_rarely_is_looked_after_when_patience_ends(period_ns: int) -> None:
    patience, left_ns = visited(period_ns, stay_ns=10_000)
    assert patience.look_ns(left_ns + MS, False) == left_ns + USUAL_NS
    assert patience.look_ns(left_ns + MS, True) == left_ns + MS + USUAL_NS


def test_who_comes_after_a_pause_is_told_from_who_was_just_here() -> None:
    patience = Patience(ROOM)
    assert patience.came(BEGIN)
    assert not patience.came(BEGIN + PAUSE_NS - 1)
    patience.stays(BEGIN + PAUSE_NS)
    assert patience.away_ns(BEGIN + 2 * PAUSE_NS) == PAUSE_NS
    assert patience.came(BEGIN + 2 * PAUSE_NS)
