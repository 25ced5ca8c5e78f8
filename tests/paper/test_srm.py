"""What SRM says of purging and the analytical model can decide, one test per claim."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.paper.slow_receiver import simulate

from semcast.model.purge import (
    f_rd,
    from_table,
    purge_ratio,
    smallest_buffer,
    throughput,
    tolerance,
)

SENDER_MSG_S = 100.0
BUFFER = 20


def sender_rate(r: float, d: float, buffer: int, receiver_msg_s: float) -> float:
    ratio = purge_ratio(f_rd(r, d), buffer)
    return throughput(ratio, SENDER_MSG_S, receiver_msg_s).sender_rate_msg_s


def test_equation_3_is_the_distance_distribution_of_the_traffic_described() -> None:
    """A share r overwrites, spread evenly over d chains. SRM §6.1"""
    r, d, count = 0.6, 4, 200_000
    stream = random.Random("srm/equation-3")
    last: dict[int, int] = {}
    seen: dict[int, int] = {}
    for at in range(count):
        if stream.random() >= r:
            continue
        chain = stream.randrange(d)
        if chain in last:
            distance = at - last[chain]
            seen[distance] = seen.get(distance, 0) + 1
        last[chain] = at
    for x in range(1, 15):
        assert seen[x] / count == pytest.approx(f_rd(r, d).mass(x), abs=0.002)


@given(st.floats(0, 1), st.floats(1, 100), st.integers(1, 10**6))
def test_r_is_an_upper_bound_on_purging(r: float, d: float, n: int) -> None:
    """Whatever the buffer. SRM §6.1"""
    assert purge_ratio(f_rd(r, d), n) <= r


@given(st.floats(0, 1), st.floats(1, 100), st.floats(1, 100), st.integers(1, 1000))
def test_diversity_makes_related_messages_harder_to_find(
    r: float, d: float, more: float, n: int
) -> None:
    """The parameter d dictates sensitivity to the buffer size. SRM §6.1"""
    assert purge_ratio(f_rd(r, d * more), n) <= purge_ratio(f_rd(r, d), n) + 1e-12


@given(st.floats(0, 1), st.floats(1, 100), st.integers(1, 1000))
def test_purging_performs_best_with_larger_buffers(r: float, d: float, n: int) -> None:
    """For the same distribution. SRM §5.1"""
    assert purge_ratio(f_rd(r, d), n) <= purge_ratio(f_rd(r, d), n + 1) + 1e-15


def test_short_distances_make_purging_effective_and_long_ones_exhaust_the_buffer() -> None:
    """The same share of related messages, once near and once far apart. SRM §5.1"""
    near, far = from_table({0: 0.2, 2: 0.8}), from_table({0: 0.2, 200: 0.8})
    assert near.limit == far.limit
    assert purge_ratio(near, BUFFER) == pytest.approx(0.8)
    assert purge_ratio(far, BUFFER) == 0


@pytest.mark.parametrize("delay_ms", [11, 20, 40])
def test_without_purging_a_delay_above_the_senders_interval_reduces_the_input(
    delay_ms: int,
) -> None:
    """With 20 ms only 50 msg/s are accepted; 10 ms still does no harm. SRM §6.2"""
    assert sender_rate(0, 1, BUFFER, 100) == SENDER_MSG_S
    assert sender_rate(0, 1, BUFFER, 1000 / delay_ms) == pytest.approx(1000 / delay_ms)


def test_with_half_the_messages_overwritten_a_receiver_may_take_twice_as_long() -> None:
    """20 ms with r = 0.5, to a millionth: equation 1 gives 99.9999 msg/s. SRM §6.2"""
    ratio = purge_ratio(f_rd(0.5, 1), BUFFER)
    assert sender_rate(0.5, 1, BUFFER, 50) == pytest.approx(SENDER_MSG_S, rel=1e-5)
    assert tolerance(ratio, SENDER_MSG_S).receiver_delay_max_ms == pytest.approx(20, rel=1e-5)


def test_where_purging_is_not_enough_the_input_is_still_higher_than_without() -> None:
    """At r = 0.25 and 20 ms; the printed figure is in test_srm_errata.py. SRM §6.2"""
    assert 50 < sender_rate(0.25, 1, BUFFER, 50) < SENDER_MSG_S


@pytest.mark.parametrize("delay_ms", [20, 30, 50])
def test_with_everything_overwritten_the_sender_is_undisturbed_and_the_rest_is_purged(
    delay_ms: int,
) -> None:
    """Figure 5(a) and 5(d), r = 1: at 50 ms 80% are purged. SRM §6.2"""
    flow = throughput(purge_ratio(f_rd(1, 1), BUFFER), SENDER_MSG_S, 1000 / delay_ms)
    assert flow.sender_rate_msg_s == SENDER_MSG_S
    purged = 1 - flow.slow_receiver_rate_msg_s / flow.sender_rate_msg_s
    assert purged == pytest.approx(1 - 10 / delay_ms)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_bitmap_too_short_limits_as_a_buffer_too_small_does(n: int, k: int) -> None:
    """Figure 5(i) and 5(l). SRM §6.2"""
    traffic = f_rd(1, 20)
    assert purge_ratio(traffic, n + k, k) == purge_ratio(traffic, k)
    assert purge_ratio(traffic, n, n + k) == purge_ratio(traffic, n)


@pytest.mark.parametrize(
    ("r", "d", "buffer", "analytic", "simulated"),
    [(0.5, 5, 10, 59, 63), (0.5, 5, 30, 77, 80), (1, 20, 10, 67, 76)],
)
def test_figure_5_at_a_receiver_of_40_messages_a_second(
    r: float, d: int, buffer: int, analytic: float, simulated: float
) -> None:
    """The figures are lost; these values are recomputed from equations 1 and 3. SRM §6.2"""
    assert sender_rate(r, d, buffer, 40) == pytest.approx(analytic, abs=0.5)
    run = simulate(
        r=r,
        d=d,
        buffer_messages=buffer,
        sender_period_us=10_000,
        receiver_period_us=25_000,
        messages=30_000,
        seed=5,
    )
    assert run.sender_rate_msg_s == pytest.approx(simulated, abs=1)


@pytest.mark.parametrize("buffer", [8, 12, 16])
def test_the_model_is_too_pessimistic_of_small_buffers_where_diversity_limits(buffer: int) -> None:
    """Purging brings related messages closer together than they were sent. SRM §6.2"""
    run = simulate(
        r=1,
        d=20,
        buffer_messages=buffer,
        sender_period_us=10_000,
        receiver_period_us=25_000,
        messages=20_000,
        seed=6,
    )
    assert run.sender_rate_msg_s > sender_rate(1, 20, buffer, 40) * 1.02


def test_buffer_and_bitmap_can_be_chosen_from_the_profile() -> None:
    """As the minimum that finds a sufficiently large share of related pairs. SRM §6.5"""
    traffic = f_rd(0.5, 5)
    plan = smallest_buffer(traffic, 70, 40)
    assert plan.buffer_min_messages is not None
    assert plan.buffer_min_messages == plan.k_min
    assert sender_rate(0.5, 5, plan.buffer_min_messages, 40) >= 70
    assert sender_rate(0.5, 5, plan.buffer_min_messages - 1, 40) < 70
