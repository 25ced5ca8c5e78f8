"""Bursts: cases in which a sender fills its window under loss and crashes, and members leave.

A case that was drawn and random numbers of its own go in; for a share of all seeds another case
comes out. After a burst the survivors have parts of a whole window, and nobody but the sender that
crashed has all of it: they repair it among themselves, many messages at a time, while some of them
already leave. The group, protocol and network of the case stay as far as such a run makes sense.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Ideal, Lan, Leave, ProcessFault, Restart
from semcast.sim.traffic import Overwrites

# The share of all cases.
BURSTS: Final = 0.25


def with_burst(scenario: ProtocolScenario, rng: random.Random) -> ProtocolScenario:
    """The case as it is or, for a share of all seeds, one with a burst."""
    if rng.random() >= BURSTS:
        return scenario
    return _Burst(scenario, rng).scenario()


class _Burst:
    """Draws what is different."""

    def __init__(self, drawn: ProtocolScenario, rng: random.Random) -> None:
        self.drawn: Final = drawn
        self.rng: Final = rng
        self.members: Final = rng.choice((3, 4, 5, 5, 5, 6))
        self.f: Final = rng.choice((1, 1, 2))
        # Mostly there is one sender, which crashes; if there are two, the other goes on.
        self.senders: Final = tuple(range(rng.choice((1, 1, 1, 2))))
        self.window: Final = rng.choice((16, 64, 256, 512, 1024)) // len(self.senders)
        # How long the burst takes: a fraction of a round trip, or several.
        self.burst_s: Final = rng.choice((0.002, 0.02, 0.1))
        # Loss goes on for a while, or ends with the burst.
        self.duration_s: Final = _few_digits(self.burst_s * rng.choice((1.0, 1.0, 2.0, 10.0)))

    def scenario(self) -> ProtocolScenario:
        rng = self.rng
        # More than the window takes, so that it is full.
        rate_msg_s = _few_digits(self.window * rng.choice((1.0, 1.5)) / self.burst_s)
        share, distance = rng.choice((0.0, 0.0, 0.3, 0.9)), rng.choice((1, 5))
        size_bytes = rng.choice((8, 64, 64, 400, 1500))
        latency_us = rng.choice((100.0, 100.0, 1000.0))
        return replace(
            self.drawn,
            members=self.members,
            duration_s=self.duration_s,
            senders=self.senders,
            traffic=Overwrites("overwrites", rate_msg_s, "constant", size_bytes, share, distance),
            network=rng.choice((Ideal(latency_us=latency_us), Lan())),
            links=(),
            faults=Faults(loss=rng.choice((0.05, 0.08, 0.15, 0.3))),
            consumers=(),
            processes=tuple(self.processes()),
            detection_ms=rng.choice((1.0, 50.0, 500.0, 500.0)),
            protocol=replace(
                self.drawn.protocol,
                reliability="sender" if rng.random() < 0.1 else "group",
                f=self.f,
                window_messages=self.window,
                delivery_messages=rng.choice((self.window, 4 * self.window)),
                window_bytes=64 << 20,
                delivery_bytes=64 << 20,
                gossip_period_ms=rng.choice((10.0, 30.0)),
                safety_rest_messages=0,
                nak_delay_ms=rng.choice((0.5, 2.0)),
                bandwidth_bytes_s=0,
            ),
        )

    def processes(self) -> Iterator[ProcessFault]:
        """The first sender crashes in the burst or right behind it; others leave soon after."""
        rng = self.rng
        crash_s = self.soon(0.0, rng.choice((1.0, 1.0, 1.5)) * self.burst_s)
        yield Crash(0, crash_s)
        if rng.random() < 0.2:
            yield Restart(0, crash_s + self.soon(0.0, 0.5))
        left = [member for member in range(1, self.members) if rng.random() < 0.5]
        if self.f > 1 and self.members > 3 and rng.random() < 0.3:
            # One more member crashes, perhaps while others leave.
            second = rng.randrange(1, self.members)
            left = [member for member in left if member != second]
            yield Crash(second, self.soon(crash_s, 0.5))
        for member in left:
            yield Leave(member, self.soon(crash_s, rng.choice((0.01, 0.3, 5.0))))

    def soon(self, since_s: float, within_s: float) -> float:
        return _few_digits(since_s + max(1e-4, self.rng.random() * within_s))


def _few_digits(value: float) -> float:
    return float(f"{value:.3g}")
