"""Comebacks: cases in which a member crashes and restarts again and again while there is traffic.

A case that was drawn and a stream of its own go in; now and then the same case with restarts comes
out. Mostly it is a sender, so that the group meets many short streams of one member, of which the
former ones may lack their end, while the member itself has forgotten all of them. It is away for
less than a gossip period, so that nobody notices, or for longer than it is there. In some cases
datagrams are held up for longer than several lives, so that votes, requests and messages of former
lives arrive in later ones.

Cases stay within what is promised. A member that is back has none of the copies it had, so for
"group" it counts as one of the f members that may crash, from its first crash on; in its later
lives, too, since a copy that it gets again it may lose again. So it and all others that crash in a
case are f together at the most: of any f + 1 copies one is with a member that never crashes. For
"sender" nobody counts on copies, so any others may crash.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Leave, ProcessFault, Restart, Restarts, Slow

# The share of those cases in which nobody leaves; of all cases it is about 15%.
COMEBACKS: Final = 0.2
# By when all are back, as a share of the traffic.
_BACK: Final = 0.95
# For so long at most is a datagram held up: the group is to be at rest soon after the traffic.
_HELD_MS_MAX: Final = 3000.0


def with_comebacks(scenario: ProtocolScenario, stream: random.Random) -> ProtocolScenario:
    """The case as it is or, for a share of all seeds, with a member that keeps coming back."""
    chosen = stream.random() < COMEBACKS
    # Who leaves counts on others' copies, and a group that shrinks has bursts of its own.
    if not chosen or any(isinstance(fault, Leave) for fault in scenario.processes):
        return scenario
    return _Comeback(scenario, stream).scenario()


class _Comeback:
    """Draws what is different."""

    def __init__(self, drawn: ProtocolScenario, stream: random.Random) -> None:
        self.drawn: Final = drawn
        self.stream: Final = stream
        anybody = stream.randrange(drawn.members)
        self.member: Final = stream.choice(drawn.senders) if stream.random() < 0.8 else anybody
        self.times: Final = stream.choice((2, 3, 5, 8, 9, 12, 17, 25))

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
        """Evenly over the traffic or close together; away for a moment, or most of the time."""
        stream, traffic_s = self.stream, self.drawn.duration_s * _BACK
        period_s = self.drawn.protocol.gossip_period_ms / 1000
        evenly_s = traffic_s / (self.times + 1)
        every_s = evenly_s
        if stream.random() < 0.5:
            every_s = min(evenly_s, period_s * stream.choice((0.5, 2, 10)))
        share = stream.choice((0.05, 0.3, 0.5, 0.9))
        down_s = every_s * share
        if stream.random() < 0.5:
            # Nobody can tell from silence that it was away.
            down_s = min(down_s, period_s * share)
        at_s = stream.random() * max(traffic_s - every_s * self.times, 0.0)
        # Of the pause only what is cut off, so that it stays shorter than what it is a part of.
        every_s, down_s = _few_digits(every_s), _few_digits(down_s * 0.99)
        return Restarts(
            self.member, _few_digits(max(at_s, 1e-4)), every_s, max(down_s, 1e-6), self.times
        )

    def others(self) -> Iterator[ProcessFault]:
        """What happens to other members, as far as that leaves somebody to count on."""
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
            # Whoever was to crash for good and does not, is not slow when the traffic is over.
            if member == self.member or (member not in drained and member not in crashed):
                yield Slow(member, _few_digits(self.drawn.duration_s * 1.4), 0.0)

    def faults(self, restarts: Restarts) -> Faults:
        """In a third of the cases, what is held up is of a former life when it arrives."""
        stream, faults = self.stream, self.drawn.faults
        share, lives = stream.choice((0.05, 0.3)), stream.choice((1.5, 4, 10))
        kind = stream.randrange(6)
        held_ms = _few_digits(min(1000 * restarts.every_s * lives, _HELD_MS_MAX))
        if kind == 0:
            return replace(faults, reorder=share, reorder_ms=held_ms)
        if kind == 1:
            return replace(faults, duplicate=share, duplicate_ms=held_ms)
        return faults


def _few_digits(value: float) -> float:
    return float(f"{value:.3g}")
