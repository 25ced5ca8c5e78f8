"""Several senders under one sequence (STAB §7): numbers as they arrive in, one column's vote out.

A column of a round tracker is a *sequence*, not a sender. If a group of senders has its messages
numbered in one series, by a sequencer or by a total order, they need one column together; in the
extreme the whole group needs a single one (Amoeba and Tandem do so, STAB §3.1).

This keeps what a member may vote in such a column: the last number up to which it has everything.
Without a common series there is nothing to keep: the lowest of several senders' own numbers is the
progress of none of them, and would hold all up for the one that sends least. So this is for whoever
numbers messages, and no group uses it unless there is somebody who does.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError


@final
class SharedSequence:
    """What a member has of one series of numbers, from 1 on."""

    def __init__(self, ahead_max: int) -> None:
        """At most so many numbers beyond a gap are remembered; a window."""
        if ahead_max < 1:
            raise ConfigError(f"ahead_max is {ahead_max}; it must be at least 1")
        self._ahead_max: Final[i64] = ahead_max
        # INV-PREFIX: everything up to here is here.
        self._up_to: i64 = 0
        # Bit i: up_to + 1 + i is here. Bit 0 is never set.
        self._ahead = 0

    @property
    def up_to(self) -> int:
        """The vote: everything up to here is here."""
        return self._up_to

    def has(self, number: i64) -> bool:
        """A message with this number is here. False if it is too far ahead to be remembered."""
        at = number - self._up_to - 1
        if at < 0:
            return True
        if at >= self._ahead_max:
            return False
        self._ahead |= 1 << int(at)
        # As many as there are ones at the low end.
        run = (~self._ahead & (self._ahead + 1)).bit_length() - 1
        self._up_to += run
        self._ahead >>= run
        return True
