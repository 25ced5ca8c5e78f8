"""What an ordered multicast costs: group size, delays and tree shape in, messages and delay out.

PROP tables 1 and 2, for the two-phase, the centralized and the propagation algorithm. Depth,
extra nodes and forwarding nodes may be means over many groups, hence not whole numbers. Knows
nothing of load or of how a propagation tree comes about.
"""

from dataclasses import dataclass
from typing import Final, final

from semcast.errors import ConfigError
from semcast.ids import ID_MAX

DELAY_MS_MAX: Final = 1e12  # thirty years: beyond it an option was mistyped


@final
@dataclass(frozen=True)
class MulticastCost:
    """N, the messages of one multicast, and D, the delay until all members may deliver it."""

    messages: float
    delay_ms: float


@final
@dataclass(frozen=True)
class TreeShape:
    """What of a propagation tree matters to one group (PROP §4.1)."""

    depth: float  # d: from the primary destination to the farthest member
    extra_nodes: float  # eps: nodes on the way that are not members

    def check(self, members: int) -> None:
        """Refuse a shape that no tree over that many members has."""
        depth_min = 1 if members > 1 else 0
        if not 0 <= self.extra_nodes <= ID_MAX:
            raise ConfigError(f"{self.extra_nodes:g} extra nodes; it must be 0 to {ID_MAX}")
        depth_max = members - 1 + self.extra_nodes
        if not depth_min <= self.depth <= depth_max:
            raise ConfigError(
                f"depth is {self.depth:g}; with {members} members and {self.extra_nodes:g} extra "
                f"nodes it must be from {depth_min} to {depth_max:g}"
            )


def point_to_point(
    members: int, latency_ms: float, processing_ms: float, shape: TreeShape
) -> dict[str, MulticastCost]:
    """Table 1: a message takes P to put on the network and L to arrive, one at a time.

    The delay of propagation is an upper bound, reached when the longest path leaves every node
    by its last message (PROP §4.1).
    """
    _check_members(members)
    latency = _checked_ms("latency", latency_ms)
    processing = _checked_ms("processing", processing_ms)
    shape.check(members)
    copies = members + shape.extra_nodes
    return {
        "two_phase": MulticastCost(3 * members, 3 * latency + (2 * members + 1) * processing),
        "centralized": MulticastCost(members, 2 * latency + members * processing),
        "propagation": MulticastCost(copies, (shape.depth + 1) * latency + copies * processing),
    }


def broadcast(
    members: int, broadcast_ms: float, forwarding_nodes: float, shape: TreeShape
) -> dict[str, MulticastCost]:
    """Table 2: one message at a time is on the medium, and each takes T for everybody.

    Propagation costs one message to the primary destination and one more from every node that
    forwards. The printed d + 1 counts one per level, which is right only where no level has two
    nodes that forward (PROP §4.2).
    """
    _check_members(members)
    step = _checked_ms("broadcast", broadcast_ms)
    shape.check(members)
    forwarding_max = members - 1 + shape.extra_nodes
    if not shape.depth <= forwarding_nodes <= forwarding_max:
        raise ConfigError(
            f"{forwarding_nodes:g} forwarding nodes; a tree of depth {shape.depth:g} with "
            f"{members + shape.extra_nodes:g} nodes has {shape.depth:g} to {forwarding_max:g}"
        )
    counts = {
        "two_phase": members + 2,
        "centralized": 2,
        "propagation": 1 + forwarding_nodes,
    }
    return {name: MulticastCost(count, count * step) for name, count in counts.items()}


def _check_members(members: int) -> None:
    if not 1 <= members <= ID_MAX:
        raise ConfigError(f"{members} members; a group has 1 to {ID_MAX}")


def _checked_ms(name: str, value: float) -> float:
    if not 0 <= value <= DELAY_MS_MAX:
        raise ConfigError(f"{name} is {value:g} ms; it must be 0 to {DELAY_MS_MAX:g}")
    return value
