"""Flight: less is sent at once when receivers' sockets overflow, and for no other reason."""

import random

from hypothesis import given
from hypothesis import strategies as st

from semcast.protocol.flow import LOOK_NS, Flight

WINDOW = 4_096
ROUND = 1_000


def rounds(flight: Flight, count: int, asked: dict[int, int], begin: int = 0) -> int:
    """So many looks, between which ROUND messages are sent; says how many looks there were."""
    for at in range(begin + 1, begin + count + 1):
        for asker, messages in asked.items():
            flight.asked_for(asker, messages)
        flight.look(at * ROUND, at * LOOK_NS)
    return begin + count


def test_without_requests_a_whole_window_may_be_under_way() -> None:
    flight = Flight(WINDOW, 4)
    rounds(flight, 10, {})
    assert flight.limit == WINDOW


def test_losses_one_by_one_change_nothing_however_many_receivers_have_them() -> None:
    """One message in ten is lost at everybody: networks do that, sockets lose more at once."""
    flight = Flight(WINDOW, 4)
    rounds(flight, 10, dict.fromkeys(range(4), ROUND // 10))
    assert flight.limit == WINDOW


def test_less_is_sent_at_once_when_most_receivers_overflow() -> None:
    flight = Flight(WINDOW, 4)
    rounds(flight, 30, dict.fromkeys(range(3), ROUND // 3))
    assert 0 < flight.limit < WINDOW // 8


def test_one_receiver_that_loses_much_holds_nobody_up() -> None:
    flight = Flight(WINDOW, 4)
    rounds(flight, 30, {1: ROUND, 2: ROUND})
    assert flight.limit == WINDOW


def test_it_goes_back_to_a_whole_window_when_the_overflow_is_over() -> None:
    flight = Flight(WINDOW, 2)
    done = rounds(flight, 30, {1: ROUND // 2, 2: ROUND // 2})
    rounds(flight, 30, {}, done)
    assert flight.limit == WINDOW


def test_it_goes_back_also_when_nothing_is_sent_any_more() -> None:
    flight = Flight(WINDOW, 2)
    done = rounds(flight, 30, {1: ROUND // 2, 2: ROUND // 2})
    for at in range(30):
        flight.look(done * ROUND, (done + at + 1) * LOOK_NS)
    assert flight.limit == WINDOW


@given(st.integers(1, 1 << 16), st.integers(0, 20), st.integers())
def test_the_limit_stays_between_one_and_the_window(window: int, receivers: int, seed: int) -> None:
    flight, draw, sent = Flight(window, receivers), random.Random(seed), 0
    for at in range(1, 50):
        sent += draw.randrange(2_000)
        flight.asked_for(draw.randrange(max(receivers, 1)), draw.randrange(3_000))
        flight.look(sent, at * LOOK_NS)
        assert 1 <= flight.limit <= window
