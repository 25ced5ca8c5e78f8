"""What members tell each other in a round of stability detection (STAB §3, §4).

Arrays have one number for each column, that is, for each sequence of messages. A `Told` is never
changed once it was made, nor is any array in it: they are shared by whoever sends and receives it.
"""

from typing import Final, TypeAlias, final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

from semcast.ids import SEQ_MAX

Numbers: TypeAlias = NDArray[np.int64]

EVERYBODY: Final = -1

# A round begins, or somebody waits for the receiver's votes in it.
START: Final = 1
# The lowest of some members' votes.
ACK: Final = 2
# What is agreed; in FullDist, one member's vote.
INFO: Final = 3
# The sender waits for an INFO, or for a round; or it knows of a later one than the receiver.
ASK: Final = 4

# The vote of somebody who does not yet have a say: it lowers no minimum.
ABSTAINS: Final = SEQ_MAX


@final
class Told:
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

    def __repr__(self) -> str:
        name = ("?", "START", "ACK", "INFO", "ASK")[self.kind if 1 <= self.kind <= ASK else 0]
        return f"<{name} {self.round}.{self.root} of {self.count} votes>"
