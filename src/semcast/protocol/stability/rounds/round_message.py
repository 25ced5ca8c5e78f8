"""What members send each other in a round of stability detection (STAB §3, §4).

Arrays have one number for each column, that is, for each sequence of messages. A round message and
its arrays never change once it is made, because sender and receivers may share them.
"""

from typing import Final, TypeAlias, final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]


# A round begins, or the sender waits for the receiver's votes in it.
START: Final = 1
# The lowest of some members' votes.
ACK: Final = 2
# What is agreed; in FullDist, one member's vote.
INFO: Final = 3
# The sender waits for an INFO, or for a round; or it knows of a later one than the receiver.
ASK: Final = 4


@final
class RoundMessage:
    """One control message of a round."""

    def __init__(
        self,
        kind: i64,
        epoch: i64,
        round: i64,  # noqa: A002
        root: i64,
        count: i64,
        values: Numbers | None = None,
        newest: Numbers | None = None,
    ) -> None:
        self.kind: Final[i64] = kind
        # Names the set of members alive, and which life of each.
        self.epoch: Final[i64] = epoch
        # The number of the round, and who began it.
        self.round: Final[i64] = round
        self.root: Final[i64] = root
        # How many members' votes are merged in `values`.
        self.count: Final[i64] = count
        self.values: Final = values
        # The newest that anybody spoke of, where that is wanted: a hint that the last message was
        # lost (SRM §5.3). Not part of any vote.
        self.newest: Final = newest

    def name(self) -> tuple[int, int, int]:
        """Which round it belongs to: epoch, number and root."""
        return int(self.epoch), int(self.round), int(self.root)

    def without(self, column: int) -> "RoundMessage":
        """The same message, but with nothing in one column."""
        values, newest = _zeroed(self.values, column), _zeroed(self.newest, column)
        return RoundMessage(
            self.kind, self.epoch, self.round, self.root, self.count, values, newest
        )

    def __repr__(self) -> str:
        name = ("?", "START", "ACK", "INFO", "ASK")[self.kind if 1 <= self.kind <= ASK else 0]
        return f"<{name} {self.round}.{self.root} of {self.count} votes>"


def _zeroed(numbers: Numbers | None, column: int) -> Numbers | None:
    if numbers is None or numbers[column] == 0:
        return numbers
    zeroed = numbers.copy()
    zeroed[column] = 0
    return zeroed
