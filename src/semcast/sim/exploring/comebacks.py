"""Comebacks: cases in which a member crashes and restarts again and again while there is traffic.

A case that was drawn and random numbers of its own go in; for a share of all seeds the same case
with restarts comes out. Mostly the member is a sender, so that the group gets many short streams of
it. The former ones may lack their end, while the member itself has forgotten all of them. It is
away for less than a gossip period, so that nobody notices, or for longer than it is there. In some
cases datagrams are held up for longer than several lives, so that votes, requests and messages of
former lives arrive in later ones.

Cases stay within what is promised. A member that is back has none of the copies it had, so for
"group" it counts as one of the f members that may crash, from its first crash on; in its later
lives too, since a copy that it gets again it may lose again. So all members that crash in a case,
this one included, are at most f: of any f + 1 copies one is with a member that never crashes. For
"sender" nobody relies on copies, so any others may crash.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Leave, ProcessFault, Restart, Restarts, Slow

# The share of those cases in which nobody leaves; of all cases it is about 15%.
COMEBACKS: Final = 0.2
# The share of the traffic after which all are back.
_BACK: Final = 0.95
# A datagram is held up for so long at most, as the group should rest soon after the traffic.
_HELD_MS_MAX: Final = 3000.0


def with_comebacks(scenario: ProtocolScenario, rng: random.Random) -> ProtocolScenario:
    """The case as it is or, for a share of all seeds, with a member that keeps coming back."""
    chosen = rng.random() < COMEBACKS
    # A member that leaves relies on copies of others, so such cases are left alone.
    if not chosen or any(isinstance(fault, Leave) for fault in scenario.processes):
        return scenario
    return _Comeback(scenario, rng).scenario()


class _Comeback:
    """Draws what is different."""

    def __init__(self, drawn: ProtocolScenario, rng: random.Random) -> None:
        self.drawn: Final = drawn
        self.rng: Final = rng
        anybody = rng.randrange(drawn.members)
        self.member: Final = rng.choice(drawn.senders) if rng.random() < 0.8 else anybody
        self.times: Final = rng.choice((2, 3, 5, 8, 9, 12, 17, 25))

    def scenario(self) -> ProtocolScenario:
        restarts = self.restarts()
        return replace(
            self.drawn,
            # Without any crash to survive a restart would already be one too many.
            protocol=replace(self.drawn.protocol, f=max(1, self.drawn.protocol.f)),
            processes=(restarts, *self.others()),
            faults=self.faults(restarts),
        )

    def restarts(self) -> Restarts:
        """Restarts spread over the traffic or close together, with short or long pauses."""
        rng, traffic_s = self.rng, self.drawn.duration_s * _BACK
        period_s = self.drawn.protocol.gossip_period_ms / 1000
        evenly_s = traffic_s / (self.times + 1)
        every_s = evenly_s
        if rng.random() < 0.5:
            every_s = min(evenly_s, period_s * rng.choice((0.5, 2, 10)))
        share = rng.choice((0.05, 0.3, 0.5, 0.9))
        down_s = every_s * share
        if rng.random() < 0.5:
            # So short that nobody notices its silence.
            down_s = min(down_s, period_s * share)
        at_s = rng.random() * max(traffic_s - every_s * self.times, 0.0)
        # A little less, so that rounding never makes the pause as long as the whole interval.
        every_s, down_s = _few_digits(every_s), _few_digits(down_s * 0.99)
        return Restarts(
            self.member, _few_digits(max(at_s, 1e-4)), every_s, max(down_s, 1e-6), self.times
        )

    def others(self) -> Iterator[ProcessFault]:
        """What happens to other members, as long as no more crash than the promise allows."""
        most = self.drawn.members - 1
        if self.drawn.protocol.reliability == "group":
            most = max(1, self.drawn.protocol.f)
        crashed = {self.member}
        for fault in self.drawn.process_faults():
            if fault.member == self.member:
                continue
            if isinstance(fault, Crash) and len(crashed) < most:
                crashed.add(fault.member)
            if fault.member in crashed or not isinstance(fault, Crash | Restart):
                yield fault
        drained = {fault.member for fault in self.drawn.processes if isinstance(fault, Slow)}
        for member in range(self.drawn.members):
            # A member whose crash was left out must not be slow when the traffic is over.
            if member == self.member or (member not in drained and member not in crashed):
                yield Slow(member, _few_digits(self.drawn.duration_s * 1.4), 0.0)

    def faults(self, restarts: Restarts) -> Faults:
        """In a third of the cases, datagrams are held up so long that their life is over."""
        rng, faults = self.rng, self.drawn.faults
        share, lives = rng.choice((0.05, 0.3)), rng.choice((1.5, 4, 10))
        kind = rng.randrange(6)
        held_ms = _few_digits(min(1000 * restarts.every_s * lives, _HELD_MS_MAX))
        if kind == 0:
            return replace(faults, reorder=share, reorder_ms=held_ms)
        if kind == 1:
            return replace(faults, duplicate=share, duplicate_ms=held_ms)
        return faults


def _few_digits(value: float) -> float:
    return float(f"{value:.3g}")
