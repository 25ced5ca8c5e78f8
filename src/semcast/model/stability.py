"""What a stability protocol costs: the shape of a tree in, rounds and message counts out.

STAB tables 1 and 4 for a group laid over a tree network (STAB §5.1), one member on each node,
with the printed slips put right (docs/design/closed-forms.md says which). Counts are exact
integers. Knows nothing of time: round-trip times need a simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from semcast.errors import ConfigError
from semcast.ids import ID_MAX


@final
@dataclass(frozen=True)
class Tree:
    """A b-ary tree of height p, complete down to depth p - 1, where each node has z leaves."""

    branching: int  # b
    height: int  # p
    leaf_degree: int  # z, from 1 to b

    def __post_init__(self) -> None:
        if self.branching < 1:
            raise ConfigError(f"branching is {self.branching}; it must be at least 1")
        if self.height < 1:
            raise ConfigError(f"height is {self.height}; it must be at least 1")
        if not 1 <= self.leaf_degree <= self.branching:
            raise ConfigError(
                f"leaf degree is {self.leaf_degree}; it must be from 1 to the branching, "
                f"{self.branching}"
            )
        # Checked before any power is taken, so that a height of a million costs nothing.
        height_max = ID_MAX.bit_length()
        too_high = self.branching > 1 and self.height > height_max
        if too_high or self.size > ID_MAX:
            raise ConfigError(
                f"a tree of branching {self.branching} and height {self.height} has more than "
                f"{ID_MAX} members; lower one of them"
            )

    @property
    def size(self) -> int:
        """The number of members, n(b, p, z) (STAB §5.1)."""
        return self.inner_nodes + self.leaves

    @property
    def inner_nodes(self) -> int:
        """Nodes at depths 0 to p - 1: the root and the internal members."""
        return _powers(self.branching, self.height)

    @property
    def leaves(self) -> int:
        return int(self.leaf_degree * self.branching ** (self.height - 1))

    @property
    def root_degree(self) -> int:
        return self.branching if self.height > 1 else self.leaf_degree


@final
@dataclass(frozen=True)
class ProtocolCost:
    """One execution of a stability protocol.

    A multicast counts once for each hop that it or a copy of it travels, and its sender receives
    it too (STAB §2.1, §5.2). Roles that no member has are left out of `processed`.
    """

    rounds: int
    start_hops: int
    ack_hops: int
    info_hops: int
    processed: Mapping[str, int]  # messages sent and received, by role

    @property
    def all_hops(self) -> int:
        return self.start_hops + self.ack_hops + self.info_hops


def coordp(tree: Tree) -> ProtocolCost:
    """Everybody answers the coordinator directly (STAB §3.1)."""
    n = tree.size
    return ProtocolCost(3, n - 1, ack_hops_to_root(tree), n - 1, {"coordinator": n + 3, "other": 3})


def fulldist(tree: Tree) -> ProtocolCost:
    """Everybody multicasts to everybody (STAB §3.2)."""
    n = tree.size
    return ProtocolCost(2, 0, 0, n * (n - 1), {"member": n + 1})


def train(tree: Tree) -> ProtocolCost:
    """Two turns around the group (STAB §3.3), which has no START although Table 4 prints one."""
    ring = ring_hops(tree)
    return ProtocolCost(2 * tree.size, 0, ring, ring, {"member": 4})


def s_coordp(tree: Tree) -> ProtocolCost:
    """Answers are merged on their way up the tree (STAB §4.1)."""
    n, b, z = tree.size, tree.branching, tree.leaf_degree
    processed = {"root": tree.root_degree + 4}
    # Table 1 assumes z = b; otherwise the lowest internal members have fewer children to hear.
    if tree.height > 2 or (tree.height == 2 and z == b):
        processed["internal"] = b + 3
    if tree.height > 1 and z < b:
        processed["internal_above_leaves"] = z + 3
    processed["leaf"] = 3
    return ProtocolCost(tree.height + 2, n - 1, n - 1, n - 1, processed)


def s_train(tree: Tree) -> ProtocolCost:
    """A train through each set of siblings, then up to their parent (STAB §4.2).

    START, then z rounds among the leaves and b on each of the p - 1 levels above them, then INFO:
    the printed bp + 2 is the case z = b.
    """
    n, b, p, z = tree.size, tree.branching, tree.height, tree.leaf_degree
    processed = {"root": 5}
    if p > 1:
        processed["internal_first"] = 4
        if b > 1:
            processed["internal_other"] = 5
    processed["leaf_first"] = 3
    if z > 1:
        processed["leaf_other"] = 4
    return ProtocolCost(b * (p - 1) + z + 2, n - 1, train_ack_hops(tree), n - 1, processed)


def all_protocols(tree: Tree) -> dict[str, ProtocolCost]:
    """The five, by the names that the paper gives them, in the order of its Table 1."""
    return {
        "CoordP": coordp(tree),
        "FullDist": fulldist(tree),
        "Train": train(tree),
        "S_CoordP": s_coordp(tree),
        "S_Train": s_train(tree),
    }


def ack_hops_to_root(tree: Tree) -> int:
    """F_a: an ACK from depth k travels k hops (STAB §5.3.1).

    The sum of k·b^k over k < p is ((p - 1)b^p(b - 1) - (b^p - b)) / (b - 1)^2; the paper's
    second term has a factor p too many.
    """
    b, p = tree.branching, tree.height
    if b == 1:
        above_leaves = p * (p - 1) // 2
    else:
        top = b**p
        above_leaves = ((p - 1) * top * (b - 1) - (top - b)) // (b - 1) ** 2
    return above_leaves + p * tree.leaves


def ring_hops(tree: Tree) -> int:
    """F_d: once around the members, level by level in a snake, and back (STAB §5.3.1).

    Crossing level k from one end to the other walks every edge above it twice, except for the
    way down to its first node and up from its last: 2·E_k - 2k hops, E_k being the edges down to
    level k. Each step to the next level is 1 hop, and the way home from the last leaf is p.
    """
    b, p = tree.branching, tree.height
    if b == 1:
        edges_above_leaves = p * (p - 1) // 2
    else:
        edges_above_leaves = (b * (_powers(b, p) - 1) - b * (p - 1)) // (b - 1)
    crossings = 2 * (edges_above_leaves + tree.size - 1) - p * (p + 1)
    return crossings + p + p


def train_ack_hops(tree: Tree) -> int:
    """F_g: siblings are 2 hops apart, their parent 1 (STAB §5.3.1).

    There is one set of siblings below each node, the root included: the sum starts at k = 0.
    """
    b, z = tree.branching, tree.leaf_degree
    sets_above_leaves = _powers(b, tree.height - 1)
    lowest_sets = b ** (tree.height - 1)
    return (2 * b - 1) * sets_above_leaves + int((2 * z - 1) * lowest_sets)


def level_probabilities(size: int, branching: int, height: int) -> tuple[float, ...]:
    """Where a member other than the root goes in a random tree: levels 1 to p (STAB §5.4.2).

    Level k < p gets b^k of the n - 1 in the mean and level p gets the rest, n - (b^p - 1)/(b - 1).
    The paper prints p + 1 for that exponent, with which the probabilities sum to less than 1.
    """
    shape = Tree(branching, height, 1)  # checks the ranges
    above_leaves = shape.inner_nodes
    if size <= above_leaves:
        raise ConfigError(
            f"{size} members leave none for level {height}: the levels above hold {above_leaves} "
            f"at branching {branching}; lower the height or the branching"
        )
    others = size - 1
    upper = tuple(branching**k / others for k in range(1, height))
    return (*upper, (size - above_leaves) / others)


def _powers(base: int, count: int) -> int:
    """The sum of base^k over 0 <= k < count."""
    if base == 1:
        return count
    return int((base**count - 1) // (base - 1))
