"""Open cases: groups and feeds to which processes come and from which they go during the traffic.

A case that was drawn and random numbers of its own go in; the same case as an open group comes out.
A *core* of processes starts with the run and stays. The others are *visitors*: they come with the
run or later, leave, crash, restart, are stopped, or are cut off, in both directions or in one. In
feeds anybody may be a visitor, and some processes only read.

Cases stay within what is promised. In S-RM there are more in the core than visitors, so that those
who stay are a majority of whatever view there is. A process that is stopped or cut off may be put
out, and has then lost its copies as one that crashed has. So all visitors to which any of this
happens are at most f. For "sender" nobody relies on copies or on a majority. But a sender that
leaves waits for a reader that is silent only until it forgets it, and whoever is back later finds
nobody to ask. So where a sender leaves, nobody is stopped or cut off for that long.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import (
    Consumer,
    Crash,
    Faults,
    Join,
    Leave,
    NoCost,
    Partition,
    Pause,
    ProcessFault,
    Restart,
    Slow,
)
from semcast.sim.traffic import Overwrites, Trading, Traffic

# About so many messages are sent in a case.
_MESSAGES: Final = 250
# Nobody of the core is cut off for longer: too short to be given up.
_SHORT_S: Final = 0.15
# No sender forgets a reader that is silent for no longer than this. It is a number of its own and
# not the protocol's bound (`patience.FORGET_NS_MIN`), less a margin, since one that forgets sooner
# is to be found out.
_WAITED_FOR_S: Final = 2.4


def opened(drawn: ProtocolScenario, rng: random.Random) -> ProtocolScenario:
    """The case as an open group."""
    return _Opening(drawn, rng).scenario()


def within_promise(scenario: ProtocolScenario) -> bool:
    """Whether those who stay are a majority, and no more are lost than are survived; in a feed,
    whether whoever leaves waits for all that it has sent to.
    """
    if scenario.protocol.reliability == "sender":
        return not _sender_leaves(scenario.processes, scenario.senders) or not any(
            silent_s > _WAITED_FOR_S for silent_s in _silences_s(scenario)
        )
    visitors = _visitors(scenario)
    members = {one for one in range(scenario.members) if one not in scenario.readers}
    return (
        len(members - visitors) > len(members & visitors)
        and len(_lost(scenario) & members) <= scenario.protocol.f
    )


def _sender_leaves(processes: Sequence[object], senders: tuple[int, ...]) -> bool:
    return any(isinstance(one, Leave) and one.member in senders for one in processes)


def _silences_s(scenario: ProtocolScenario) -> Iterator[float]:
    """For how long processes are stopped or cut off."""
    for one in scenario.processes:
        if isinstance(one, Pause):
            yield one.for_s
    for cut in scenario.faults.partitions:
        yield cut.until_s - cut.at_s


def _visitors(scenario: ProtocolScenario) -> set[int]:
    """Those that are not there all the time."""
    faults = scenario.process_faults()
    moved = {one.member for one in faults if not isinstance(one, Slow)}
    return moved | _cut_off(scenario)


def _cut_off(scenario: ProtocolScenario) -> set[int]:
    """Those that may be given up because they are cut off."""
    return {
        member
        for cut in scenario.faults.partitions
        if cut.until_s - cut.at_s > _SHORT_S
        for member in cut.members
    }


def _lost(scenario: ProtocolScenario) -> set[int]:
    faults = scenario.process_faults()
    return {one.member for one in faults if isinstance(one, Crash | Pause)} | _cut_off(scenario)


class _Opening:
    """Draws what is different."""

    def __init__(self, drawn: ProtocolScenario, rng: random.Random) -> None:
        self.drawn: Final = drawn
        self.rng: Final = rng
        # Drawn apart, so that nothing else is drawn otherwise because of it.
        self.ports: Final = random.Random(f"{drawn.seed}/ports")
        self.group: Final = drawn.protocol.reliability == "group"
        self.core: Final = rng.choice((2, 3, 3, 4, 5))
        most = self.core - 1 if self.group else 4
        self.visitors: Final = rng.randint(1, max(1, most))
        # Readers of a group are neither in the core nor in a majority.
        self.reading: Final = rng.choice((0, 0, 1, 2))
        self.members: Final = self.core + self.visitors + self.reading
        self.f: Final = rng.choice((0, 1, 1, 2)) if self.group else 1
        self.duration_s: Final = rng.choice((3.0, 5.0, 8.0))
        self.losses_left = self.f if self.group else self.members

    def scenario(self) -> ProtocolScenario:
        rng, drawn = self.rng, self.drawn
        processes = list(self.processes())
        partitions = tuple(self.partitions(processes))
        senders = self.senders()
        if not self.group and _sender_leaves(processes, senders):
            processes = [_waited_for(one) for one in processes]
            partitions = tuple(_soon_over(cut) for cut in partitions)
        rate_msg_s = _few_digits(_MESSAGES / self.duration_s / len(senders))
        period_ms = max(5.0, _few_digits(1000 / rate_msg_s * rng.choice((0.3, 1, 3))))
        return replace(
            drawn,
            members=self.members,
            senders=senders,
            readers=tuple(range(self.members - self.reading, self.members)),
            duration_s=self.duration_s,
            traffic=self.traffic(rate_msg_s),
            links=(),
            host=NoCost(),
            faults=self.faults(partitions),
            consumers=self.consumers(rate_msg_s),
            processes=(*processes, *self.drain(processes)),
            protocol=replace(
                drawn.protocol,
                membership="open",
                f=self.f,
                total_messages=0,
                gossip_period_ms=period_ms,
                bandwidth_bytes_s=0,
            ),
        )

    def senders(self) -> tuple[int, ...]:
        """One of the core, and perhaps others, visitors too."""
        may = range(self.core + self.visitors)
        return tuple(sorted({0, *self.rng.sample(may, self.rng.choice((0, 1, 1, 2)))}))

    def traffic(self, rate_msg_s: float) -> Traffic:
        rng, size = self.rng, self.rng.choice((8, 64, 64, 400, 1500))
        if rng.random() < 0.3:
            return Trading("trading", rate_msg_s, "exponential", size, (3, 20), (0.7, 0.3))
        share, distance = rng.choice((0.0, 0.3, 0.7, 0.95)), rng.choice((1, 2, 5, 20))
        return Overwrites("overwrites", rate_msg_s, "exponential", size, share, distance)

    def consumers(self, rate_msg_s: float) -> tuple[Consumer, ...]:
        if self.rng.random() > 0.3:
            return ()
        delay_ms = _few_digits(1000 / rate_msg_s * self.rng.choice((0.5, 1.5)))
        return (Consumer((self.rng.randrange(self.members),), delay_ms),)

    def faults(self, partitions: tuple[Partition, ...]) -> Faults:
        """What was drawn, but little enough of it that the living are not taken for dead."""
        drawn = self.drawn.faults
        return replace(
            drawn,
            loss=min(drawn.loss, 0.1),
            burst_begin=min(drawn.burst_begin, 0.01),
            burst_end=max(drawn.burst_end, 0.25),
            corrupt=min(drawn.corrupt, 0.05),
            to_members=(),
            partitions=partitions,
            closed_ports=self.ports.choice((0.0, 0.5, 1.0)),
            false_ports=self.ports.choice((0.0, 0.0, 0.01, 0.1)),
        )

    # -- what happens to processes -----------------------------------------------------------------

    def processes(self) -> Iterator[ProcessFault]:
        """Each visitor comes, and then one or two things happen to it."""
        for member in range(self.core, self.members):
            came_s = 0.0
            if self.rng.random() < 0.6:
                came_s = self.time_s(0.0, 0.6)
                yield Join(member, came_s)
            yield from self.visit(member, came_s)

    def visit(self, member: int, came_s: float) -> Iterator[ProcessFault]:
        rng = self.rng
        at_s = self.time_s(came_s + 0.01, 0.9)
        kind = rng.choice(("stay", "stay", "leave", "leave", "crash", "crash", "restart", "pause"))
        if kind == "leave":
            yield Leave(member, at_s, within_s=rng.choice((0.1, 5.0)))
        elif kind in ("crash", "restart") and self.lose():
            yield Crash(member, at_s)
            if kind == "restart":
                yield Restart(member, at_s + self.time_s(0.001, 0.3))
        elif kind == "pause" and self.lose():
            yield Pause(member, at_s, rng.choice((0.05, 0.5, 2.0, 5.0)))

    def lose(self) -> bool:
        """Whether one more may be lost."""
        self.losses_left -= 1
        return self.losses_left >= 0

    def partitions(self, processes: list[ProcessFault]) -> Iterator[Partition]:
        rng = self.rng
        if rng.random() < 0.3:
            # Anybody, for so short a time that nobody is given up.
            some = tuple(sorted(rng.sample(range(self.members), rng.randint(1, self.core))))
            at_s = self.time_s(0.0, 0.9)
            yield Partition(some, at_s, at_s + _SHORT_S * rng.random() + 0.001, rng.random() < 0.4)
        touched = {one.member for one in processes if not isinstance(one, Join)}
        for member in sorted(set(range(self.core, self.members)) - touched):
            if rng.random() < 0.7 and self.lose():
                at_s = self.time_s(0.0, 0.8)
                until_s = at_s + rng.choice((0.3, 1.0, 3.0))
                yield Partition((member,), at_s, until_s, rng.random() < 0.5)

    def drain(self, processes: list[ProcessFault]) -> Iterator[ProcessFault]:
        """When the traffic is over, nobody who is there is slow any more."""
        gone: set[int] = set()
        for fault in processes:
            if isinstance(fault, Crash | Leave):
                gone.add(fault.member)
            elif isinstance(fault, Restart):
                gone.discard(fault.member)
        for member in range(self.members):
            if member not in gone:
                yield Slow(member, _few_digits(self.duration_s * 1.4), 0.0)

    def time_s(self, since_s: float, share: float) -> float:
        """A time from then on, before that share of the traffic is over, or soon after it began."""
        until_s = max(since_s + 0.05, self.duration_s * share)
        return _few_digits(since_s + self.rng.random() * (until_s - since_s) + 1e-3)


def _waited_for(fault: ProcessFault) -> ProcessFault:
    """The same, but nobody is stopped for longer than others wait for it."""
    if isinstance(fault, Pause):
        return replace(fault, for_s=min(fault.for_s, _WAITED_FOR_S))
    return fault


def _soon_over(cut: Partition) -> Partition:
    """The same, but over before anybody is forgotten."""
    most_s = _few_digits(cut.at_s + _WAITED_FOR_S - 0.01)
    return replace(cut, until_s=min(cut.until_s, most_s))


def _few_digits(value: float) -> float:
    return float(f"{value:.3g}")
