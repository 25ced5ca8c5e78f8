"""Counts of traffic in, its figures out. Plain Python: what is counted fits the driver.

D is the distance between a message and the latest one that it replaces, and f(0) the share of
messages that replace none (SRM §5.1, OBS §4.5).
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Histogram:
    """How often each number was seen."""

    counts: Mapping[int, int]
    # Large numbers are counted by class; this one is as it was.
    largest: int = 0

    @cached_property
    def total(self) -> int:
        return sum(self.counts.values())

    @cached_property
    def mean(self) -> float:
        return self.sum_of(1) / self.total if self.total else 0.0

    def sum_of(self, power: int) -> int:
        """The sum of all numbers, or of their squares."""
        return sum(x**power * n for x, n in self.counts.items())

    def quantile(self, share: float) -> float:
        """The number that this share does not exceed, between two of them in proportion."""
        if not self.total:
            return 0.0
        place = share * (self.total - 1)
        below, rest = math.floor(place), place - math.floor(place)
        low = self._at(below)
        return low + rest * (self._at(min(below + 1, self.total - 1)) - low) if rest else low

    def _at(self, place: int) -> int:
        """The number at this place, counted from 0, if all of them stood in order."""
        values, seen = self._seen
        return values[bisect_right(seen, place)]

    @cached_property
    def _seen(self) -> tuple[list[int], list[int]]:
        values = sorted(self.counts)
        return values, list(accumulate(self.counts[x] for x in values))

    def dispersion(self) -> float | None:
        """Variance over mean: 1 for arrivals at random (Poisson), more for bursts."""
        if not self.total or not self.mean:
            return None
        variance = self.sum_of(2) / self.total - self.mean**2
        return variance / self.mean


@dataclass(frozen=True)
class Counted:
    """A key or a sender, and how many messages it has."""

    name: str
    messages: int
    size_bytes: int | None = None


@dataclass(frozen=True)
class Span:
    """A stretch of time, for plots: when it begins, its mean rate and the busiest window in it."""

    time_s: float
    rate_msg_s: float
    peak_msg_s: float


@dataclass(frozen=True)
class TrafficProfile:
    """What was found out about some traffic."""

    name: str
    per_sender: bool
    window_s: float
    messages: int
    # Messages by D, of those that replace one.
    distances: Histogram
    # Keys by how many messages they have, windows by how many messages are in them, empty ones
    # between the first and the last included; messages by size.
    keys_with: Histogram
    windows_with: Histogram
    sizes: Histogram
    senders: int
    # None where there are no sizes.
    bytes_total: int | None = None
    top_keys: tuple[Counted, ...] = ()
    top_senders: tuple[Counted, ...] = ()
    spans: tuple[Span, ...] = ()
    first_s: float | None = None
    last_s: float | None = None
    times_back: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    # Messages of a journal that replace others by number and not by key: not in the distances.
    by_number: int = 0

    @property
    def never_replaced(self) -> int:
        """Messages that nothing replaces. With keys, each message replaces at most one afresh."""
        return self.messages - self.distances.total

    @property
    def never_replaced_share(self) -> float:
        return self.never_replaced / self.messages

    @property
    def unkeyed(self) -> int:
        """Messages without a key."""
        return self.messages - self.keys_with.sum_of(1)

    @property
    def pmf(self) -> dict[int, float]:
        """P(D = x) by x, with f(0); what `semcast model purge --pmf` reads."""
        counts = {0: self.never_replaced, **self.distances.counts}
        return {x: n / self.messages for x, n in sorted(counts.items()) if n}

    def share_within(self, distance_max: int) -> float:
        """R(N): the share of messages that replace one at most so far back."""
        near = sum(n for x, n in self.distances.counts.items() if x <= distance_max)
        return near / self.messages

    @property
    def duration_s(self) -> float | None:
        if self.first_s is None or self.last_s is None:
            return None
        return self.last_s - self.first_s

    @property
    def mean_rate_msg_s(self) -> float | None:
        duration_s = self.duration_s
        return self.messages / duration_s if duration_s else None

    @cached_property
    def ranks(self) -> list[tuple[int, int]]:
        """Points of the plot of frequency by rank: as many keys have at least so many messages."""
        points, rank = [], 0
        for messages, keys in sorted(self.keys_with.counts.items(), reverse=True):
            rank += keys
            points.append((rank, messages))
        return points

    def gini(self) -> float | None:
        """0: all keys have equally many messages; towards 1: few keys have nearly all."""
        keys, messages = self.keys_with.total, self.keys_with.sum_of(1)
        if not keys:
            return None
        # Keys of equal frequency stand on neighbouring ranks: their ranks add up in closed form.
        weighed, before = 0, 0
        for each, n in sorted(self.keys_with.counts.items()):
            weighed += each * (n * before + n * (n + 1) // 2)
            before += n
        return 2 * weighed / (keys * messages) - (keys + 1) / keys

    def zipf_exponent(self) -> float | None:
        """The slope of log frequency by log rank, by least squares; None with too few points."""
        points = [(math.log(rank), math.log(messages)) for rank, messages in self.ranks]
        if len(points) < 3:
            return None
        mean_x = math.fsum(x for x, _ in points) / len(points)
        mean_y = math.fsum(y for _, y in points) / len(points)
        over = math.fsum((x - mean_x) * (y - mean_y) for x, y in points)
        return -over / math.fsum((x - mean_x) ** 2 for x, _ in points)
