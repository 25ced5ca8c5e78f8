"""Copies of messages that wait for links: who waits, in which class, and which goes first if one
must. Knows nothing of what replaces what.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness
from semcast.wire.message import Message

# So many copies of one link, and twice as many as wait, may have gone before they are left out.
_TIDY_MIN: Final = 64


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

    def __init__(self, spread: Spread, lane: "Lane", its_class: i64) -> None:
        self.spread: Final = spread
        self.lane: Final = lane
        # Of which copies go first if there is no room: the higher, the sooner.
        self.its_class: Final[i64] = its_class
        # Where it stands on its shelf; -1: it has gone, and the lane that it is in passes it over.
        self.place: i64 = -1
        # The copy that came after it, for the same link.
        self.next: Copy | None = None


@final
class Lane:
    """The copies for one link, in the order in which they came. Those that have gone are passed
    over, so that it costs nothing to let one go.
    """

    def __init__(self, shelves: "Shelves") -> None:
        # Where these copies stand: the link's own, or those of all links.
        self.shelves: Final = shelves
        self._first: Copy | None = None
        self._last: Copy | None = None
        # How many there are, with those that have gone; and at how many these are left out.
        self._length: i64 = 0
        self._tidy_at: i64 = _TIDY_MIN

    def append(self, copy: Copy) -> None:
        """A copy waits for the link."""
        if self._length >= self._tidy_at:
            self._tidy()
        self._link(copy)

    def first(self) -> Copy | None:
        """The one that waits for longest; it stays."""
        copy = self._first
        while copy is not None and copy.place < 0:
            copy = copy.next
            self._length -= 1
        self._first = copy
        if copy is None:
            self._last = None
        return copy

    def _link(self, copy: Copy) -> None:
        if self._last is None:
            self._first = copy
        else:
            self._last.next = copy
        self._last = copy
        self._length += 1

    def _tidy(self) -> None:
        """Leave out those that have gone: if nobody takes anything for long, they would pile up."""
        copy = self._first
        self._first = self._last = None
        self._length = 0
        while copy is not None:
            after = copy.next
            copy.next = None
            if copy.place >= 0:
                self._link(copy)
            copy = after
        self._tidy_at = 2 * self._length + _TIDY_MIN


@final
class Shelves:
    """The copies that wait, by class; the highest class goes first if there is no room."""

    def __init__(self, random: Randomness) -> None:
        self._random: Final = random
        # INV-PLACE: shelf c holds the copies of class c, each at its place.
        self._shelves: Final[list[list[Copy]]] = [[]]
        self.held: i64 = 0

    def put(self, copy: Copy) -> None:
        """A copy waits."""
        while copy.its_class >= len(self._shelves):
            self._shelves.append([])
        shelf = self._shelves[copy.its_class]
        copy.place = len(shelf)
        shelf.append(copy)
        self.held += 1

    def take(self, copy: Copy) -> None:
        """A copy waits no longer."""
        assert copy.place >= 0, "it waits"
        shelf = self._shelves[copy.its_class]
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
