"""CoordP: everybody answers the coordinator directly (STAB §3.1).

Three rounds of messages: START by multicast, an ACK from each of the others, INFO by multicast. The
coordinator processes n + 3 messages (its own multicasts come back to it), everybody else 3. A round
is quick in a small group; in a large one the answers pile up before the coordinator.
"""

from typing import final

from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker


@final
class CoordP(RoundTracker):
    """The root hears everybody."""

    def _feeders(self, shape: Shape) -> list[int]:
        if shape.root != self.me:
            return []
        others: list[int] = shape.ring.tolist()
        others.remove(self.me)
        return others

    def _target(self, shape: Shape) -> int:
        return shape.root
