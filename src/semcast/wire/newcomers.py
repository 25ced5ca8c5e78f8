"""Newcomers: sources that were never heard in, whether one more of them may cost a key out.

An attacker without the key can still make up sources, thousands a second. Finding out that one is
made up takes a key derivation, eight times as long as opening a genuine datagram. So only a limited
number of keys is derived in a second. Senders that are expected (the members of a group, and those
who ask it questions) have a budget of their own, and all others a smaller one: made-up senders do
not keep a member out that starts again.

Knows nothing of datagrams and reads no clock: `refill` is called with the time.
"""

from collections.abc import Set
from typing import Final, final

from mypy_extensions import i64

_SECOND_NS: Final = 1_000_000_000
# A derivation and a tag that is wrong take about 10 µs, so both budgets together take some 1% of a
# processor. Under a flood of 20,000 datagrams a second that name members, one datagram in twenty of
# a member that starts again is looked at, and it says hello twenty times a second.
EXPECTED_PER_S: Final = 1_000
OTHERS_PER_S: Final = 100
# As many may come at once: all members of a large group, when it begins.
EXPECTED_BURST: Final = 1_024
OTHERS_BURST: Final = 100


@final
class Budget:
    """Allows `per_s` in a second, and up to `burst` at once after a pause."""

    def __init__(self, per_s: i64, burst: i64) -> None:
        assert per_s > 0
        assert burst > 0
        self._price_ns: Final[i64] = _SECOND_NS // per_s
        self._saved_ns_max: Final[i64] = burst * self._price_ns
        # What may still be spent, as the time that it takes to be refilled.
        self._saved_ns: i64 = self._saved_ns_max

    def refill(self, passed_ns: i64) -> None:
        """So much time has passed."""
        # A long time is cut first, so that the sum cannot overflow.
        saved_ns = self._saved_ns + min(passed_ns, self._saved_ns_max)
        self._saved_ns = min(saved_ns, self._saved_ns_max)

    def spend(self) -> bool:
        """Take one, if one is left."""
        if self._saved_ns < self._price_ns:
            return False
        self._saved_ns -= self._price_ns
        return True


@final
class Newcomers:
    """Decides which sources that were never heard are looked at."""

    def __init__(self) -> None:
        self._expected: Set[int] = frozenset()
        self._budget: Final = Budget(EXPECTED_PER_S, EXPECTED_BURST)
        self._others: Final = Budget(OTHERS_PER_S, OTHERS_BURST)
        self._now_ns: i64 = 0

    def expect(self, senders: Set[int]) -> None:
        """Say which senders are expected. As long as none was named, all are."""
        self._expected = senders

    def refill(self, now_ns: i64) -> None:
        """Refill the budgets up to this time. A clock that goes back refills nothing."""
        passed_ns = now_ns - self._now_ns
        if passed_ns > 0:
            self._now_ns = now_ns
            self._budget.refill(passed_ns)
            self._others.refill(passed_ns)

    def may_cost(self, sender: int) -> bool:
        """Whether to derive a key for a new source of this sender; if so, it is spent."""
        if not self._expected or sender in self._expected:
            return self._budget.spend()
        return self._others.spend()
