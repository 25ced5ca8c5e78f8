"""The closed form's answer: a distribution of distances and two rates in, N out, and k if any.

By key a message replaces at any distance, so N is all that limits; a bitmap also needs its k.

Knows nothing of bursts: the model asks only whether what is left after purging fits the receiver
in the long run (SRM §5.1, OBS §4.5). The sweep in `confirm` asks the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from semcast.model import purge as model
from semcast.obsolescence import K_MAX

# Bitmaps travel in words of 64 bits, so nothing is saved by a shorter one.
K_STEP: Final = 64


@dataclass(frozen=True)
class Demand:
    """What must be carried past whom, in messages a second."""

    sender_rate_msg_s: float
    receiver_rate_msg_s: float


@dataclass(frozen=True)
class Forecast:
    """What the closed form says. N is None if no buffer can do it; k if there is no bitmap."""

    demand: Demand
    ratio_needed: float
    # What any buffer can purge, with the longest bitmap if there is one.
    ratio_limit: float
    buffer_messages: int | None
    k: int | None
    # The slowest receiver that some buffer carries.
    receiver_rate_min_msg_s: float


def forecast(pmf: Mapping[int, float], demand: Demand, by_key: bool = False) -> Forecast:
    """The smallest N and, if not by key, for it the smallest k: a longer bitmap costs bytes, a
    buffer costs delay.
    """
    distances = model.from_table(pmf if by_key else within_reach(pmf))
    plan = model.smallest_buffer(distances, demand.sender_rate_msg_s, demand.receiver_rate_msg_s)
    k = None if by_key or plan.k_min is None else whole_words(plan.k_min)
    slowest = model.tolerance(plan.ratio_limit, demand.sender_rate_msg_s)
    return Forecast(
        demand,
        plan.ratio_needed,
        plan.ratio_limit,
        plan.buffer_min_messages,
        k,
        slowest.receiver_rate_min_msg_s,
    )


def forecast_per_sender(
    own: Mapping[int, float], whole: Mapping[int, float], demand: Demand
) -> Forecast:
    """The same if each sender is a member of its own.

    Its bitmap counts its own messages (`own`); the receiver's buffer holds those of all (`whole`,
    in which a message replaces those of its own sender only). Neither limits the other.
    """
    hoped = forecast(own, demand)
    if hoped.k is None:
        return hoped
    held = model.smallest_buffer(
        model.from_table(whole), demand.sender_rate_msg_s, demand.receiver_rate_msg_s
    )
    return replace(hoped, buffer_messages=held.buffer_min_messages)


def within_reach(pmf: Mapping[int, float], k: int = K_MAX) -> dict[int, float]:
    """The distances that a bitmap of k bits can name; longer ones count as no replacement."""
    near = {x: share for x, share in pmf.items() if 1 <= x <= k}
    return {**near, 0: max(0.0, 1.0 - sum(near.values()))}


def whole_words(k: int) -> int:
    """The next multiple of 64 from 64 up."""
    return max(K_STEP, -(-k // K_STEP) * K_STEP)


def smallest_k(pmf: Mapping[int, float], ratio: float) -> int:
    """The shortest bitmap that can name so many of the pairs; the longest, if none can."""
    for k in range(K_STEP, K_MAX, K_STEP):
        if 1 - within_reach(pmf, k)[0] >= ratio - model.SLACK:
            return k
    return K_MAX


@dataclass(frozen=True)
class Expected:
    """What the model expects of a buffer under lasting congestion."""

    purge_ratio: float
    # What a sender may send past this receiver.
    sender_rate_max_msg_s: float | None  # None: anything, for every message makes room for itself
    # How long a message waits until a full buffer has been read.
    latency_full_ms: float


def expected(
    pmf: Mapping[int, float], demand: Demand, buffer_messages: int, k: int | None
) -> Expected:
    """R, T and the delay of a full buffer (SRM eq. 1, OBS §5.3); without k, by key."""
    table = pmf if k is None else within_reach(pmf, k)
    ratio = model.purge_ratio(model.from_table(table), buffer_messages, k)
    return _expected(ratio, demand, buffer_messages)


def expected_per_sender(
    own: Mapping[int, float],
    whole: Mapping[int, float],
    demand: Demand,
    buffer_messages: int,
    k: int,
) -> Expected:
    """The same if each sender is a member of its own.

    The receiver purges at most what its buffer holds together, and at most what bitmaps can name.
    """
    held = model.purge_ratio(model.from_table(whole), buffer_messages)
    known = 1 - within_reach(own, k)[0]
    return _expected(min(held, known), demand, buffer_messages)


def _expected(ratio: float, demand: Demand, buffer_messages: int) -> Expected:
    bound = None if ratio >= 1 else demand.receiver_rate_msg_s / (1 - ratio)
    return Expected(ratio, bound, 1000 * buffer_messages / demand.receiver_rate_msg_s)
