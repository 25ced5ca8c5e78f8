"""Small value types that every room shares. Knows nothing of anything else."""

from typing import Final, Protocol, final

from mypy_extensions import mypyc_attr

from semcast._native import i64

# Sequence numbers count a source's messages from 1; 0 means "none yet".
SEQ_MAX: Final = (1 << 62) - 1
# Ids of groups, senders and incarnations: small enough to be native integers in compiled code.
ID_MAX: Final = (1 << 62) - 1
# As a time in nanoseconds: later than anything that is ever due.
NEVER: Final = SEQ_MAX
# As a destination, in place of an id, a position or a node: all others.
EVERYBODY: Final = -1


class Randomness(Protocol):
    """What the core needs of a seeded generator of random numbers, such as `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...
    def random(self) -> float: ...


@final
@mypyc_attr(acyclic=True)
class Source:
    """One life of one sender: the stream in which sequence numbers count.

    A member that crashes and comes back is the same sender with a larger incarnation, and so
    another source: nothing of the two is ever mixed.
    """

    def __init__(self, sender: i64, incarnation: i64) -> None:
        self.sender: Final[i64] = sender
        self.incarnation: Final[i64] = incarnation
        self._hash: Final = hash((sender, incarnation))
        # What people call the sender, if it is known. It is no part of the source's identity.
        self.name = ""
        # In a federation: the group that this stream is for, and the site that sends it. A source
        # of any other group is both the stream and its sender.
        self.group = ""
        self.site: i64 = sender

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Source):
            return NotImplemented
        return self.sender == other.sender and self.incarnation == other.incarnation

    def __lt__(self, other: "Source") -> bool:
        if self.sender != other.sender:
            return self.sender < other.sender
        return self.incarnation < other.incarnation

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Source({self.sender:x}.{self.incarnation:x})"

    def __reduce__(self) -> tuple[type["Source"], tuple[int, int]]:
        return Source, (self.sender, self.incarnation)
