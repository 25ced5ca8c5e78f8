"""When to start a stability round: buffer, rate and round-trip time in, a trigger out.

STAB §6. The sooner a round starts, the more rounds there are; if it starts too late the buffer
fills and the senders stop. Arithmetic is exact: a number counts as the decimal it prints as, so
that 0.1 messages/ms over 30 ms are 3 messages and not a trifle more.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

from semcast.errors import ConfigError
from semcast.ids import SEQ_MAX

Binding = Literal["first_round", "second_round", "both"]


@final
@dataclass(frozen=True)
class Trigger:
    """Start a round when `messages` wait in the output buffer."""

    messages: int  # the largest whole trigger that keeps both constraints
    exact: Fraction  # X itself
    round_messages: Fraction  # rf: what is sent while a round runs
    binding: Binding  # which constraint X sits on
    alpha_crossover: Fraction  # from this alpha up, it is the first round that binds

    # Whether rounds release at least what is sent meanwhile, for ever: alpha(g - rf) >= rf. If
    # not, two rounds are safe, what is left over grows, and senders block in the end.
    sustainable: bool


def trigger(buffer_messages: int, rate_msg_ms: float, rtt_ms: float, alpha: float) -> Trigger:
    """X = min(g - rf, (g - 2rf)/(1 - alpha)), the largest that keeps both constraints.

    Constraint (i), X + rf <= g: the buffer holds what comes during the first round.
    Constraint (ii), (1 - alpha)X + 2rf <= g: and during a second that follows at once.
    Both bound X from above, so the paper's max must be a min.
    """
    _check_ranges(buffer_messages, rate_msg_ms, rtt_ms, alpha)
    g, a = Fraction(buffer_messages), _exact(alpha)
    rf = _exact(rate_msg_ms) * _exact(rtt_ms)
    buffer_min = math.ceil(max(rf + 1, 2 * rf + (1 - a)))
    if buffer_messages < buffer_min:
        larger = f"raise the buffer to {buffer_min}, or " if buffer_min <= SEQ_MAX else ""
        raise ConfigError(
            f"no trigger fits a buffer of {buffer_messages} messages: {float(rf):g} are sent "
            f"during a round ({rate_msg_ms:g} messages/ms for {rtt_ms:g} ms) and alpha is "
            f"{alpha:g}; {larger}lower rate or rtt"
        )
    first = g - rf
    # With alpha = 1 nothing is left over from the first round and (ii) no longer mentions X.
    second = (g - 2 * rf) / (1 - a) if a < 1 else None
    exact = first if second is None else min(first, second)
    crossover = rf / first
    return Trigger(math.floor(exact), exact, rf, _binding(first, second), crossover, a >= crossover)


def stability_rounds(total_messages: int, alpha: float, trigger_messages: int) -> Fraction | None:
    """T(X) = K/(alpha·X), the rounds for K messages; None if nothing ever becomes stable."""
    if total_messages < 0:
        raise ConfigError(f"{total_messages} messages in all; it must be 0 or more")
    if trigger_messages < 1:
        raise ConfigError(f"trigger is {trigger_messages} messages; it must be at least 1")
    _check_alpha(alpha)
    if alpha == 0:
        return None
    return Fraction(total_messages) / (_exact(alpha) * trigger_messages)


def _binding(first: Fraction, second: Fraction | None) -> Binding:
    if second is None or first < second:
        return "first_round"
    return "both" if first == second else "second_round"


def _exact(value: float) -> Fraction:
    return Fraction(str(value))


def _check_ranges(buffer_messages: int, rate_msg_ms: float, rtt_ms: float, alpha: float) -> None:
    if not 1 <= buffer_messages <= SEQ_MAX:
        raise ConfigError(f"a buffer of {buffer_messages} messages; it must be 1 to {SEQ_MAX}")
    for name, value, unit in (("rate", rate_msg_ms, "messages/ms"), ("rtt", rtt_ms, "ms")):
        if not 0 < value <= SEQ_MAX:
            raise ConfigError(
                f"{name} is {value:g} {unit}; it must be above 0 and at most {float(SEQ_MAX):g}"
            )
    _check_alpha(alpha)


def _check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise ConfigError(
            f"alpha is {alpha:g}; the share that becomes stable must be between 0 and 1"
        )
