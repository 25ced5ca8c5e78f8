"""Trees and rings over the members of a group: who sends votes to whom in a stability round.

A shape goes in, neighbours come out. Members are indices 0 to n - 1 and member 0 is the root (the
paper's member 1). A tree is complete (STAB §5.1), random (STAB §5.4.2), given, or made of measured
round-trip times. The ring is the paper's boustrophedon through the tree (STAB §5.3.1): level by
level, left to right at odd depths and right to left at even ones; or it is given, or measured.

`without` repairs both when members go, in a way that depends on nothing but who is left, so that
all who agree on that agree on the shape. A shape never changes and may be shared; it holds arrays
of n numbers. Knows nothing of messages, votes and time.
"""

from typing import Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from semcast.errors import ConfigError
from semcast.ids import Randomness

NOBODY: Final = -1
SHAPE_MEMBERS_MAX: Final = 1 << 20
# A table of round-trip times has n² entries.
MEASURED_MAX: Final = 2048
_TWO_OPT_PASSES_MAX: Final = 8
_KEPT_REPAIRS_MAX: Final = 8

Indices: TypeAlias = NDArray[np.int64]
Times: TypeAlias = NDArray[np.float64]


@final
class Shape:
    """A tree, and a ring that begins at its root, over those members that are present."""

    def __init__(
        self, parents: Indices, ring: Indices | None = None, root: int = 0, present: int = -1
    ) -> None:
        """`parents` has NOBODY for the root and for those absent; `ring` must begin at the root.

        Without a ring it is the boustrophedon. `present` says how many there must be, or -1: all.
        """
        self.members: Final = len(parents)
        self.root: Final = root
        self.parents: Final = parents
        self.present: Final = self.members if present < 0 else present
        # The children of m are _kids[_begin[m]:_begin[m + 1]], in the order of their indices;
        # member m itself is at _kids[_at[m]].
        hanging = np.flatnonzero(parents != NOBODY)
        self._kids: Final[Indices] = hanging[np.argsort(parents[hanging], kind="stable")]
        counts = np.bincount(parents[hanging], minlength=self.members)
        self._begin: Final[Indices] = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._at: Final[Indices] = np.full(self.members, NOBODY, np.int64)
        self._at[self._kids] = np.arange(len(self._kids))
        self.levels: Final = self._find_levels()
        if sum(len(level) for level in self.levels) != self.present:
            raise ConfigError("the parents of the members are no tree: some never reach the root")
        self.ring: Final[Indices] = self._snake() if ring is None else ring
        self._place: Final[Indices] = np.full(self.members, NOBODY, np.int64)
        self._place[self.ring] = np.arange(len(self.ring))
        self._check_ring()
        # Repairs made before, by who was left. All members of a simulated group share one shape.
        self._repairs: Final[dict[bytes, Shape]] = {}

    # -- the tree ------------------------------------------------------------------------------

    def parent(self, member: int) -> int:
        """NOBODY for the root."""
        return int(self.parents[member])

    def children(self, member: int) -> list[int]:
        """In order; none for a leaf."""
        found: list[int] = self._kids[self._begin[member] : self._begin[member + 1]].tolist()
        return found

    def degree(self, member: int) -> int:
        return int(self._begin[member + 1] - self._begin[member])

    def last_child(self, member: int) -> int:
        """NOBODY for a leaf."""
        return int(self._kids[self._begin[member + 1] - 1]) if self.degree(member) else NOBODY

    def sibling_before(self, member: int) -> int:
        """NOBODY for a first child and for the root."""
        return self._sibling(member, -1)

    def sibling_after(self, member: int) -> int:
        """NOBODY for a last child and for the root."""
        return self._sibling(member, 1)

    def depths(self) -> Indices:
        """Hops from the root; NOBODY for those absent."""
        depths = np.full(self.members, NOBODY, np.int64)
        for depth, level in enumerate(self.levels):
            depths[level] = depth
        return depths

    def subtree_sizes(self) -> Indices:
        """How many members are in the subtree below and including each; 0 for those absent."""
        sizes = np.zeros(self.members, np.int64)
        for level in reversed(self.levels):
            sizes[level] += 1
            if level[0] != self.root:
                np.add.at(sizes, self.parents[level], sizes[level])
        return sizes

    @property
    def height(self) -> int:
        return len(self.levels) - 1

    # -- the ring ------------------------------------------------------------------------------

    def after(self, member: int) -> int:
        """The next around the ring; after the last comes the root."""
        return int(self.ring[(self._place[member] + 1) % len(self.ring)])

    def before(self, member: int) -> int:
        return int(self.ring[self._place[member] - 1])

    def place(self, member: int) -> int:
        """How many are between the root and this member on the ring, the root included."""
        return int(self._place[member])

    # -- repair --------------------------------------------------------------------------------

    def has(self, member: int) -> bool:
        return bool(self._place[member] != NOBODY)

    def without(self, alive: NDArray[np.bool_]) -> "Shape":
        """The shape over those that are alive, made of this one, the shape of the whole group.

        A member whose parent is gone hangs on its nearest living ancestor. If the root is gone,
        the first of those nearest to it takes its place, and whoever has no living ancestor hangs
        on that one. The ring closes over the gaps. It is always made from the whole group's shape,
        so that the order in which members went does not matter.
        """
        if self.present != self.members:
            raise ConfigError("repair the shape of the whole group, not one already repaired")
        if len(alive) != self.members or not alive.any():
            raise ConfigError(f"of {self.members} members at least one must be alive")
        key = np.packbits(alive).tobytes()
        repaired = self._repairs.get(key)
        if repaired is None:
            repaired = self if bool(alive.all()) else self._repair(alive)
            if len(self._repairs) >= _KEPT_REPAIRS_MAX:
                self._repairs.clear()
            self._repairs[key] = repaired
        return repaired

    def _repair(self, alive: NDArray[np.bool_]) -> "Shape":
        root = next(int(level[alive[level]][0]) for level in self.levels if alive[level].any())
        parents = self.parents.copy()
        for level in self.levels[1:]:  # from the top, so that a dead parent's own is settled
            above = self.parents[level]
            parents[level] = np.where(alive[above], above, parents[above])
        parents[alive & (parents == NOBODY)] = root
        parents[root] = NOBODY
        parents[~alive] = NOBODY
        order = self.ring[alive[self.ring]]
        start = int(np.flatnonzero(order == root)[0])
        return Shape(parents, np.roll(order, -start), root, int(alive.sum()))

    # -- making --------------------------------------------------------------------------------

    def _sibling(self, member: int, step: int) -> int:
        parent = int(self.parents[member])
        if parent == NOBODY:
            return NOBODY
        at = int(self._at[member]) + step
        inside = self._begin[parent] <= at < self._begin[parent + 1]
        return int(self._kids[at]) if inside else NOBODY

    def _find_levels(self) -> list[Indices]:
        """The members by depth, each level from left to right."""
        levels: list[Indices] = []
        level = np.array([self.root], np.int64)
        while len(level):
            levels.append(level)
            # The children of several members in a row, without a loop over the members.
            first, counts = self._begin[level], self._begin[level + 1] - self._begin[level]
            total = int(counts.sum())
            offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            level = self._kids[np.repeat(first, counts) + offsets]
        return levels

    def _snake(self) -> Indices:
        turned = [level if at % 2 else level[::-1] for at, level in enumerate(self.levels)]
        return np.concatenate(turned)

    def _check_ring(self) -> None:
        if len(self.ring) != self.present or int((self._place != NOBODY).sum()) != self.present:
            raise ConfigError(
                f"a ring of {len(self.ring)} members for {self.present}; each must be on it once"
            )
        if int(self.ring[0]) != self.root:
            raise ConfigError(f"the ring begins at {int(self.ring[0])}; the root is {self.root}")


