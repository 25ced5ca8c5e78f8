"""Accrual: gaps between signs of life in; how suspicious a silence is, out.

Suspicion accrues with silence, measured against the gaps that were usual so far: the level is how
many mean deviations a silence is beyond the mean gap (Hayashibara's φ, without its assumption that
gaps are normally distributed). So a member whose signs of life come late is given longer than one
that is always on time. Knows nothing of who is watched, nor of what a level leads to.

Every member promises a sign of life in each period, but traffic may bring thousands. A gap shorter
than the period therefore counts as one period: otherwise every lull would look like a failure.
"""

from typing import Final, final

from mypy_extensions import i64

# Each gap moves the mean by this part of the difference. The deviation follows larger differences
# quickly and smaller ones slowly: overload comes in bursts, and the next burst is like the last.
_MEAN_FOLLOWS: Final = 8
_RISES: Final = 4
_FADES: Final = 64
# The deviation is never taken to be less than this part of the period.
_LEAST_PART: Final = 8


@final
class Accrual:
    """The gaps of one member."""

    def __init__(self, period_ns: i64) -> None:
        """`period_ns`: the longest gap, if nothing is late or lost."""
        self.period_ns: i64 = period_ns
        self.mean_ns: i64 = period_ns
        # INV-DEVIATION: at least an eighth of the period, so that no level is infinite.
        self.deviation_ns: i64 = period_ns // _LEAST_PART

    def observe(self, gap_ns: i64) -> None:
        """A sign of life came so long after the one before."""
        off = max(gap_ns, self.period_ns) - self.mean_ns
        self.mean_ns += off // _MEAN_FOLLOWS
        size = off if off >= 0 else -off
        step = _RISES if size > self.deviation_ns else _FADES
        deviation = self.deviation_ns + (size - self.deviation_ns) // step
        self.deviation_ns = max(deviation, self.period_ns // _LEAST_PART)

    def level(self, silence_ns: i64) -> float:
        """How suspicious it is that nothing came for so long."""
        return float(silence_ns - self.mean_ns) / float(self.deviation_ns)

    def silence_ns(self, level: i64) -> i64:
        """The silence that has this level."""
        return self.mean_ns + level * self.deviation_ns
