"""The stability trigger: the largest X that keeps both constraints of STAB §6."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.model.trigger import Trigger, stability_rounds, trigger

buffers = st.integers(1, 10_000)
rates_msg_ms = st.floats(0.001, 50)
rtts_ms = st.floats(0.1, 500)
alphas = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0]))


def keeps_both(x: int, g: int, rf: Fraction, alpha: Fraction) -> bool:
    return x + rf <= g and (1 - alpha) * x + 2 * rf <= g


def chosen(g: int, rate: float, rtt: float, alpha: float) -> Trigger | None:
    try:
        return trigger(g, rate, rtt, alpha)
    except ConfigError:
        return None


@given(buffers, rates_msg_ms, rtts_ms, alphas)
def test_the_trigger_keeps_both_constraints_and_one_more_breaks_one(
    g: int, rate: float, rtt: float, alpha: float
) -> None:
    result = chosen(g, rate, rtt, alpha)
    exact_alpha, rf = Fraction(str(alpha)), Fraction(str(rate)) * Fraction(str(rtt))
    if result is None:
        assert not keeps_both(1, g, rf, exact_alpha)
        return
    assert result.messages >= 1
    assert keeps_both(result.messages, g, rf, exact_alpha)
    assert not keeps_both(result.messages + 1, g, rf, exact_alpha)


@given(buffers, rates_msg_ms, rtts_ms, alphas)
def test_the_constraint_that_is_said_to_bind_is_met_exactly(
    g: int, rate: float, rtt: float, alpha: float
) -> None:
    result = chosen(g, rate, rtt, alpha)
    assume(result is not None)
    assert result is not None
    rf, x, a = result.round_messages, result.exact, Fraction(str(alpha))
    assert (x + rf == g) == (result.binding in ("first_round", "both"))
    if result.binding != "first_round":
        assert (1 - a) * x + 2 * rf == g
    assert (a > result.alpha_crossover) == (result.binding == "first_round") or a == 1


@given(buffers, rates_msg_ms, rtts_ms, st.floats(0.05, 1))
def test_sustainable_means_that_the_buffer_never_overflows(
    g: int, rate: float, rtt: float, alpha: float
) -> None:
    """Rounds follow each other at once; what is left over either settles below g or does not."""
    result = chosen(g, rate, rtt, alpha)
    assume(result is not None)
    assert result is not None
    waiting, rf = float(result.exact), float(result.round_messages)
    peak = 0.0
    for _ in range(500):
        peak = max(peak, waiting + rf)
        waiting = max(float(result.exact), (1 - alpha) * waiting + rf)
    nearly = math.isclose(alpha, float(result.alpha_crossover), rel_tol=1e-6)
    assert nearly or (peak <= g * (1 + 1e-9)) == result.sustainable


def test_special_values_of_alpha() -> None:
    """STAB §6 lists them; at alpha = 0 it is g - 2rf that is left."""
    assert trigger(100, 0.2, 50, 0).messages == 80
    assert trigger(100, 0.2, 50, 0).binding == "second_round"
    assert trigger(100, 0.2, 50, 1).messages == 90
    assert trigger(100, 0.2, 50, 1).binding == "first_round"
    assert trigger(100, 0.5, 100, 1).messages == 50
    with pytest.raises(ConfigError, match="raise the buffer to 102"):
        trigger(100, 0.51, 100, 1)


def test_at_the_crossover_both_rounds_bind_and_rounds_just_keep_up() -> None:
    result = trigger(110, 0.2, 50, 0.1)
    assert result.alpha_crossover == Fraction(1, 10)
    assert (result.messages, result.binding, result.sustainable) == (100, "both", True)


def test_decimals_are_taken_at_their_word() -> None:
    """0.1 * 30 is more than 3 in binary, and would cost a message."""
    assert trigger(100, 0.1, 30, 1).messages == 97


@given(rates_msg_ms, rtts_ms, alphas)
def test_the_buffer_that_a_refusal_asks_for_is_the_smallest_that_works(
    rate: float, rtt: float, alpha: float
) -> None:
    with pytest.raises(ConfigError) as refusal:
        trigger(1, rate, rtt, alpha)
    buffer = int(str(refusal.value).partition("raise the buffer to ")[2].partition(",")[0])
    assert trigger(buffer, rate, rtt, alpha).messages >= 1
    assert chosen(buffer - 1, rate, rtt, alpha) is None


def test_rounds_for_a_number_of_messages() -> None:
    assert stability_rounds(8100, 0.9, 90) == 100
    assert stability_rounds(100, 0, 90) is None
    assert stability_rounds(0, 0.5, 90) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 0.2, 50.0, 0.9), "buffer of 0"),
        ((100, 0.0, 50.0, 0.9), "rate is 0"),
        ((100, math.inf, 50.0, 0.9), "rate is inf"),
        ((100, 0.2, -5.0, 0.9), "rtt is -5"),
        ((100, 0.2, math.nan, 0.9), "rtt is nan"),
        ((100, 0.2, 50.0, 1.5), "alpha is 1.5"),
        ((100, 1e18, 1e18, 1.0), "lower rate or rtt"),
    ],
)
def test_settings_out_of_range_are_refused(
    arguments: tuple[int, float, float, float], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        trigger(*arguments)


def test_rounds_of_a_trigger_that_is_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="trigger is 0"):
        stability_rounds(100, 0.9, 0)
    with pytest.raises(ConfigError, match="-1 messages"):
        stability_rounds(-1, 0.9, 10)
