"""Purge ratios and throughput: the properties that make them ratios and throughputs."""

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import SEQ_MAX
from semcast.model.purge import (
    SLACK,
    DistancePmf,
    f_rd,
    from_classes,
    from_table,
    purge_ratio,
    smallest_buffer,
    throughput,
    tolerance,
    tolerated_slowdown_percent,
)

shares = st.floats(0, 1)
rates = st.floats(0.01, 1e6)
reaches = st.integers(1, 10_000)


@st.composite
def class_lists(draw: st.DrawFn) -> DistancePmf:
    weights = draw(st.lists(st.integers(1, 100), min_size=1, max_size=5))
    rest = draw(st.integers(0, 100))
    total = sum(weights) + rest
    return from_classes((draw(st.integers(1, 1000)), weight / total) for weight in weights)


@st.composite
def tables(draw: st.DrawFn) -> DistancePmf:
    weights = draw(st.dictionaries(st.integers(0, 200), st.integers(1, 100), min_size=1))
    total = sum(weights.values())
    return from_table({x: weight / total for x, weight in weights.items()})


pmfs = st.one_of(st.builds(f_rd, shares, st.floats(1, 1000)), class_lists(), tables())


@given(pmfs, st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_longer_reach_never_finds_less_and_never_more_than_the_limit(
    pmf: DistancePmf, n: int, m: int
) -> None:
    shorter, longer = sorted((n, m))
    assert pmf.cumulative(shorter) <= pmf.cumulative(longer) + 1e-15
    assert 0 <= pmf.cumulative(longer) <= pmf.limit <= 1


@given(pmfs, st.integers(0, 300))
def test_the_cumulative_ratio_is_the_sum_of_the_masses(pmf: DistancePmf, n: int) -> None:
    summed = math.fsum(pmf.mass(x) for x in range(1, n + 1))
    assert pmf.cumulative(n) == pytest.approx(summed, abs=1e-12)


@given(pmfs)
def test_all_the_mass_is_there_however_long_the_tail(pmf: DistancePmf) -> None:
    assert pmf.mass(0) + pmf.limit == pytest.approx(1, abs=1e-12)
    longest = SEQ_MAX if pmf.distance_max is None else pmf.distance_max
    assume(pmf.limit == 0 or pmf.limit > 1e-6)  # a class that rare ends beyond SEQ_MAX
    assert pmf.cumulative(longest) == pytest.approx(pmf.limit, abs=1e-12)


@given(shares, st.floats(1, 1000), reaches)
def test_the_two_parameter_traffic_has_its_closed_form(r: float, d: float, n: int) -> None:
    """R(N) = r(1 - (1 - r/d)^N), the sum of SRM eq. 3."""
    assert f_rd(r, d).limit == r
    assert f_rd(r, d).cumulative(n) == pytest.approx(r * (1 - (1 - r / d) ** n), abs=1e-11)


def test_rare_replacements_are_not_lost_to_rounding() -> None:
    """With 1 - (1 - p)^n computed as written, half of the digits would be gone."""
    assert f_rd(1e-9, 1).cumulative(1) == pytest.approx(1e-18, rel=1e-12, abs=0)


@given(pmfs, reaches, st.integers(0, 10_000))
def test_whichever_of_buffer_and_bitmap_is_smaller_limits(pmf: DistancePmf, n: int, k: int) -> None:
    assert purge_ratio(pmf, n, k) == pmf.cumulative(min(n, k))
    assert purge_ratio(pmf, n) == pmf.cumulative(n)


@given(shares, rates, rates)
def test_the_slow_receiver_gets_no_more_than_the_sender_sends_and_that_no_more_than_it_wants(
    ratio: float, sender: float, receiver: float
) -> None:
    flow = throughput(ratio, sender, receiver)
    assert 0 < flow.slow_receiver_rate_msg_s <= flow.sender_rate_msg_s <= sender
    assert flow.slow_receiver_rate_msg_s <= receiver
    assert flow.sender_rate_msg_s >= min(sender, receiver)


@given(rates, rates)
def test_if_everything_can_be_purged_no_receiver_is_too_slow(
    sender: float, receiver: float
) -> None:
    assert throughput(1, sender, receiver).sender_rate_msg_s == sender
    assert tolerance(1, sender).receiver_rate_min_msg_s == 0
    assert tolerance(1, sender).receiver_delay_max_ms == math.inf
    assert tolerated_slowdown_percent(1) == math.inf


@given(st.floats(0, 0.999), rates)
def test_the_tolerated_receiver_is_the_slowest_that_does_not_disturb(
    ratio: float, sender: float
) -> None:
    slowest = tolerance(ratio, sender)
    rate = slowest.receiver_rate_min_msg_s
    assert throughput(ratio, sender, rate).sender_rate_msg_s == pytest.approx(sender)
    assert throughput(ratio, sender, rate * 0.99).sender_rate_msg_s < sender * 0.991
    interval_ms = 1000 / sender
    slowdown = 100 * (slowest.receiver_delay_max_ms / interval_ms - 1)
    assert tolerated_slowdown_percent(ratio) == pytest.approx(slowdown, abs=1e-6)


@given(pmfs, rates, rates)
def test_the_planned_buffer_is_enough_and_one_less_is_not(
    pmf: DistancePmf, want: float, receiver: float
) -> None:
    plan = smallest_buffer(pmf, want, receiver)
    share_left_max = receiver / want * (1 + SLACK)
    if plan.buffer_min_messages is None or plan.k_min is None:
        assert not plan.feasible
        assert plan.k_min is plan.buffer_min_messages
        assert 1 - pmf.cumulative(SEQ_MAX) >= share_left_max * (1 - 3 * SLACK)
        assert plan.sender_rate_bound_msg_s <= want * (1 + 3 * SLACK)
        return
    assert plan.feasible
    assert 1 - purge_ratio(pmf, plan.buffer_min_messages, plan.k_min) <= share_left_max
    if plan.k_min > 0:
        assert plan.buffer_min_messages == plan.k_min
        assert 1 - pmf.cumulative(plan.k_min - 1) > share_left_max


def test_a_limit_that_is_only_approached_is_out_of_reach() -> None:
    """With r = 0.5 half is purged only with an endless buffer; a finite table really ends."""
    assert not smallest_buffer(f_rd(0.5, 1), 100, 50).feasible
    assert smallest_buffer(f_rd(0.5, 1), 99.9, 50).buffer_min_messages == 10
    assert smallest_buffer(from_table({0: 0.5, 3: 0.5}), 100, 50).buffer_min_messages == 3


def test_rounding_does_not_turn_just_enough_into_never() -> None:
    """1 - 0.7 is a little more than 30/100 in binary."""
    assert 1 - 0.7 > 30 / 100
    assert smallest_buffer(from_table({0: 0.3, 3: 0.7}), 100, 30).buffer_min_messages == 3


def test_only_an_endless_tail_has_no_longest_distance() -> None:
    assert f_rd(0.5, 1).distance_max is None
    assert f_rd(1, 1).distance_max == 1
    assert f_rd(0, 1).distance_max == 0
    assert from_table({0: 0.5, 3: 0.5, 9: 0.0}).distance_max == 3


def test_a_receiver_that_keeps_up_needs_no_bitmap() -> None:
    plan = smallest_buffer(f_rd(0.5, 5), 100, 100)
    assert (plan.buffer_min_messages, plan.k_min, plan.ratio_needed) == (1, 0, 0)


@given(st.integers(1, 6), st.floats(0.1, 1), st.integers(0, 2**32))
def test_a_table_made_of_counted_distances_agrees_with_the_counts(
    d: int, r: float, seed: int
) -> None:
    stream = random.Random(seed)
    last: dict[int, int] = {}
    counts: dict[int, int] = {}
    for at in range(200):
        chain = stream.randrange(d) if stream.random() < r else None
        distance = 0 if chain is None or chain not in last else at - last[chain]
        counts[distance] = counts.get(distance, 0) + 1
        if chain is not None:
            last[chain] = at
    pmf = from_table({x: count / 200 for x, count in counts.items()})
    within_9 = sum(count for x, count in counts.items() if 1 <= x <= 9)
    assert pmf.cumulative(9) == pytest.approx(within_9 / 200)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({0: 0.5, 1: 0.4}, "sum to 0.9, not 1"),
        ({0: 0.5, 1: 0.6}, "sum to 1.1, not 1"),
        ({}, "sum to 0, not 1"),
        ({0: 1.5, 1: -0.5}, "probability of distance 0 is 1.5"),
        ({1: math.nan}, "probability of distance 1 is nan"),
        ({-1: 1.0}, "distance -1"),
    ],
)
def test_a_table_that_is_no_distribution_is_refused(table: dict[int, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        from_table(table)


def test_a_sum_within_rounding_of_one_is_accepted_and_just_beyond_is_not() -> None:
    from_table({0: 0.5, 1: 0.5 + 0.9e-9})
    with pytest.raises(ConfigError, match="not 1"):
        from_table({0: 0.5, 1: 0.5 + 1.1e-9})


@pytest.mark.parametrize("r", [-0.1, 1.1, math.nan, math.inf])
def test_r_outside_its_range_is_refused(r: float) -> None:
    with pytest.raises(ConfigError, match="r is"):
        f_rd(r, 1)


@pytest.mark.parametrize("d", [0, 0.5, -1, math.nan, math.inf])
def test_d_outside_its_range_is_refused(d: float) -> None:
    with pytest.raises(ConfigError, match="d is"):
        f_rd(0.5, d)


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        ([], "no classes"),
        ([(0, 0.5)], "0 keys"),
        ([(5, 1.5)], "share is 1.5"),
        ([(5, 0.6), (6, 0.6)], "sum to 1.2"),
    ],
)
def test_classes_that_are_no_traffic_are_refused(
    classes: list[tuple[int, float]], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        from_classes(classes)


def test_ranges_of_buffer_bitmap_and_rates_are_checked() -> None:
    pmf = f_rd(0.5, 5)
    with pytest.raises(ConfigError, match="buffer of 0"):
        purge_ratio(pmf, 0)
    with pytest.raises(ConfigError, match="k is -1"):
        purge_ratio(pmf, 1, -1)
    with pytest.raises(ConfigError, match="receiver rate is 0"):
        throughput(0.5, 100, 0)
    with pytest.raises(ConfigError, match="sender rate is inf"):
        tolerance(0.5, math.inf)
    with pytest.raises(ConfigError, match=r"purge ratio is 1\.5"):
        tolerated_slowdown_percent(1.5)
    with pytest.raises(ConfigError, match="wanted sender rate is nan"):
        smallest_buffer(pmf, math.nan, 5)
