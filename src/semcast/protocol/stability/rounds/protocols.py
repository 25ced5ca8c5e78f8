"""Makes trackers from a configuration: which protocol, over which tree, with which timeouts."""

from dataclasses import dataclass
from typing import Final

from semcast.errors import ConfigError
from semcast.protocol.config import NO_PARENT, MemberConfig
from semcast.protocol.stability.rounds.coordp import CoordP
from semcast.protocol.stability.rounds.fulldist import FullDist
from semcast.protocol.stability.rounds.roll import Roll, name_of
from semcast.protocol.stability.rounds.s_coordp import SCoordP
from semcast.protocol.stability.rounds.s_train import STrain
from semcast.protocol.stability.rounds.shape import Shape, filled_tree, given_tree
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.train import Train
from semcast.wire.families.measures import TREE_HEAD_BYTES, TREE_MEMBERS_MAX
from semcast.wire.families.rounds import round_rows_max
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.limits import Limits

_NUMBERS: Final = {"coordp": 1, "fulldist": 2, "train": 3, "s_coordp": 4, "s_train": 5}


@dataclass(frozen=True)
class RoundSetup:
    """What all pages of a member have in common."""

    protocol: str
    shape: Shape
    window_messages: int
    # The longest that a message waits for a round to begin; and, if not 0, a fixed pace of rounds.
    bound_ns: int
    period_ns: int
    # A first guess at how long a round takes.
    timeout_ns: int
    delta: bool
    # Names what all members must have in common: protocol, first tree and ring. Votes of members
    # that differ in it are never merged.
    seed: int
    branching: int
    # The most members that a measured tree may have.
    measured_max: int
    # The most rows of a ROUND.
    rows_max: int

    @staticmethod
    def of(config: MemberConfig, members: int, open_group: bool = False) -> "RoundSetup":
        """The setup that a configuration asks for. In an open group any number of members may
        come. While there are too many for a measured tree, nobody measures.
        """
        if open_group:
            _check_open(config)
        elif config.measures:
            check_measured(members, config.limits)
        shape = _first_shape(config, members)
        return RoundSetup(
            config.stability,
            shape,
            config.window_messages,
            config.gossip_period_ns,
            config.stability_period_ns,
            2 * max(config.gossip_period_ns, config.stability_period_ns) + 4 * config.nak_delay_ns,
            config.stability_delta and not open_group,
            _seed(config, shape, open_group),
            config.stability_branching,
            measured_max(config.limits),
            round_rows_max(config.limits.frames_bytes_max - FRAME_HEAD_BYTES),
        )

    def shape_of(self, members: int) -> Shape:
        """The first tree and ring of an open group of so many."""
        return filled_tree(members, self.branching)

    def roll(self) -> Roll:
        """The roll of a group that has this in common, and does not mix with others."""
        return Roll(self.shape, self.seed)


def measured_max(limits: Limits) -> int:
    """How many members a measured tree may have, so that it fits a datagram."""
    fit = (limits.frames_bytes_max - FRAME_HEAD_BYTES - TREE_HEAD_BYTES) // 2
    return int(min(fit, TREE_MEMBERS_MAX))


def check_measured(members: int, limits: Limits) -> None:
    """Raise ConfigError if a measured tree of so many members does not fit a datagram."""
    members_max = measured_max(limits)
    if members > members_max:
        raise ConfigError(
            f"a measured stability_tree of {members} members; the most is {members_max} with a "
            f"path_mtu_bytes of {limits.path_mtu_bytes}: use 'filled', or say who hangs on whom"
        )


def _check_open(config: MemberConfig) -> None:
    """Raise ConfigError if a tree or ring is given that says where each member stands."""
    for name, given in (
        ("stability_tree", not isinstance(config.stability_tree, str)),
        ("stability_ring", bool(config.stability_ring)),
    ):
        if given:
            raise ConfigError(
                f"a given {name} in an open group, whose members come and go; leave it out, choose "
                "stability_tree 'measured', or say who the members are (members=)"
            )


def _first_shape(config: MemberConfig, members: int) -> Shape:
    tree = config.stability_tree
    if isinstance(tree, str):
        shape = filled_tree(members, config.stability_branching)
    else:
        if len(tree) != members:
            raise ConfigError(
                f"stability_tree has {len(tree)} members, but the group has {members}"
            )
        shape = given_tree(list(tree), None, tree.index(NO_PARENT))
    if not config.stability_ring:
        return shape
    ring = list(config.stability_ring)
    # A user may write a ring from any member on; here it begins at the root.
    start = ring.index(shape.root) if shape.root in ring else 0
    return given_tree(shape.parents.tolist(), ring[start:] + ring[:start], shape.root)


def _seed(config: MemberConfig, shape: Shape, open_group: bool) -> int:
    # The members of an open group have views of any size when they begin.
    degree = config.stability_branching if open_group else shape.degree(shape.root)
    usual = (_NUMBERS[config.stability] << 40) | (degree << 20) | 1
    if config.measures:
        return usual | (1 << 44)
    if isinstance(config.stability_tree, str) and not config.stability_ring:
        return usual
    numbers: list[int] = shape.parents.tolist() + shape.ring.tolist()
    return usual ^ name_of(numbers)


def make_tracker(setup: RoundSetup, me: int, width: int, votes: int, roll: Roll) -> RoundTracker:
    """A tracker for one page."""
    members, shape, timeout_ns = roll.members, roll.first, setup.timeout_ns
    quiet_ns = max(setup.bound_ns, setup.period_ns)
    if setup.protocol == "coordp":
        return CoordP(members, me, width, votes, shape, timeout_ns, quiet_ns, True, roll)
    if setup.protocol == "fulldist":
        return FullDist(members, me, width, votes, shape, timeout_ns, quiet_ns, True, roll)
    if setup.protocol == "train":
        return Train(members, me, width, votes, shape, timeout_ns, quiet_ns, True, roll)
    if setup.protocol == "s_coordp":
        return SCoordP(members, me, width, votes, shape, timeout_ns, quiet_ns, True, roll)
    assert setup.protocol == "s_train"
    return STrain(members, me, width, votes, shape, timeout_ns, quiet_ns, True, roll)
