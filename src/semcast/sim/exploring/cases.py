"""Random cases: a seed in, a scenario out, in which much goes wrong at once.

Group, protocol, traffic, network, faults and processes are drawn from the seed alone. Cases stay
within what is promised: no more members crash than f for "group". Knows nothing of how a case is
run or judged.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from semcast.protocol.config import LIVES_MAX, SHAPED_PROTOCOLS
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.sim.exploring.bursts import with_burst
from semcast.sim.exploring.comebacks import with_comebacks
from semcast.sim.exploring.openings import opened
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import (
    Consumer,
    Costs,
    Crash,
    Faults,
    Host,
    Ideal,
    Lan,
    Link,
    Network,
    NoCost,
    Partition,
    Pause,
    ProcessFault,
    Restart,
    Shared,
    Slow,
)
from semcast.sim.traffic import Chains, Game, Gaps, Overwrites, Trading, Traffic

# How long a group may take to come to rest after the traffic: far more than it needs.
_DRAIN_S: Final = 60.0
# Half of all cases gossip.
_STABILITY: Final = (*["gossip"] * (len(STABILITY_PROTOCOLS) - 2), *STABILITY_PROTOCOLS)
# About so many messages are sent in a case: enough to fill buffers, few enough for many cases.
_MESSAGES: Final = 200


def case(seed: int, stability: str | None = None) -> ProtocolScenario:
    """The scenario of a seed; with `stability`, the same with that protocol, whatever was drawn."""
    scenario = _Draw(random.Random(f"explore/{seed}")).scenario(seed)
    # Each addition draws from a generator of its own, so that it changes nothing else of a seed.
    scenario = _with_keys(scenario, random.Random(f"explore/{seed}/keys"))
    scenario = with_burst(scenario, random.Random(f"explore/{seed}/bursts"))
    scenario = with_comebacks(scenario, random.Random(f"explore/{seed}/restarts"))
    scenario = _with_buffers(scenario, random.Random(f"explore/{seed}/buffers"))
    return _with_stability(scenario, random.Random(f"explore/{seed}/stability"), stability)


def open_case(seed: int, stability: str | None = None) -> ProtocolScenario:
    """The open case of a seed. It has generators of its own, so that no closed case changes."""
    scenario = _Draw(random.Random(f"explore/{seed}/open")).scenario(seed)
    scenario = opened(scenario, random.Random(f"explore/{seed}/openings"))
    scenario = replace(scenario, title=f"open case {seed}")
    return _with_stability(scenario, random.Random(f"explore/{seed}/open stability"), stability)


def _with_buffers(scenario: ProtocolScenario, stream: random.Random) -> ProtocolScenario:
    """How messages replace each other, when they are purged, and whether all are bounded."""
    changes: dict[str, Any] = {}
    if stream.random() < 0.5:
        changes["replacement"] = "bitmap"
    if stream.random() < 0.3 and scenario.protocol.order != "key":
        changes["purge_policy"] = stream.choice(("lazy", "watermark"))
    if stream.random() < 0.15:
        least = 4 * LIVES_MAX * scenario.members
        changes["total_messages"] = total = least * stream.choice((1, 2, 8))
        # So that the total is what binds.
        changes["delivery_messages"] = total
    return replace(scenario, protocol=replace(scenario.protocol, **changes))


class _Draw:
    """Draws the parts of a scenario, each from what the others allow."""

    def __init__(self, rng: random.Random) -> None:
        self.rng: Final = rng
        self.members: Final = rng.choice((2, 2, 3, 3, 3, 4, 5, 6, 8))
        self.reliability: Final[Literal["sender", "group"]] = (
            "group" if rng.random() < 0.7 else "sender"
        )
        # How many crashes are survived. Sometimes that is none, which users may choose too.
        self.f: Final = min(rng.choice((0, 1, 1, 1, 2, 2, 3)), self.members - 1)
        self.senders: Final = self.some(rng.choice((1, 1, 2, self.members)))
        # The order of magnitude of all delays.
        self.scale_ms: Final = rng.choice((0.1, 1.0, 10.0))
        self.rate_msg_s: Final = rng.choice((20.0, 100.0, 1000.0)) / self.scale_ms**0.5
        self.duration_s: Final = _few_digits(_MESSAGES / self.rate_msg_s / len(self.senders) ** 0.5)

    def scenario(self, seed: int) -> ProtocolScenario:
        return ProtocolScenario(
            members=self.members,
            title=f"case {seed}",
            seed=seed,
            duration_s=self.duration_s,
            warm_up_s=0.0,
            drain_s=_DRAIN_S,
            senders=self.senders,
            traffic=self.traffic(),
            protocol=self.protocol(),
            network=self.network(),
            links=self.links(),
            faults=self.faults(),
            host=self.host(),
            consumers=self.consumers(),
            processes=self.processes(),
            detection_ms=self.scale_ms * self.rng.choice((1, 10, 50)),
            socket_datagrams=self.rng.choice((4, 64, 256)),
        )

    # -- small draws -------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, count: int) -> tuple[int, ...]:
        """So many members, in order."""
        return tuple(sorted(self.rng.sample(range(self.members), min(count, self.members))))

    def within_s(self, share: float) -> float:
        """A time from the start of the traffic to that share of it."""
        return _few_digits(max(1e-4, self.rng.random() * self.duration_s * share))

    # -- parts -------------------------------------------------------------------------------------

    def protocol(self) -> Protocol:
        rng = self.rng
        window = rng.choice((1, 2, 4, 8, 16, 64))
        purging = self.chance(0.85)
        return Protocol(
            reliability=self.reliability,
            purging=purging,
            # About a quarter of all; without purging it would be the same as "fifo".
            order="key" if purging and self.chance(0.3) else "fifo",
            k=rng.choice((0, 1, 4, 16, 64, 128)),
            f=self.f,
            deliver_own=self.chance(0.8),
            delivery_messages=rng.choice((1, 2, 4, 8, 32)),
            delivery_bytes=rng.choice(((1 << 20) + 300, 64 << 20)),
            window_messages=window,
            window_bytes=rng.choice(((1 << 20) + 300, 64 << 20)),
            # From several times for each message to once for many of them; but not more than the
            # links carry, else queues without limit grow for ever.
            gossip_period_ms=max(
                1.0, _few_digits(1000 / self.rate_msg_s * rng.choice((0.3, 1, 3, 10)))
            ),
            gossip_fanout=rng.choice((1, 2, 3, 8)),
            gossip_messages=rng.choice((0, 0, 1, 5)),
            safety_rest_messages=rng.choice((0, 0, 0, window // 2)),
            nak_delay_ms=self.scale_ms * rng.choice((0.1, 1, 4)),
            bandwidth_bytes_s=rng.choice((0, 0, 0, 200_000)),
            path_mtu_bytes=rng.choice((576, 1400, 9000)),
            sealed=self.chance(0.05),
        )

    def traffic(self) -> Traffic:
        rng, rate = self.rng, self.rate_msg_s
        size = rng.choice((0, 8, 64, 64, 400, 1500, 5000))
        gaps: Gaps = "constant" if self.chance(0.5) else "exponential"
        kind = rng.randrange(8)
        if kind == 0:
            stocks, shares = (3, 20), (0.7, 0.3)
            return Trading("trading", rate, gaps, size, stocks, shares)
        if kind == 1:
            return Game(rounds_s=rate / 3, updates_per_round=2.0, entities=6, update_bytes=size)
        if kind in (2, 3):
            ratio, diversity = rng.choice((0.5, 0.9, 1.0)), rng.choice((1, 2, 5))
            length = rng.choice((2, 10, 100))
            return Chains("chains", rate, gaps, size, ratio, diversity, length)
        r, d = rng.choice((0.0, 0.3, 0.7, 0.95, 1.0)), rng.choice((1, 2, 5, 20))
        return Overwrites("overwrites", rate, gaps, size, r, d)

    def network(self) -> Network:
        kind = self.rng.randrange(4)
        if kind == 0:
            return Lan(queue_bytes=self.rng.choice((0, 20_000)))
        if kind == 1:
            return Shared(bandwidth_mbit_s=10.0 * self.members**2, latency_us=100 * self.scale_ms)
        return Ideal(latency_us=self.scale_ms * self.rng.choice((10, 100, 1000)))

    def links(self) -> tuple[Link, ...]:
        if not self.chance(0.15):
            return ()
        member, delay_ms = self.rng.randrange(self.members), self.scale_ms * 5
        return (Link(member, self.within_s(1.0), delay_ms=delay_ms),)

    def faults(self) -> Faults:
        rng, scale_ms = self.rng, self.scale_ms
        faults = Faults()
        if self.chance(0.5):
            faults = replace(faults, loss=rng.choice((0.01, 0.1, 0.3)))
        if self.chance(0.2):
            begin, end = rng.choice((0.01, 0.05)), rng.choice((0.05, 0.3))
            faults = replace(faults, burst_begin=begin, burst_end=end)
        if self.chance(0.3):
            faults = replace(faults, delay_ms=scale_ms, jitter_ms=scale_ms * rng.choice((1, 5)))
        if self.chance(0.3):
            share, held_ms = rng.choice((0.05, 0.3)), scale_ms * rng.choice((1, 10))
            faults = replace(faults, reorder=share, reorder_ms=held_ms)
        if self.chance(0.3):
            share, again_ms = rng.choice((0.05, 0.3)), scale_ms * rng.choice((1, 10))
            faults = replace(faults, duplicate=share, duplicate_ms=again_ms)
        if self.chance(0.2):
            faults = replace(faults, corrupt=rng.choice((0.01, 0.1)))
        if self.chance(0.15):
            faults = replace(faults, to_members=self.some(1))
        if self.chance(0.3):
            cuts = tuple(self.partition() for _ in range(rng.choice((1, 1, 2))))
            faults = replace(faults, partitions=cuts)
        return faults

    def partition(self) -> Partition:
        at_s = self.within_s(0.8)
        some = self.some(self.rng.randint(1, max(1, self.members // 2)))
        return Partition(some, at_s, at_s + self.within_s(0.5), one_way=self.chance(0.4))

    def host(self) -> Host:
        if not self.chance(0.1):
            return NoCost()
        return Costs(send_us=20 * self.scale_ms, receive_us=20 * self.scale_ms)

    def consumers(self) -> tuple[Consumer, ...]:
        if not self.chance(0.4):
            return ()
        # From a little faster than the traffic to much slower.
        delay_ms = _few_digits(1000 / self.rate_msg_s * self.rng.choice((0.5, 1.5, 4, 15)))
        return (Consumer(self.some(self.rng.choice((1, 1, 2))), delay_ms),)

    def processes(self) -> tuple[ProcessFault, ...]:
        found: list[ProcessFault] = []
        crashed = self.some(self.crashes())
        for member in crashed:
            at_s = self.within_s(0.8)
            found.append(Crash(member, at_s))
            if self.chance(0.35):
                found.append(Restart(member, at_s + self.within_s(0.5)))
        for member in set(range(self.members)).difference(crashed):
            if self.chance(0.1):
                # Datagrams in its socket get as old as the pause is long.
                found.append(Pause(member, self.within_s(1.0), self.scale_ms * 0.03))
            if self.chance(0.1):
                found.append(Slow(member, self.within_s(1.0), self.scale_ms * 2))
        return (*found, *self.drain(found))

    def drain(self, faults: list[ProcessFault]) -> Iterator[ProcessFault]:
        """When the traffic is over, and whoever comes back is back, nobody is slow any more."""
        lives = dict.fromkeys(range(self.members), True)
        for fault in faults:
            if isinstance(fault, Crash | Restart):
                lives[fault.member] = isinstance(fault, Restart)
        for member, alive in lives.items():
            if alive:
                yield Slow(member, _few_digits(self.duration_s * 1.4), 0.0)

    def crashes(self) -> int:
        """How many members crash: for "group" no more than it survives."""
        if self.chance(0.4):
            return 0
        most = self.f if self.reliability == "group" else self.members - 1
        return self.rng.randint(0, most)


def _with_keys(scenario: ProtocolScenario, rng: random.Random) -> ProtocolScenario:
    """Where the order is "key", half of the cases have messages about several keys. A member is
    slow then, with room for some: a reader that is never behind would show no mistake in the order.
    """
    several = rng.choice((0.0, 0.0, 0.2, 0.5))
    traffic = scenario.traffic
    if several == 0 or scenario.protocol.order != "key":
        return scenario
    if not isinstance(traffic, Overwrites | Trading):
        return scenario
    delay_ms = _few_digits(1000 / traffic.rate_msg_s * rng.choice((1.5, 4)))
    slow = Consumer((rng.randrange(scenario.members),), delay_ms)
    return replace(
        scenario,
        traffic=replace(traffic, several=several),
        protocol=replace(scenario.protocol, delivery_messages=rng.choice((8, 32))),
        consumers=scenario.consumers or (slow,),
    )


def _with_stability(
    scenario: ProtocolScenario, rng: random.Random, stability: str | None
) -> ProtocolScenario:
    """Half of all cases gossip; the others learn what to forget by a protocol of STAB."""
    drawn = rng.choice(_STABILITY)
    name = stability or drawn
    if name == "gossip":
        return scenario
    period_ms = scenario.protocol.gossip_period_ms
    protocol = replace(
        scenario.protocol,
        stability=name,
        stability_branching=rng.choice((1, 2, 4)),
        stability_period_ms=rng.choice((0.0, 0.0, period_ms)),
        stability_delta=rng.random() < 0.3,
        stability_ride_ms=rng.choice((0.0, 0.0, period_ms / 2)),
    )
    # This is drawn last, so that it changes nothing else of a seed.
    if rng.random() < 0.3 and name in SHAPED_PROTOCOLS:
        protocol = replace(protocol, stability_tree="measured")
    return replace(scenario, protocol=protocol)


def _few_digits(value: float) -> float:
    return float(f"{value:.3g}")
