"""S_CoordP: answers are merged on their way up a tree (STAB §4.1).

p + 2 rounds of messages in a tree of height p: START by multicast, ACKs level by level, INFO by
multicast. The root processes b + 4 messages, an inner member b + 3, a leaf 3: no load grows with
the group. S_FullDist would be the same protocol: a member need not send its siblings what only its
parent uses.
"""

from typing import final

from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker


@final
class SCoordP(RoundTracker):
    """Each member hears its children and sends to its parent."""

    def _feeders(self, shape: Shape) -> list[int]:
        return shape.children(self.me)

    def _target(self, shape: Shape) -> int:
        return shape.parent(self.me)
