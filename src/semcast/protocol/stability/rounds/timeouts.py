"""How long to wait for others in a round: how long rounds took in, timeouts out.

A timeout is made as in TCP (RFC 6298), from the mean and the deviation of what was measured, and
doubles with each wait in vain. But where most rounds lose a message, most measurements include such
waits. Each would make the next timeout longer, so the quickest rounds set an upper bound.
"""

from typing import Final, final

from mypy_extensions import i64

_DOUBLINGS_MAX: Final = 5
# A timeout before doubling is at most this many times the quickest round, or the first guess. The
# quickest is forgotten slowly: each round makes it longer by this part, since networks change.
_QUICKEST_TIMES: Final = 4
_QUICKEST_FADES: Final = 16
# After so many waits without a word from the coordinator, the next in order stands in for it.
_TRIES_MIN: Final = 3


@final
class RoundTimeouts:
    """The timeouts of one member, in the rounds of one page."""

    def __init__(self, first_ns: i64, least_ns: i64) -> None:
        """`first_ns` is a guess that is used until a round was measured."""
        self._least_ns: Final[i64] = least_ns
        self._first_ns: Final[i64] = first_ns
        self._quickest_ns: i64 = 0
        self._mean_ns: i64 = 0
        self._deviation_ns: i64 = 0
        self._usual_ns: i64 = first_ns
        self._doublings: i64 = 0
        # Waits in vain since the coordinator was last heard.
        self._silent: i64 = 0

    def measured(self, took_ns: i64) -> None:
        """A round took so long, from entering it to its end."""
        faded_ns = self._quickest_ns + self._quickest_ns // _QUICKEST_FADES
        self._quickest_ns = min(faded_ns, took_ns) if faded_ns > 0 else took_ns
        if self._doublings > 0:
            # Either a loss held this round up, or rounds take longer than was thought. Nobody can
            # tell which, so only a part of it counts.
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
        """Whether the coordinator was silent for more than one wait."""
        return self._silent > 1

    def wait_ns(self) -> i64:
        """How long to wait before trying again."""
        return self._usual_ns << self._doublings

    def in_vain(self) -> None:
        """A wait was over, and nothing had come."""
        self._silent += 1
        self._doublings = min(self._doublings + 1, _DOUBLINGS_MAX)

    def sign_of_life(self) -> None:
        """The coordinator was heard."""
        self._silent = 0

    def ended(self) -> None:
        """What this member waited for has come."""
        self._silent = 0
        self._doublings = 0

    def should_stand_in(self, rank: int) -> bool:
        """Whether a member that is `rank` places after the coordinator stands in for it."""
        return self._silent > _TRIES_MIN + rank
