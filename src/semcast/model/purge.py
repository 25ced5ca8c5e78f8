"""What purging can do for a slow receiver: a distance distribution and rates in, ratios out.

The one thing to know of the traffic is D, the distance in the sender's stream between a message
and the latest one that it makes obsolete: f(x) = P(D = x), with f(0) for a message that replaces
nothing. Everything else follows (SRM §5.1, OBS §4.2). Nothing here knows of protocols, and the
model knows nothing of time: the buffer is taken to hold the N messages sent last.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol, final

from semcast.errors import ConfigError
from semcast.ids import SEQ_MAX

# Probabilities must sum to one this closely, and rates are compared no more closely than this:
# a table of measured shares carries rounding that must not turn "just enough" into "never".
SLACK: Final = 1e-9


class DistancePmf(Protocol):
    """f(x) = P(D = x), behind one face whatever it was made from."""

    @property
    def limit(self) -> float:
        """R*: the share of messages that obsolete an earlier one, at any distance."""

    @property
    def distance_max(self) -> int | None:
        """The longest distance that occurs, or None if there is always a longer one."""

    def mass(self, x: int) -> float:
        """f(x); f(0) is the share that obsoletes nothing."""

    def cumulative(self, n: int) -> float:
        """R(n) = f(1) + … + f(n)."""


@final
@dataclass(frozen=True)
class GeometricMixture:
    """Classes of messages, each with a share and a chance that the next message replaces one.

    Everything is in closed form, so that the endless tail costs neither time nor precision.
    """

    classes: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        for share, chance in self.classes:
            _require_share("share", share)
            _require_share("chance of replacement", chance)
        total = math.fsum(share for share, _ in self.classes)
        if total > 1 + SLACK:
            raise ConfigError(f"shares sum to {total:.12g}; they must sum to at most 1")

    @property
    def limit(self) -> float:
        return min(1.0, math.fsum(share for share, _ in self.classes))

    @property
    def distance_max(self) -> int | None:
        chances = {chance for share, chance in self.classes if share > 0}
        if not chances:
            return 0
        return 1 if chances == {1.0} else None

    def mass(self, x: int) -> float:
        if x == 0:
            return 1.0 - self.limit
        if x < 0:
            return 0.0
        return math.fsum(
            share * chance * (1.0 - chance) ** (x - 1) for share, chance in self.classes
        )

    def cumulative(self, n: int) -> float:
        if n < 1:
            return 0.0
        return min(1.0, math.fsum(share * _met_within(chance, n) for share, chance in self.classes))


@final
@dataclass(frozen=True)
class TablePmf:
    """A distribution with finitely many distances, as `from_table` makes it."""

    distances: tuple[int, ...]  # increasing, from 1
    masses: tuple[float, ...]
    running: tuple[float, ...]  # running[i] is R(distances[i])

    @property
    def limit(self) -> float:
        return self.running[-1] if self.running else 0.0

    @property
    def distance_max(self) -> int | None:
        return self.distances[-1] if self.distances else 0

    def mass(self, x: int) -> float:
        if x == 0:
            return 1.0 - self.limit
        at = bisect_left(self.distances, x)
        found = at < len(self.distances) and self.distances[at] == x
        return self.masses[at] if found else 0.0

    def cumulative(self, n: int) -> float:
        at = bisect_right(self.distances, n)
        return self.running[at - 1] if at else 0.0


def f_rd(r: float, d: float) -> DistancePmf:
    """A share r of overwrites, spread evenly over d chains (SRM eq. 3)."""
    _require_share("r", r)
    if not (math.isfinite(d) and d >= 1):
        raise ConfigError(f"d is {d:g}; the number of chains must be a finite number from 1 up")
    return GeometricMixture(((r, r / d),))


def from_classes(classes: Iterable[tuple[int, float]]) -> DistancePmf:
    """Classes of (keys, share of the traffic), keys of a class being equally busy (OBS §5.2).

    What the shares leave over never replaces anything.
    """
    mixture = []
    for keys, share in classes:
        if keys < 1:
            raise ConfigError(f"a class has {keys} keys; it needs at least 1")
        _require_share("share", share)
        mixture.append((share, share / keys))
    if not mixture:
        raise ConfigError("no classes given; give at least one as (keys, share)")
    return GeometricMixture(tuple(mixture))


def from_table(table: Mapping[int, float]) -> DistancePmf:
    """Any distribution with finitely many distances; it must state f(0) too, if that is not 0."""
    for x, probability in table.items():
        if not 0 <= x <= SEQ_MAX:
            raise ConfigError(f"distance {x} is out of range; distances go from 0 to {SEQ_MAX}")
        _require_share(f"probability of distance {x}", probability)
    total = math.fsum(table.values())
    if abs(total - 1) > SLACK:
        raise ConfigError(
            f"probabilities sum to {total:.12g}, not 1; "
            "give the share that replaces nothing as distance 0"
        )
    distances = tuple(x for x in sorted(table) if x >= 1 and table[x] > 0)
    masses = tuple(table[x] for x in distances)
    running = tuple(min(1.0, total) for total in accumulate(masses))
    return TablePmf(distances, masses, running)


def purge_ratio(pmf: DistancePmf, buffer_messages: int, k: int | None = None) -> float:
    """R: the share of messages that can be purged under lasting congestion (SRM §5.1).

    Two messages must be in the buffer together, and the k-bit bitmap must reach from one to the
    other: so whichever of N and k is smaller limits (SRM §6.2, Figure 5(l)). Without k messages
    replace by key, at any distance, and N alone limits.
    """
    if not 1 <= buffer_messages <= SEQ_MAX:
        raise ConfigError(f"a buffer of {buffer_messages} messages; it must be 1 to {SEQ_MAX}")
    if k is None:
        return pmf.cumulative(buffer_messages)
    if k < 0:
        raise ConfigError(f"k is {k}; a bitmap has 0 bits or more")
    return pmf.cumulative(min(buffer_messages, k))


@final
@dataclass(frozen=True)
class Throughput:
    """What flows, in messages a second."""

    sender_rate_msg_s: float  # T: leaves the sender, and a fast receiver consumes it
    slow_receiver_rate_msg_s: float  # T': what the slow receiver consumes


def throughput(ratio: float, sender_rate_msg_s: float, receiver_rate_msg_s: float) -> Throughput:
    """T and T' for a sender that wants Ts and a slow receiver that can do Tr (SRM eq. 1, 2)."""
    _require_share("purge ratio", ratio)
    _require_rate("sender", sender_rate_msg_s)
    _require_rate("receiver", receiver_rate_msg_s)
    sender = sender_rate_msg_s
    if ratio < 1:  # at R = 1 every message makes room for itself, so no receiver is too slow
        sender = min(sender_rate_msg_s, receiver_rate_msg_s / (1 - ratio))
    return Throughput(sender, min(sender, receiver_rate_msg_s))


