"""Upheavals: federations in which much changes at once, and then somebody fails.

A case that was drawn and random numbers of its own go in; for a share of all seeds another case
comes out. What the cases as they are drawn meet only by rare chance is what happens here:

- groups change to and fro while messages are under way, so that several graphs are being opened and
  a site is a primary destination, is none, and is one again;
- the manager dies in the midst of a change, when some sites have been told of it and others not;
- two sites fail one soon after the other, the second perhaps while the others recover;
- a site that sends for itself, ever newer values to several children, dies with the last of them on
  their way.

Network and settings of the case stay. Knows nothing of how a case is run or judged.
"""

import random
from dataclasses import replace
from typing import Final

from semcast.sim.propagation.federation_scenario import (
    TWO_PHASE,
    Change,
    FederationScenario,
    GroupOf,
    SiteFault,
    SiteRestart,
)
from semcast.sim.surroundings import Crash, Partition
from semcast.sim.traffic import Overwrites

# The share of all cases.
UPHEAVALS: Final = 0.3


def with_upheaval(scenario: FederationScenario, rng: random.Random) -> FederationScenario:
    """The case as it is or, for a share of all seeds, one with an upheaval. Of the protocol in two
    phases, whose groups never change, all stay.
    """
    if rng.random() >= UPHEAVALS or scenario.federation.protocol == TWO_PHASE:
        return scenario
    draw = _Upheaval(scenario, rng)
    kinds = (draw.to_and_fro, draw.to_and_fro, draw.unfinished, draw.together, draw.last_words)
    return rng.choice(kinds)()


