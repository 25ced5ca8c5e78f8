"""Local health: what goes wrong at this member in; how much longer it waits for others, out.

Whoever is slow itself sees others as dead: it reads their answers too late. So a member that has
reason to doubt itself gives everybody more time (Lifeguard, Dadgar et al. 2018). Troubles (a timer
was late; nobody answered; others accuse this member) are counted, and multiply all waits. How late
timers were lately is added, since the next stop may be as long as the last.
"""

from typing import Final, final

from mypy_extensions import i64

FACTOR_MAX: Final = 8
# Lateness fades by this part in each step of this length; troubles are forgotten one by one.
_STEP_NS: Final = 500_000_000
_FADES: Final = 16
_TROUBLE_LASTS_NS: Final = 4_000_000_000
# Troubles closer together than this are one.
_TROUBLE_APART_NS: Final = 100_000_000
# A timer that was so late counts as two troubles, and so on.
_LATE_STEP_NS: Final = 250_000_000


@final
class Health:
    """The health of one member."""

    def __init__(self) -> None:
        # How late timers were lately: the worst, fading.
        self.late_ns: i64 = 0
        # All waits are multiplied by this. INV-FACTOR: from 1 to 8.
        self.factor: i64 = 1
        self._faded_ns: i64 = 0
        self._trouble_ns: i64 = 0

    def was_late(self, late_ns: i64, now_ns: i64) -> None:
        """A timer went off so late."""
        self.late_ns = max(self.late_ns, late_ns)
        self.trouble(now_ns, 1 + late_ns // _LATE_STEP_NS)

    def trouble(self, now_ns: i64, weight: i64 = 1) -> None:
        """Something suggests that this member itself is not well."""
        if self.factor == 1 or now_ns - self._trouble_ns >= _TROUBLE_APART_NS:
            self._trouble_ns = now_ns
            self.factor = min(self.factor + weight, FACTOR_MAX)

    def recover(self, now_ns: i64) -> None:
        """Time has passed."""
        if self.factor > 1 and now_ns - self._trouble_ns >= _TROUBLE_LASTS_NS:
            self._trouble_ns = now_ns
            self.factor -= 1
        if self.late_ns == 0 or now_ns - self._faded_ns > 2 * _FADES * _STEP_NS:
            self._faded_ns = now_ns
        while now_ns - self._faded_ns >= _STEP_NS:
            self._faded_ns += _STEP_NS
            self.late_ns -= (self.late_ns + _FADES - 1) // _FADES
