"""The roll: who is alive and in which life in; an epoch, and the tree or ring of a round, out.

Votes are merged only within one epoch, a number that names who is alive, which life of each, and
which tree and ring they have gone over to, if it is not the first. So nobody's vote is taken for
another life's, and all whose votes are merged use the same tree or ring. Knows nothing of votes,
rounds and time.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

from semcast.protocol.membership.view import View, scatter
from semcast.protocol.stability.rounds.shape import NOBODY, Shape

_MASK: Final = (1 << 62) - 1
# How many shapes around another root than usual are kept; few are in use at any time.
_KEPT_MAX: Final = 4


@final
class Roll:
    """Who is in a group; shared by all trackers of a member."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        """`seed` names what all members must have in common, such as the protocol and its tree."""
        self.members = shape.members
        # Tree and ring of the whole group at first; and those that it has gone over to.
        self.first = shape
        self._whole = shape
        # Names tree and ring; 0 for the first ones.
        self._shape_name = 0
        self._seed: Final = seed
        # Names who is alive, and in which life.
        self._who = 0
        # INV-EPOCH: the same at two members only if they agree on who is alive, in which life, and
        # on tree and ring.
        self.epoch: i64 = seed & _MASK
        self._gone: Final[dict[int, None]] = {}
        self._shape = shape
        self._rooted: Final[dict[int, Shape]] = {}

    @property
    def alive_count(self) -> int:
        return self.members - len(self._gone)

    def alive(self, member: int) -> bool:
        return 0 <= member < self.members and member not in self._gone

    def resize(self, shape: Shape) -> None:
        """The next view has other members: all have this tree and ring, until they find another."""
        self.members = shape.members
        self.first = shape
        self._whole = shape
        self._shape_name = 0

    def install(self, view: View) -> None:
        """Another view says who is alive, and in which life. If it has other members, `resize` has
        been called before.
        """
        assert len(view.members) == self.members
        self._gone.clear()
        for at in range(self.members):
            if view.gone >> at & 1:
                self._gone[at] = None
        self._who = int(view.digest)
        self._name_epoch()
        self._reshape()

    def reshape(self, shape: Shape, name: int) -> None:
        """Go over to another tree and ring of the whole group; nothing else has this name."""
        assert shape.members == self.members
        self._shape_name = name & _MASK
        self._name_epoch()
        self._whole = shape
        self._reshape()

    def alive_mask(self) -> NDArray[np.bool_]:
        """By index, who is alive."""
        alive: NDArray[np.bool_] = np.ones(self.members, np.bool_)
        alive[list(self._gone)] = False
        return alive

    def first_alive(self) -> int:
        """The one alive with the lowest index."""
        return next(member for member in range(self.members) if member not in self._gone)

    def successor(self, member: int) -> int:
        """The same member if it is alive, else the next around the ring of the whole group."""
        if not 0 <= member < self.members:
            member = self._whole.root
        while member in self._gone:
            member = self._whole.after(member)
        return member

    def rank(self, member: int, root: int) -> int:
        """How many steps around the ring a member is from a root."""
        ring = self._shape
        return (ring.place(member) - ring.place(root)) % len(ring.ring)

    def shape(self, root: int) -> Shape:
        """Tree and ring of those alive, around one of them."""
        if root == self._shape.root:
            return self._shape
        found = self._rooted.get(root)
        if found is None:
            if len(self._rooted) >= _KEPT_MAX:
                self._rooted.clear()
            found = self._rooted[root] = rooted(self._shape, root)
        return found

    def _name_epoch(self) -> None:
        self.epoch = (self._seed ^ self._who ^ self._shape_name) & _MASK

    def _reshape(self) -> None:
        self._shape = self._whole.without(self.alive_mask())
        self._rooted.clear()


def rooted(shape: Shape, root: int) -> Shape:
    """The same tree, hung up at another member; the same ring, begun there."""
    parents = shape.parents.copy()
    above, member = NOBODY, root
    while member != NOBODY:
        parent = shape.parent(member)
        parents[member] = above
        above, member = member, parent
    return Shape(parents, np.roll(shape.ring, -shape.place(root)), root, shape.present)


def name_of(numbers: Iterable[int]) -> int:
    """A number that names this sequence of numbers; another sequence has another name."""
    value = 0
    for number in numbers:
        value = scatter(value + number + 1)
    return value & _MASK
