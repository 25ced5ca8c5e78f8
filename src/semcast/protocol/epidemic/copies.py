"""Copies of messages that wait for links: who waits, in which class, and which goes first if one
must. Knows nothing of what replaces what.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness
from semcast.wire.message import Message


@final
class Spread:
    """A message that this member passes on: the same bytes to each of its targets."""

    def __init__(self, message: Message, round: i64, frames: bytes) -> None:  # noqa: A002
        self.message: Final = message
        # How often it was relayed, with this time.
        self.round: Final[i64] = round
        self.frames: Final = frames
        # Whether something that waits here was found to replace it.
        self.obsolete = False
        # Its copies that wait here for a link.
        self.copies: Final[list[Copy]] = []


@final
class Copy:
    """One copy, for one target."""

    def __init__(self, spread: Spread, to: int) -> None:
        self.spread: Final = spread
        self.to: Final = to
        # Where it stands on its shelf; -1: it has gone, and the queue that it is in passes it over.
        self.place: i64 = -1


@final
class Shelves:
    """The copies that wait, by class; the highest class goes first if there is no room."""

    def __init__(self, random: Randomness) -> None:
        self._random: Final = random
        # INV-PLACE: shelf c holds the copies of class c, each at its place.
        self._shelves: Final[list[list[Copy]]] = [[]]
        self._classes: Final[dict[Copy, int]] = {}
        self.held: i64 = 0

    def put(self, copy: Copy, its_class: i64) -> None:
        """A copy waits."""
        while its_class >= len(self._shelves):
            self._shelves.append([])
        shelf = self._shelves[its_class]
        copy.place = len(shelf)
        shelf.append(copy)
        if its_class > 0:
            self._classes[copy] = int(its_class)
        self.held += 1

    def take(self, copy: Copy) -> None:
        """A copy waits no longer."""
        assert copy.place >= 0, "it waits"
        its_class = self._classes.pop(copy, 0) if self._classes else 0
        shelf = self._shelves[its_class]
        last = shelf.pop()
        if last is not copy:
            shelf[copy.place] = last
            last.place = copy.place
        copy.place = -1
        self.held -= 1

    def highest(self) -> i64:
        """The highest class of a copy that waits; -1 if none does."""
        at: i64 = len(self._shelves) - 1
        while at >= 0 and not self._shelves[at]:
            at -= 1
        return at

    def victim(self) -> Copy:
        """A random copy of the highest class; it goes on waiting until it is taken."""
        shelf = self._shelves[self.highest()]
        return shelf[int(self._random.random() * len(shelf))]
