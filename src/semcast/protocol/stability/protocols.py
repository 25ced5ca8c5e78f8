"""Names into trackers: which protocol a group uses, over which tree, and with what patience."""

from dataclasses import dataclass
from typing import Final

from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.coordp import CoordP
from semcast.protocol.stability.fulldist import FullDist
from semcast.protocol.stability.roll import Roll
from semcast.protocol.stability.rounds import RoundTracker
from semcast.protocol.stability.s_coordp import SCoordP
from semcast.protocol.stability.s_train import STrain
from semcast.protocol.stability.shape import Shape, filled_tree
from semcast.protocol.stability.train import Train

_NUMBERS: Final = {"coordp": 1, "fulldist": 2, "train": 3, "s_coordp": 4, "s_train": 5}


@dataclass(frozen=True)
class RoundSetup:
    """What all pages of a member have in common."""

    protocol: str
    shape: Shape
    window_messages: int
    # The longest that anything waits for a round to begin, and a fixed pace instead, or 0.
    bound_ns: int
    period_ns: int
    # A first guess at how long a round takes.
    timeout_ns: int
    delta: bool

    @staticmethod
    def of(config: MemberConfig, members: int) -> "RoundSetup":
        """From what a member is told."""
        return RoundSetup(
            config.stability,
            filled_tree(members, config.stability_branching),
            config.window_messages,
            config.gossip_period_ns,
            config.stability_period_ns,
            2 * max(config.gossip_period_ns, config.stability_period_ns) + 4 * config.nak_delay_ns,
            config.stability_delta,
        )

    def roll(self) -> Roll:
        """The roll of a group that has this in common, and does not mix with others."""
        branching = self.shape.degree(self.shape.root)
        return Roll(self.shape, (_NUMBERS[self.protocol] << 40) | (branching << 20) | 1)


def make_tracker(
    setup: RoundSetup, me: int, width: int, votes: int, roll: Roll, joining: bool
) -> RoundTracker:
    """A tracker for one page."""
    members, shape, timeout_ns = roll.members, setup.shape, setup.timeout_ns
    quiet_ns = max(setup.bound_ns, setup.period_ns)
    if setup.protocol == "coordp":
        return CoordP(members, me, width, votes, shape, timeout_ns, quiet_ns, True, joining, roll)
    if setup.protocol == "fulldist":
        return FullDist(members, me, width, votes, shape, timeout_ns, quiet_ns, True, joining, roll)
    if setup.protocol == "train":
        return Train(members, me, width, votes, shape, timeout_ns, quiet_ns, True, joining, roll)
    if setup.protocol == "s_coordp":
        return SCoordP(members, me, width, votes, shape, timeout_ns, quiet_ns, True, joining, roll)
    assert setup.protocol == "s_train"
    return STrain(members, me, width, votes, shape, timeout_ns, quiet_ns, True, joining, roll)
