"""What a stability round cost: counters and times in, the paper's indices out (STAB §2.2, §5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.protocol.stability.rounds.round_message import ACK, ASK, INFO, START
from semcast.protocol.stability.rounds.shape import NOBODY, Shape
from semcast.sim.stability.fabric import Fabric
from semcast.sim.stability.gossip import GOSSIP

UNKNOWN: Final = -1


@final
class Timing:
    """When each member took part and when it knew, in nanoseconds since the round began."""

    def __init__(self, members: int) -> None:
        # The first message of the round was taken in; the root starts at 0.
        self.joined_ns: Final = [UNKNOWN] * members
        self.agreed_ns: Final = [UNKNOWN] * members
        self.unaware = members

    def took_part(self, member: int, now_ns: int) -> None:
        if self.joined_ns[member] == UNKNOWN:
            self.joined_ns[member] = now_ns

    def agreed(self, member: int, now_ns: int) -> None:
        if self.agreed_ns[member] == UNKNOWN:
            self.agreed_ns[member] = now_ns
            self.unaware -= 1


@dataclass(frozen=True)
class StabilityOutcome:
    """One round. Times are None if it was not over at the deadline."""

    protocol: str
    members: int
    senders: int
    height: int
    finished: bool
    # From when the root begins to send until it has taken in the last message that it needs.
    rtt_root_ms: float | None
    # At each member, from the first message of the round to the one with which it knows.
    rtt_member_min_ms: float | None
    rtt_member_mean_ms: float | None
    rtt_member_max_ms: float | None
    # From when the root begins until every member knows: how long a message that everybody had
    # by then waited to be forgotten.
    time_to_stable_ms: float | None
    messages_all_hops: int
    messages_all_hops_by_type: dict[str, int]
    bytes_all_hops: int
    messages_lost: int
    # Sent and received, by role; the most that any member of that role has.
    messages_processed: dict[str, int]
    link_queue_max: int
    host_queue_max: int
    # Members that agreed on anything but the minimum of what all have.
    wrong_members: int


def outcome_of(
    protocol: str,
    senders: int,
    shape: Shape,
    nodes: Sequence[int],  # the node of each member
    fabric: Fabric,
    timing: Timing,
    wrong_members: int,
) -> StabilityOutcome:
    """Sum a run up."""
    finished = timing.unaware == 0
    own_rtt = (np.array(timing.agreed_ns) - np.array(timing.joined_ns)) / 1e6
    kinds = {"start": START, "ack": ACK, "info": INFO, "ask": ASK, "gossip": GOSSIP}
    processed = np.array([fabric.sends[node] + fabric.receptions[node] for node in nodes])
    return StabilityOutcome(
        protocol=protocol,
        members=shape.members,
        senders=senders,
        height=shape.height,
        finished=finished,
        rtt_root_ms=_ms(timing.agreed_ns[0]),
        rtt_member_min_ms=float(own_rtt.min()) if finished else None,
        rtt_member_mean_ms=float(own_rtt.mean()) if finished else None,
        rtt_member_max_ms=float(own_rtt.max()) if finished else None,
        time_to_stable_ms=_ms(max(timing.agreed_ns)) if finished else None,
        messages_all_hops=int(fabric.hops),
        messages_all_hops_by_type={name: int(fabric.kind_hops[at]) for name, at in kinds.items()},
        bytes_all_hops=int(fabric.hop_bytes),
        messages_lost=int(fabric.lost),
        messages_processed=_by_role(roles(protocol, shape), processed),
        link_queue_max=int(fabric.link_queue_max),
        host_queue_max=int(fabric.host_queue_max),
        wrong_members=wrong_members,
    )


def roles(protocol: str, shape: Shape) -> list[str]:
    """What each member is in a protocol, by the names of `model.stability`."""
    if protocol == "coordp":
        return ["coordinator", *["other"] * (shape.members - 1)]
    if protocol in ("s_coordp", "s_train"):
        return [_role(protocol == "s_train", shape, member) for member in range(shape.members)]
    return ["member"] * shape.members


def _role(train: bool, shape: Shape, member: int) -> str:
    if member == shape.root:
        return "root"
    kind = "internal" if shape.degree(member) else "leaf"
    if train:
        return f"{kind}_{'first' if shape.sibling_before(member) == NOBODY else 'other'}"
    # Table 1 assumes that all internal members have as many children.
    fewer = shape.degree(member) < shape.degree(shape.root)
    return "internal_above_leaves" if kind == "internal" and fewer else kind


def _by_role(names: list[str], processed: NDArray[np.int64]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in zip(names, processed.tolist(), strict=True):
        found[name] = max(count, found.get(name, 0))
    return found


def _ms(time_ns: int) -> float | None:
    return None if time_ns == UNKNOWN else time_ns / 1e6