class _Upheaval:
    """Draws what is different."""

    def __init__(self, drawn: FederationScenario, rng: random.Random) -> None:
        self.drawn: Final = drawn
        self.rng: Final = rng
        self.sites: Final = drawn.sites
        self.silence_s: Final = drawn.federation.silence_ms / 1000
        self.atomic: Final = drawn.federation.recovery == "atomic"
        self.names: Final = [group.name for group in drawn.groups]

    def to_and_fro(self) -> FederationScenario:
        """Some sites want these groups, then those, then these again, faster than all can follow.
        Who is in all groups is the primary destination of many.
        """
        restless = self.some(2)
        # All send, and so have messages under way to whoever is not what it was.
        return replace(
            self.drawn,
            senders=(),
            to="any",
            traffic=self.busy(self.rng.choice((60.0, 200.0))),
            processes=(*self.others(restless), *self.swings(restless)),
        )

    def unfinished(self) -> FederationScenario:
        """The manager crashes in the midst of changes; perhaps its successor does so too."""
        rng = self.rng
        restless = tuple(site for site in self.some(2) if site > 1) or (self.sites - 1,)
        swings = self.swings(restless)
        change_s = rng.choice(swings).at_s
        crash_s = change_s + rng.random() * rng.choice((0.03, 0.1))
        found = [*swings, *self.crash(0, crash_s)]
        gone = {0}
        if self.sites > 4 and self.chance(0.3):
            crash_s += self.silence_s * rng.choice((1.0, 2.0)) + rng.random() * 0.1
            found += self.crash(1, crash_s)
            gone.add(1)
        return replace(self.drawn, processes=(*self.others((*restless, *gone)), *found))

    def together(self) -> FederationScenario:
        """Two sites crash; the second at once, or as the others recover from the first."""
        rng = self.rng
        count = 2 if self.sites > 4 else 1
        gone = tuple(rng.sample(range(self.sites), count))
        crash_s = rng.random() * self.drawn.duration_s
        found: list[SiteFault] = []
        for site in gone:
            found += self.crash(site, crash_s)
            crash_s += rng.choice((0.0, self.silence_s)) + rng.random() * rng.choice((0.01, 0.1))
        return replace(self.drawn, senders=(), processes=(*self.others(gone, hurt=False), *found))

    def last_words(self) -> FederationScenario:
        """A site in all groups sends in one burst, and crashes in it. What comes later replaces
        what waits; some is lost, some has to go in pieces, and mostly the last goes nowhere, since
        the site is cut off before it crashes.
        """
        rng = self.rng
        source = rng.randrange(self.sites)
        groups = tuple(
            GroupOf(name, tuple(sorted({source, *self.some(self.sites)})))
            for name in self.names[:2]
        )
        burst_s = rng.choice((0.02, 0.1, 0.3))
        crash_s = round(0.05 + rng.random() * 1.2 * burst_s, 4)
        cut_s = round(crash_s - rng.random() * rng.choice((0.01, 0.04)), 4)
        cuts = (Partition((source,), cut_s, round(crash_s + 0.01, 4)),) if self.chance(0.8) else ()
        return replace(
            self.drawn,
            duration_s=max(self.drawn.duration_s, 0.5),
            groups=groups,
            senders=(source,) if self.chance(0.7) else (),
            to="own",
            traffic=Overwrites(
                rate_msg_s=30.0 / burst_s,
                size_bytes=rng.choice((60, 60, 3_000)),
                r=rng.choice((0.8, 1.0)),
                d=rng.choice((1, 2)),
            ),
            federation=replace(
                self.drawn.federation,
                window_messages=8,
                forward_messages=rng.choice((2, 8)),
                wait_messages=rng.choice((1, 2)),
            ),
            faults=replace(self.drawn.faults, loss=rng.choice((0.0, 0.05, 0.2)), partitions=cuts),
            processes=tuple(self.crash(source, crash_s)),
        )

    # -- parts -------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, most: int) -> tuple[int, ...]:
        """Some of the sites, at least one."""
        count = self.rng.randint(1, min(most, self.sites))
        return tuple(sorted(self.rng.sample(range(self.sites), count)))

    def busy(self, messages: float) -> Overwrites:
        """Traffic of about so many messages altogether, of which most replace others."""
        return Overwrites(
            rate_msg_s=messages / self.sites / self.drawn.duration_s,
            size_bytes=self.rng.choice((0, 60, 3_000)),
            r=self.rng.choice((0.5, 1.0)),
            d=self.rng.choice((1, 2)),
        )

    def swings(self, restless: tuple[int, ...]) -> list[Change]:
        """Changes of these sites, to and fro."""
        rng = self.rng
        found: list[Change] = []
        for site in restless:
            one = tuple(sorted(self.names)) if self.chance(0.6) else self.wanted()
            other = () if self.chance(0.2) else self.wanted()
            at_s = rng.random() * 0.7 * self.drawn.duration_s
            for turn in range(rng.randint(3, 10)):
                found.append(Change(site, round(at_s, 4), other if turn % 2 else one))
                at_s += rng.choice((0.015, 0.04, 0.1)) * (0.5 + rng.random())
        return found

    def wanted(self) -> tuple[str, ...]:
        """Some groups, perhaps one that nobody had."""
        known = [*self.names, "new"]
        return tuple(sorted(self.rng.sample(known, self.rng.randint(1, len(known)))))

    def crash(self, site: int, at_s: float) -> list[SiteFault]:
        """A crash. If all wait for a site, it comes back with what it had written down."""
        rng, at_s = self.rng, round(at_s, 4)
        found: list[SiteFault] = [Crash(site, at_s)]
        if self.atomic or self.chance(0.5):
            away_s = rng.choice((0.02, self.silence_s, 3 * self.silence_s, 1.5))
            found.append(
                SiteRestart(site, round(at_s + away_s, 4), self.atomic or self.chance(0.7))
            )
        return found

    def others(self, gone: tuple[int, ...], hurt: bool = True) -> list[SiteFault]:
        """What befalls the other sites in the case as it was drawn; with `hurt`, crashes too."""
        hurts = {one.member for one in self.drawn.processes if isinstance(one, Crash)}
        return [
            fault
            for fault in self.drawn.processes
            if fault.member not in gone and (hurt or fault.member not in hurts)
        ]