# -- trees -----------------------------------------------------------------------------------------


def complete_tree(branching: int, height: int, leaf_degree: int | None = None) -> Shape:
    """The tree of STAB §5.1: complete down to depth height - 1, where each has leaf_degree leaves.

    Numbered from the root down, level by level.
    """
    leaf_degree = branching if leaf_degree is None else leaf_degree
    if branching < 1 or height < 1 or not 1 <= leaf_degree <= branching:
        raise ConfigError(
            f"a tree of branching {branching}, height {height} and leaf degree {leaf_degree}; "
            "all must be at least 1, and the leaf degree at most the branching"
        )
    parents = [np.array([NOBODY], np.int64)]
    level = np.array([0], np.int64)
    size = 1
    for depth in range(1, height + 1):
        degree = branching if depth < height else leaf_degree
        _require_size(size + degree * len(level))
        parents.append(np.repeat(level, degree))
        level = np.arange(size, size + degree * len(level))
        size += len(level)
    return Shape(np.concatenate(parents))


def filled_tree(members: int, branching: int) -> Shape:
    """Any number of members, level by level, the last level filled from the left."""
    _require_size(members)
    if branching < 1:
        raise ConfigError(f"branching is {branching}; it must be at least 1")
    return Shape((np.arange(members, dtype=np.int64) - 1) // branching)


def random_tree(members: int, branching: int, height: int, random: Randomness) -> Shape:
    """The random tree of STAB §5.4.2, for a mean degree of `branching`.

    Level 0 < k < height gets each member with probability b^k/(n - 1) and the last level the rest,
    with the exponent put right (`model.stability.level_probabilities`); each member then hangs on a
    random one of the level above. A level left empty gets a member of the largest, or there would
    be nothing to hang the next on.
    """
    _require_size(members)
    above = sum(branching**k for k in range(height)) if height < 64 else SHAPE_MEMBERS_MAX
    if branching < 1 or height < 1 or members <= above:
        raise ConfigError(
            f"a random tree of {members} members, branching {branching} and height {height}; "
            f"more than {above} are needed to leave some for the last level"
        )
    levels: list[list[int]] = [[0], *([] for _ in range(height))]
    for member in range(1, members):
        drawn = random.random() * (members - 1)
        depth = 1
        while depth < height and drawn >= branching**depth:
            drawn -= branching**depth
            depth += 1
        levels[depth].append(member)
    for level in levels:
        if not level:
            level.append(max(levels, key=len).pop())
    parents = np.full(members, NOBODY, np.int64)
    for depth in range(1, height + 1):
        upper = levels[depth - 1]
        for member in levels[depth]:
            parents[member] = upper[int(random.random() * len(upper))]
    return Shape(parents)


def given_tree(parents: list[int], ring: list[int] | None = None, root: int = 0) -> Shape:
    """A tree, and if wanted a ring, given by a user or a maker; parents[root] is NOBODY."""
    _require_size(len(parents))
    if parents[root] != NOBODY:
        raise ConfigError(
            f"member {root} is the root: its parent must be {NOBODY}, not {parents[root]}"
        )
    for member in range(len(parents)):
        if member != root and not 0 <= parents[member] < len(parents):
            raise ConfigError(
                f"the parent of member {member} is {parents[member]}; members go from 0 to "
                f"{len(parents) - 1}"
            )
    around = None if ring is None else _given_ring(ring, parents)
    return Shape(np.array(parents, np.int64), around, root)


def measured_tree(rtt: Times, branching: int, root: int = 0) -> Shape:
    """From a table of round-trip times: members join one by one, each below the cheapest parent.

    The cost is the time to the parent and half the way from there to the root, so that few long
    links join a far site rather than one for each of its members. No member gets more than
    `branching` children. An entry that is no number above 0 was not measured and counts as the
    longest that was. The ring is measured too.
    """
    if branching < 1:
        raise ConfigError(f"branching is {branching}; it must be at least 1")
    table = clean_times(rtt)
    size = len(table)
    parents = np.full(size, NOBODY, np.int64)
    degree = np.zeros(size, np.int64)
    open_: NDArray[np.bool_] = np.zeros(size, np.bool_)  # in the tree, with room for a child
    outside: NDArray[np.bool_] = np.ones(size, np.bool_)
    way = np.zeros(size)  # to the root
    open_[root], outside[root] = True, False
    for _ in range(size - 1):
        inside = np.flatnonzero(open_)
        waiting = np.flatnonzero(outside)
        costs = way[inside, None] / 2 + table[np.ix_(inside, waiting)]
        best = int(costs.argmin())
        upper, member = int(inside[best // len(waiting)]), int(waiting[best % len(waiting)])
        parents[member] = upper
        way[member] = way[upper] + table[upper, member]
        degree[upper] += 1
        open_[upper] = degree[upper] < branching
        open_[member], outside[member] = True, False
    return Shape(parents, measured_ring(rtt, root), root)


# -- rings -----------------------------------------------------------------------------------------


def measured_ring(rtt: Times, root: int = 0) -> Indices:
    """A short ring from the root: always to the nearest member next, then crossings undone."""
    table = clean_times(rtt)
    size = len(table)
    tour = [root]
    left: NDArray[np.bool_] = np.ones(size, np.bool_)
    left[root] = False
    while len(tour) < size:
        waiting = np.flatnonzero(left)
        nearest = int(waiting[table[tour[-1], waiting].argmin()])
        tour.append(nearest)
        left[nearest] = False
    return _undo_crossings(np.array(tour, np.int64), table)


def _undo_crossings(tour: Indices, table: Times) -> Indices:
    """2-opt: turn a stretch around wherever that makes the ring shorter, for a few passes."""
    size = len(tour)
    for _ in range(_TWO_OPT_PASSES_MAX):
        shorter = False
        for at in range(size - 2):
            # The stretch at + 1 .. end, between its neighbours.
            ends = np.arange(at + 2, size)
            last, following = tour[ends], tour[(ends + 1) % size]
            one, other = int(tour[at]), int(tour[at + 1])
            gain = table[one, other] + table[last, following]
            gain = gain - table[one, last] - table[other, following]
            best = int(gain.argmax())
            if gain[best] > 1e-9:
                end = int(ends[best])
                tour[at + 1 : end + 1] = tour[at + 1 : end + 1][::-1].copy()
                shorter = True
        if not shorter:
            break
    return tour


# -- checks ----------------------------------------------------------------------------------------


def _given_ring(ring: list[int], parents: list[int]) -> Indices:
    for member in ring:
        if not 0 <= member < len(parents):
            raise ConfigError(
                f"the ring names member {member}; members go from 0 to {len(parents) - 1}"
            )
    return np.array(ring, np.int64)


def clean_times(rtt: Times) -> Times:
    """The table with a number for each pair, the same in both directions."""
    if rtt.ndim != 2 or rtt.shape[0] != rtt.shape[1] or not 1 <= rtt.shape[0] <= MEASURED_MAX:
        raise ConfigError(
            f"round-trip times of shape {rtt.shape}; a square table of 1 to {MEASURED_MAX} members "
            "is needed"
        )
    known: NDArray[np.bool_] = np.isfinite(rtt) & (rtt > 0)
    np.fill_diagonal(known, False)
    longest = float(rtt[known].max()) if known.any() else 1.0
    table = np.where(known, rtt, longest)
    # Where only one of the two has measured, its figure counts for both.
    table = np.where(known & ~known.T, table, np.where(known.T & ~known, table.T, table))
    return (table + table.T) / 2


def _require_size(members: int) -> None:
    if not 1 <= members <= SHAPE_MEMBERS_MAX:
        raise ConfigError(f"{members} members; a shape has 1 to {SHAPE_MEMBERS_MAX}")