def tolerated_slowdown_percent(ratio: float) -> float:
    """How much longer than the sender's interval a receiver may take for a message.

    This is the horizontal axis of OBS Figure 8: 0 for a receiver as fast as the sender, and
    infinity if every message can be purged.
    """
    _require_share("purge ratio", ratio)
    return math.inf if ratio == 1 else 100 * ratio / (1 - ratio)


@final
@dataclass(frozen=True)
class Tolerance:
    """The slowest receiver that does not disturb the sender."""

    receiver_rate_min_msg_s: float
    receiver_delay_max_ms: float  # infinite if the rate is 0


def tolerance(ratio: float, sender_rate_msg_s: float) -> Tolerance:
    """The smallest Tr with Tr >= Ts(1 - R), and the delay for a message that it amounts to."""
    _require_share("purge ratio", ratio)
    _require_rate("sender", sender_rate_msg_s)
    rate_min = sender_rate_msg_s * (1 - ratio)
    return Tolerance(rate_min, 1000 / rate_min if rate_min > 0 else math.inf)


@final
@dataclass(frozen=True)
class BufferPlan:
    """The smallest N and k for a wanted sender rate; both None if no buffer is large enough."""

    ratio_needed: float
    ratio_limit: float  # R*
    sender_rate_bound_msg_s: float  # no buffer carries more; infinite if R* = 1
    buffer_min_messages: int | None
    k_min: int | None

    @property
    def feasible(self) -> bool:
        return self.buffer_min_messages is not None


def smallest_buffer(
    pmf: DistancePmf, want_sender_rate_msg_s: float, receiver_rate_msg_s: float
) -> BufferPlan:
    """The inverse of eq. 1: what it takes to carry a sender past a receiver of that rate.

    An endless tail comes as near to R* as one likes and never reaches it, so needing all of R*
    is then as impossible as needing more.
    """
    _require_rate("wanted sender", want_sender_rate_msg_s)
    _require_rate("receiver", receiver_rate_msg_s)
    share_left_max = receiver_rate_msg_s / want_sender_rate_msg_s
    limit = pmf.limit
    bound = receiver_rate_msg_s / (1 - limit) if limit < 1 else math.inf
    n = _smallest_distance(pmf, share_left_max)
    # A buffer holds at least the message that is being sent; a bitmap may have no bits at all.
    buffer = None if n is None else max(1, n)
    return BufferPlan(max(0.0, 1 - share_left_max), limit, bound, buffer, n)


def _smallest_distance(pmf: DistancePmf, share_left_max: float) -> int | None:
    """The smallest n that leaves no more than that share of the messages, or None."""

    def enough(n: int) -> bool:
        return 1 - pmf.cumulative(n) <= share_left_max * (1 + SLACK)

    longest = pmf.distance_max
    if longest is None:
        if 1 - pmf.limit >= share_left_max * (1 - SLACK):
            return 0 if share_left_max >= 1 else None
        longest = SEQ_MAX  # no distance exceeds the largest sequence number
    return bisect_left(range(longest), True, key=enough) if enough(longest) else None


def _met_within(chance: float, n: int) -> float:
    """1 - (1 - chance)^n, without losing the small chances to rounding."""
    return 1.0 if chance == 1 else -math.expm1(n * math.log1p(-chance))


def _require_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value:g}; it must be between 0 and 1")


def _require_rate(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} rate is {value:g} msg/s; it must be a finite number above 0")
