"""How long to wait for others: measured round-trip times and disappointments in, deadlines out.

As TCP does it (RFC 6298): mean and deviation of what was measured, doubled for each try in vain.
But where most rounds lose something, most are measured with such tries in them; so that these do
not make the next ones longer, and those the ones after them, the quickest rounds set a bound.
"""

from typing import Final, final

from mypy_extensions import i64

_DOUBLINGS_MAX: Final = 5
# What is usual is no more than so many times what the quickest round took, or the first guess; that
# is forgotten slowly, by this part of it in each round, since networks change.
_QUICKEST_TIMES: Final = 4
_QUICKEST_FADES: Final = 16
# How often nothing is heard of a coordinator before the next one in order stands in for it.
_TRIES_MIN: Final = 3


@final
class RoundTimeouts:
    """One member's, in one sequence of rounds."""

    def __init__(self, first_ns: i64, least_ns: i64) -> None:
        """`first_ns`: a guess, until something was measured."""
        self._least_ns: Final[i64] = least_ns
        self._first_ns: Final[i64] = first_ns
        self._quickest_ns: i64 = 0
        self._mean_ns: i64 = 0
        self._deviation_ns: i64 = 0
        self._usual_ns: i64 = first_ns
        self._doublings: i64 = 0
        # Tries since anything was heard of the coordinator.
        self._silent: i64 = 0

    def measured(self, took_ns: i64) -> None:
        """A round took so long, from entering it to its end."""
        faded_ns = self._quickest_ns + self._quickest_ns // _QUICKEST_FADES
        self._quickest_ns = min(faded_ns, took_ns) if faded_ns > 0 else took_ns
        if self._doublings > 0:
            # It was held up by a loss, or it always takes longer than was thought: go halfway.
            took_ns = min(took_ns, 2 * self._usual_ns)
        if self._mean_ns == 0:
            self._mean_ns = took_ns
            self._deviation_ns = took_ns // 2
        else:
            off = took_ns - self._mean_ns
            self._deviation_ns += ((off if off >= 0 else -off) - self._deviation_ns) // 4
            self._mean_ns += off // 8
        most_ns = max(self._first_ns, _QUICKEST_TIMES * self._quickest_ns)
        self._usual_ns = max(self._least_ns, min(self._mean_ns + 4 * self._deviation_ns, most_ns))

    @property
    def round_ns(self) -> i64:
        """How long a round takes; 0 as long as that is not known."""
        return self._mean_ns

    @property
    def tried(self) -> bool:
        """Whether the coordinator was silent before."""
        return self._silent > 1

    def wait_ns(self) -> i64:
        """How long to wait before the next try."""
        return self._usual_ns << self._doublings

    def in_vain(self) -> None:
        """A wait was over, and nothing had come."""
        self._silent += 1
        self._doublings = min(self._doublings + 1, _DOUBLINGS_MAX)

    def sign_of_life(self) -> None:
        """The coordinator was heard."""
        self._silent = 0

    def ended(self) -> None:
        """What was waited for has come."""
        self._silent = 0
        self._doublings = 0

    def should_stand_in(self, rank: int) -> bool:
        """Whether to stand in for the coordinator, being the next but so many."""
        return self._silent > _TRIES_MIN + rank
