"""What came of a simulated gossip group: atomicity, latency, redundancy, and what was dropped.

A message is *atomic* if more than 95% of the members deliver it. What matters are the messages that
never become obsolete: they are the least that everybody must get (PSRM §4.1).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semcast.check.atomicity import ATOMIC_SHARE
from semcast.check.tally import wilson
from semcast.protocol.machine import Machine
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.epidemic.meter import Meter
from semcast.sim.tally import percentile_ms
from semcast.wire.message import Message


@dataclass(frozen=True)
class GossipOutcome:
    """What was measured of one run."""

    # Multicast in the measured time, and those of them that nothing replaces.
    sent: int
    never_obsolete: int
    # Shares that are atomic: of what is never obsolete, with its 95% confidence interval (Wilson),
    # and of all. None if there was nothing to count.
    atomic_share: float | None
    atomic_share_low: float | None
    atomic_share_high: float | None
    atomic_share_all: float | None
    # How many members deliver a message that is never obsolete; its deviation by its mean.
    receivers_mean: float | None
    receivers_cv: float | None
    # From multicast until delivered, at others than the sender.
    latency_mean_ms: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    # From multicast until the last member that delivers a message has done so: the mean over
    # messages.
    latency_last_ms: float | None
    # Copies sent by members, by deliveries at others than the sender.
    copies_per_delivery: float | None
    # Of the whole run, by place and reason. In relays and on links copies are counted, else
    # messages.
    purged: dict[str, dict[str, int]]
    dropped: dict[str, dict[str, int]]
    # Numbers that applications were told they would not get: with a cover, and without.
    skipped: int
    missed: int
    copies_sent: int
    events: int


def outcome_of(
    scenario: GossipScenario, meter: Meter, members: Sequence[Machine], events: int
) -> GossipOutcome:
    """Sum up a run."""
    measured = [at for at, one in enumerate(meter.messages) if meter.measured(one)]
    current = never_obsolete(meter.messages)
    counted = [at for at in measured if current[at]]
    receivers = [meter.receivers[at] for at in counted]
    atomic = sum(count > ATOMIC_SHARE * scenario.members for count in receivers)
    low, high = wilson(atomic, len(counted))
    reached = sum(meter.receivers[at] > ATOMIC_SHARE * scenario.members for at in measured)
    deliveries = len(meter.latencies_ns)
    latencies = sorted(meter.latencies_ns)
    lasts = [meter.last_ns[at] for at in measured if meter.last_ns[at]]
    mean = statistics.fmean(receivers) if receivers else None
    totals = _totals(members)
    place = "link" if scenario.gossip.scope == "link" else "relay"
    policy = "random" if scenario.gossip.composition == "naive" else scenario.gossip.policy
    overflow = "random" if policy in ("eager", "lazy") else policy
    return GossipOutcome(
        sent=len(measured),
        never_obsolete=len(counted),
        atomic_share=_ratio(atomic, len(counted)),
        atomic_share_low=low,
        atomic_share_high=high,
        atomic_share_all=_ratio(reached, len(measured)),
        receivers_mean=mean,
        receivers_cv=statistics.pstdev(receivers) / mean if mean else None,
        latency_mean_ms=statistics.fmean(latencies) / 1e6 if latencies else None,
        latency_p50_ms=percentile_ms(latencies, 0.5),
        latency_p99_ms=percentile_ms(latencies, 0.99),
        latency_last_ms=statistics.fmean(lasts) / 1e6 if lasts else None,
        copies_per_delivery=_ratio(int(meter.copies), deliveries),
        purged={
            place: {"replaced": totals["purged_relay"], "late": totals["late_relay"]},
            "gossip": {"replaced": totals["purged_gossip"]},
            "delivery": {"replaced": totals["purged_delivery"]},
        },
        dropped={
            place: {overflow: totals["dropped_relay"]},
            "delivery": {"overflow": totals["dropped_delivery"]},
        },
        skipped=totals["skipped"],
        missed=totals["missed"],
        copies_sent=totals["copies_sent"],
        events=events,
    )


def never_obsolete(messages: Sequence[Message]) -> list[bool]:
    """Which of these messages, in the order of multicast, no other one of them replaces."""
    top: dict[Any, int] = {}
    for at, one in enumerate(messages):
        name = _chain(one)
        if name is not None and (name not in top or _rank(messages[top[name]]) < _rank(one)):
            top[name] = at
    last = set(top.values())
    return [_chain(one) is None or at in last for at, one in enumerate(messages)]


def _chain(message: Message) -> Any:
    """What all messages have in common of which each replaces those before it, if there is such."""
    if message.ranked:
        return message.key
    return (message.source, message.key) if message.by_key else None


def _rank(message: Message) -> Any:
    source = message.source
    rank = message.rank if message.ranked else 0
    return rank, source.sender, source.incarnation, message.seq


def _totals(members: Sequence[Machine]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for member in members:
        for name, count in member.stats().items():
            totals[name] = totals.get(name, 0) + count
    return totals


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
