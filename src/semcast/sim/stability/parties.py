"""The members of a simulated round: settings in, a tracker for each member out."""

import random
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from semcast.protocol.stability.rounds.coordp import CoordP
from semcast.protocol.stability.rounds.fulldist import FullDist
from semcast.protocol.stability.rounds.s_coordp import SCoordP
from semcast.protocol.stability.rounds.s_train import STrain
from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.train import Train
from semcast.sim.stability.gossip import GOSSIP, GossipPage
from semcast.sim.stability.round_scenario import Sizes, StabilityScenario

TRACKERS: Final[dict[str, type[RoundTracker]]] = {
    "coordp": CoordP,
    "fulldist": FullDist,
    "train": Train,
    "s_coordp": SCoordP,
    "s_train": STrain,
}
# Longer than any round, so that no timer fires.
NO_TIMEOUT_NS: Final = 1 << 50
_PERIOD_MIN_MS: Final = 30.0
_BUSY_MAX: Final = 0.8


class Party(Protocol):
    """What the world needs of a member's tracker, such as a `RoundTracker`."""

    @property
    def agreed(self) -> NDArray[np.int64]: ...
    def start(self, now_ns: int, /) -> None: ...
    def on_round_message(self, message: Any, sender: int, now_ns: int, /) -> bool: ...
    def on_timer(self, now_ns: int, /) -> bool: ...
    def next_deadline_ns(self) -> int: ...
    def take_out(self) -> Sequence[tuple[int, Any]]: ...


def make_parties(
    scenario: StabilityScenario, shape: Shape, pool: list[NDArray[np.int64]], seed: int
) -> Sequence[Party]:
    """A party for each member. They share the arrays of received messages."""
    if scenario.protocol == "gossip":
        return _gossip(scenario, shape, pool, seed)
    return make_trackers(scenario, shape, pool)


def make_trackers(
    scenario: StabilityScenario, shape: Shape, pool: list[NDArray[np.int64]]
) -> list[RoundTracker]:
    """The trackers that live groups use. 20,000 arrays of 20,000 would not fit, so they share."""
    tracker = TRACKERS[scenario.protocol]
    timeout_ns = round(scenario.timeout_ms * 1e6) or NO_TIMEOUT_NS
    nothing = np.zeros(len(pool[0]), np.int64)
    found = []
    for member in range(shape.members):
        one = tracker(
            shape.members, member, len(pool[0]), shape.members, shape, timeout_ns=timeout_ns
        )
        one.own = pool[member % len(pool)]
        one.agreed = nothing
        found.append(one)
    return found


def size_of(message: Any, sizes: Sizes, senders: int, members: int) -> int:
    """Bytes of a message: START has a header only, the others a number for each sender."""
    if message.kind == GOSSIP:
        return _gossip_bytes(sizes, senders, members)
    return sizes.header_bytes + (0 if message.values is None else sizes.seq_bytes * senders)


def _gossip(
    scenario: StabilityScenario, shape: Shape, pool: list[NDArray[np.int64]], seed: int
) -> list[Party]:
    members = shape.members
    rng = random.Random(f"{seed}/gossip")
    nothing = np.zeros(len(pool[0]), np.int64)
    period_ns = round((scenario.gossip.period_ms or gossip_period_ms(scenario, shape)) * 1e6)
    everybody = (1 << members) - 1
    return [
        GossipPage(
            members,
            member,
            pool[member % len(pool)],
            nothing,
            period_ns,
            scenario.gossip.fanout,
            rng,
            everybody,
        )
        for member in range(members)
    ]


def gossip_period_ms(scenario: StabilityScenario, shape: Shape) -> float:
    """The shortest period, from 30 ms up, that keeps links and processors four fifths busy at most.

    Of what a subtree of m members sends in a period, the share (n - m)/n goes up the link above it.
    """
    members, fanout = shape.members, scenario.gossip.fanout
    size_bytes = _gossip_bytes(scenario.sizes, scenario.senders or members, members)
    below = shape.subtree_sizes()[shape.levels[1]] if shape.height else np.zeros(1)
    crossing = float((below * (members - below)).max()) * fanout / members
    link_ms = crossing * size_bytes * 8 / (scenario.links.bandwidth_mbit_s * 1e3)
    hosts = scenario.hosts
    send_ms = (hosts.send_us + hosts.send_us_per_byte * size_bytes) / 1e3
    host_ms = fanout * send_ms * (1 + hosts.receive_factor)
    return max(_PERIOD_MIN_MS, max(link_ms, host_ms) / _BUSY_MAX)


def _gossip_bytes(sizes: Sizes, senders: int, members: int) -> int:
    """Agreed, lowest and newest of each sender, and a bit for each member that voted."""
    return sizes.header_bytes + 3 * sizes.seq_bytes * senders + (members + 7) // 8
