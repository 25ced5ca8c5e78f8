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

    @staticmethod
    def of(config: MemberConfig, members: int) -> "RoundSetup":
        """The setup that a configuration asks for."""
        if config.measures:
            check_measured(members, config.limits)
        shape = _first_shape(config, members)
        return RoundSetup(
            config.stability,
            shape,
            config.window_messages,
            config.gossip_period_ns,
            config.stability_period_ns,
            2 * max(config.gossip_period_ns, config.stability_period_ns) + 4 * config.nak_delay_ns,
            config.stability_delta,
            _seed(config, shape),
        )

    def roll(self) -> Roll:
        """The roll of a group that has this in common, and does not mix with others."""
        return Roll(self.shape, self.seed)


def check_measured(members: int, limits: Limits) -> None:
    """Raise ConfigError if a measured tree of so many members does not fit a datagram."""
    fit = (limits.frames_bytes_max - FRAME_HEAD_BYTES - TREE_HEAD_BYTES) // 2
    members_max = min(fit, TREE_MEMBERS_MAX)
    if members > members_max:
        raise ConfigError(
            f"a measured stability_tree of {members} members; the most is {members_max} with a "
            f"path_mtu_bytes of {limits.path_mtu_bytes}: use 'filled', or say who hangs on whom"
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


def _seed(config: MemberConfig, shape: Shape) -> int:
    usual = (_NUMBERS[config.stability] << 40) | (shape.degree(shape.root) << 20) | 1
    if config.measures:
        return usual | (1 << 44)
    if isinstance(config.stability_tree, str) and not config.stability_ring:
        return usual
    numbers: list[int] = shape.parents.tolist() + shape.ring.tolist()
    return usual ^ name_of(numbers)


def make_tracker(setup: RoundSetup, me: int, width: int, votes: int, roll: Roll) -> RoundTracker:
    """A tracker for one page."""
    members, shape, timeout_ns = roll.members, setup.shape, setup.timeout_ns
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
