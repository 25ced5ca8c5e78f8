"""What OBS says of configuring buffers, checked with the closed forms, one test per claim."""

import random
from itertools import pairwise

import pytest

from semcast.model.purge import (
    from_classes,
    purge_ratio,
    smallest_buffer,
    throughput,
    tolerated_slowdown_percent,
)

# Table 1: stocks and their share of the operations.
TRADING = from_classes([(25, 0.5), (100, 0.4), (750, 0.1)])


@pytest.mark.parametrize(("buffer", "printed"), [(10, 0.11), (20, 0.20), (30, 0.27)])
def test_purge_ratio_of_the_trading_system(buffer: int, printed: float) -> None:
    """Table 2, analytical. OBS §5.3"""
    assert round(purge_ratio(TRADING, buffer), 2) == printed


@pytest.mark.parametrize(("buffer", "exact"), [(10, 0.107), (20, 0.197), (30, 0.273)])
def test_purge_ratio_of_the_trading_system_to_three_digits(buffer: int, exact: float) -> None:
    """Table 2 with one digit more. OBS §5.3"""
    assert round(purge_ratio(TRADING, buffer), 3) == exact


@pytest.mark.parametrize(("buffer", "printed"), [(10, 0.11), (20, 0.20), (30, 0.27)])
def test_operations_drawn_from_table_1_repeat_within_the_buffer_that_often(
    buffer: int, printed: float
) -> None:
    """Table 2, "simulation with N": the share whose stock was traded within N. OBS §5.3"""
    stream = random.Random("obs/table-2")
    stocks = range(875)
    weights = [0.5 / 25] * 25 + [0.4 / 100] * 100 + [0.1 / 750] * 750
    last: dict[int, int] = {}
    repeated, count = 0, 60_000
    for at, stock in enumerate(stream.choices(stocks, weights, k=count)):
        repeated += stock in last and at - last[stock] <= buffer
        last[stock] = at
    assert repeated / count == pytest.approx(printed, abs=0.01)


@pytest.mark.parametrize("x", [1, 2, 7, 30, 300])
def test_the_distance_distribution_is_the_printed_mixture(x: int) -> None:
    """P(D = x), three geometric classes. OBS §5.2"""
    printed = (
        0.25 / 25 * (1 - 0.5 / 25) ** (x - 1)
        + 0.16 / 100 * (1 - 0.4 / 100) ** (x - 1)
        + 0.01 / 750 * (1 - 0.1 / 750) ** (x - 1)
    )
    assert TRADING.mass(x) == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize(
    ("buffer", "ours_percent", "printed_percent"), [(10, 12.0, 10), (20, 24.6, 30), (30, 37.5, 40)]
)
def test_tolerated_increase_of_the_processing_delay(
    buffer: int, ours_percent: float, printed_percent: float
) -> None:
    """Figure 8 prints increases "in the order of" 10, 30 and 40%, read off a simulation. OBS §5.3

    The closed form gives 12, 25 and 38: the same order, and within six points.
    """
    slowdown = tolerated_slowdown_percent(purge_ratio(TRADING, buffer))
    assert slowdown == pytest.approx(ours_percent, abs=0.05)
    assert slowdown == pytest.approx(printed_percent, abs=6)


def test_strict_reliability_tolerates_no_receiver_slower_than_the_sender() -> None:
    """To the right of the solid line of Figure 8 there is nothing. OBS §5.3"""
    assert tolerated_slowdown_percent(0) == 0
    assert throughput(0, 100, 99).sender_rate_msg_s == 99


def test_purging_some_weakens_back_pressure_where_it_cannot_prevent_it() -> None:
    """The more is purged, the more the sender may send, without a step. OBS §4.1"""
    rates = [
        throughput(purge_ratio(TRADING, buffer), 100, 60).sender_rate_msg_s
        for buffer in range(1, 30)
    ]
    assert all(less < more for less, more in pairwise(rates))
    assert 60 < rates[0] < rates[-1] < 100


def test_the_buffer_for_a_wanted_rate_follows_from_the_profile() -> None:
    """Buffer size can be determined from the distribution of D. OBS §4.5"""
    plan = smallest_buffer(TRADING, 100, 80)
    assert plan.buffer_min_messages == 21
    assert purge_ratio(TRADING, 21) >= 0.2 > purge_ratio(TRADING, 20)
