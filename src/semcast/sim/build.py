"""From settings to a network: a scenario's network, faults and hosts in, one `Network` out.

No other module knows both the settings that people write and the classes that do the work.
"""

import random
import time
from collections.abc import Callable
from typing import Final, assert_never

from semcast.sim import faults, host, network
from semcast.sim.scheduler import Scheduler
from semcast.sim.surroundings import (
    Costs,
    Faults,
    Host,
    Ideal,
    Lan,
    Measured,
    Medium,
    Network,
    NoCost,
    Shared,
    Tree,
)

SECOND_NS: Final = 1_000_000_000


def build_network(settings: Network, scheduler: Scheduler, members: int) -> network.Network:
    """The network model of a scenario."""
    match settings:
        case Ideal():
            return network.Ideal(scheduler, members, ns_of_us(settings.latency_us))
        case Lan():
            return network.SwitchedLan(
                scheduler,
                members,
                settings.bandwidth_mbit_s * 1e6,
                ns_of_us(settings.stack_us),
                settings.queue_bytes,
            )
        case Shared():
            return network.SharedPointToPoint(
                scheduler, members, settings.bandwidth_mbit_s * 1e6, ns_of_us(settings.latency_us)
            )
        case Medium():
            return network.Medium(scheduler, members, ns_of_us(settings.transmission_us))
        case Tree():
            return network.RouterTree(
                scheduler,
                settings.parents(),
                settings.bandwidth_mbit_s * 1e6,
                ns_of_us(settings.router_us),
            )
        case _:
            assert_never(settings)


def build_faults(
    settings: Faults, rng: Callable[[str], random.Random]
) -> tuple[list[faults.Fault], list[faults.Fault]]:
    """The layers of a scenario: those that end with the traffic, and partitions, which end by
    themselves. `rng` makes the random numbers of a purpose.
    """
    only = frozenset(settings.to_members) if settings.to_members else None
    layers: list[faults.Fault] = []
    if settings.loss > 0:
        layers.append(faults.Loss(settings.loss, rng("faults/loss"), only))
    if settings.burst_begin > 0:
        begin, end, loss = settings.burst_begin, settings.burst_end, settings.burst_loss
        chain = rng("faults/burst")
        layers.append(faults.BurstLoss(begin, end, chain, loss, to_nodes=only))
    if settings.delay_ms > 0 or settings.jitter_ms > 0:
        delay_ns, jitter_ns = ns_of_ms(settings.delay_ms), ns_of_ms(settings.jitter_ms)
        layers.append(faults.Delay(delay_ns, jitter_ns, rng("faults/delay"), only))
    if settings.reorder > 0:
        hold_ns = max(1, ns_of_ms(settings.reorder_ms))
        layers.append(faults.Reordering(settings.reorder, hold_ns, rng("faults/reorder"), only))
    if settings.duplicate > 0:
        again_ns = ns_of_ms(settings.duplicate_ms)
        twice = rng("faults/duplicate")
        layers.append(faults.Duplication(settings.duplicate, again_ns, twice, only))
    if settings.corrupt > 0:
        layers.append(faults.Corruption(settings.corrupt, rng("faults/corrupt"), to_nodes=only))
    partitions: list[faults.Fault] = [
        faults.Partition(
            frozenset(cut.members),
            None,
            round(cut.at_s * SECOND_NS),
            round(cut.until_s * SECOND_NS),
            cut.one_way,
        )
        for cut in settings.partitions
    ]
    return layers, partitions


def build_hosts(settings: Host, below: network.Network) -> network.Network:
    """The network as seen through the processors of a scenario."""
    match settings:
        case NoCost():
            return below
        case Costs():
            return host.CostHosts(
                below,
                host.LinearCost(ns_of_us(settings.send_us), round(settings.send_us_per_byte * 1e6)),
                host.LinearCost(
                    ns_of_us(settings.receive_us), round(settings.receive_us_per_byte * 1e6)
                ),
            )
        case Measured():
            scale = settings.scale
            return host.MeasuredHosts(
                below, lambda: round(time.process_time_ns() * scale), ns_of_us(settings.wake_us)
            )
        case _:
            assert_never(settings)


def ns_of_us(value_us: float) -> int:
    """Microseconds as nanoseconds."""
    return round(value_us * 1e3)


def ns_of_ms(value_ms: float) -> int:
    """Milliseconds as nanoseconds."""
    return round(value_ms * 1e6)
