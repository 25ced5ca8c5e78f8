"""S_Train: a train through each set of siblings, then up to their parent (STAB §4.2).

START by multicast, then in a tree of degree b and height p one ACK after another, bp + 2 rounds of
messages with the last, INFO by multicast. The root processes 5 messages, an inner member 4 or 5, a
leaf 3 or 4: the smallest load of all, for more time than S_CoordP takes.

With f+1 votes a train carries one array, so a slow member at the head of its siblings holds up what
that set says until others have more than f votes without it; S_CoordP does not have this.
"""

from typing import final

from semcast.protocol.stability.rounds.shape import NOBODY, Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker


@final
class STrain(RoundTracker):
    """Each hears the sibling before it and its last child, and sends to the sibling after it."""

    def _feeders(self, shape: Shape) -> list[int]:
        near = (shape.sibling_before(self.me), shape.last_child(self.me))
        return [member for member in near if member != NOBODY]

    def _target(self, shape: Shape) -> int:
        after = shape.sibling_after(self.me)
        return after if after != NOBODY else shape.parent(self.me)
