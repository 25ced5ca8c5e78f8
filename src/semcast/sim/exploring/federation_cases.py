"""Random federations: a seed in, a scenario out, in which much goes wrong at once.

A few sites in groups that overlap, with queues of one to eight messages; datagrams are lost, late,
doubled or reordered; applications are slow; sites crash, come back with or without what they had
written down, stop for a while, come late, leave, and change their groups. The first site, which
manages the federation, dies more often than others. PROP §5.2 assumes that the network is never cut
in two, so nothing is cut off for longer than it takes to notice. Knows nothing of how a case is run
or judged.
"""

import random
from dataclasses import replace
from typing import Final, Literal

from semcast.sim.exploring.upheavals import with_upheaval
from semcast.sim.propagation.federation_scenario import (
    CENTRAL,
    PROPAGATION,
    TWO_PHASE,
    Change,
    FederationScenario,
    FederationSettings,
    GroupOf,
    SiteFault,
    SiteRestart,
)
from semcast.sim.surroundings import (
    Consumer,
    Crash,
    Faults,
    Ideal,
    Join,
    Lan,
    Leave,
    Network,
    Partition,
    Pause,
    Slow,
)
from semcast.sim.traffic import Overwrites

SITES_MIN: Final = 3
SITES_MAX: Final = 7
# How long sites stay away at least. The others may have noticed then, or not.
_AWAY_S: Final = (0.02, 0.3, 1.5)
# How soon after a site is back it may crash again.
_BACK_S: Final = (0.005, 0.05, 0.3, 1.0)
_BOUNDS: Final = (1, 1, 2, 3, 8)
# The share of all cases in which sites have room for so little in their histories.
SHORT_HISTORIES: Final = 0.2
# Which protocol, and how often: the one that can go wrong in most ways most often.
_PROTOCOLS: Final[tuple[Literal["propagation", "two-phase", "central"], ...]] = (
    "propagation", "propagation", "propagation", "propagation", "propagation", "propagation",
    "central", "two-phase",
)  # fmt: skip


def federation_case(seed: int, protocol: str | None = None) -> FederationScenario:
    """The scenario of a seed; with `protocol`, of that one."""
    rng = random.Random(f"explore/{seed}/federation")
    scenario = _Draw(rng, protocol).scenario(seed)
    # What is added draws from a generator of its own, so that it changes nothing else of a seed.
    scenario = with_upheaval(scenario, random.Random(f"explore/{seed}/upheavals"))
    return _with_history(scenario, random.Random(f"explore/{seed}/history"))


def _with_history(scenario: FederationScenario, rng: random.Random) -> FederationScenario:
    """The same, for a share of all seeds with histories that are soon full. Then each message waits
    until everybody has the one before it, so it takes longer until all have all.
    """
    if rng.random() >= SHORT_HISTORIES:
        return scenario
    settings = replace(scenario.federation, history_messages=rng.choice(_BOUNDS))
    return replace(scenario, federation=settings, drain_s=3 * scenario.drain_s)


class _Draw:
    """Draws the parts of a scenario, each from what the others allow."""

    def __init__(self, rng: random.Random, protocol: str | None) -> None:
        self.rng: Final = rng
        drawn = rng.choice(_PROTOCOLS)
        self.protocol: Final = drawn if protocol is None else _named(protocol)
        self.sites: Final = rng.randint(SITES_MIN, SITES_MAX)
        self.duration_s: Final = rng.choice((0.5, 1.0, 3.0))
        self.atomic: Final = rng.random() < 0.4
        self.silence_ms: Final = rng.choice((100.0, 200.0, 400.0))
        self.names: Final = [f"g{number}" for number in range(rng.randint(1, 5))]

    def scenario(self, seed: int) -> FederationScenario:
        rng = self.rng
        traffic = Overwrites(
            rate_msg_s=rng.choice((20.0, 60.0, 150.0)) / self.sites / self.duration_s,
            gaps=rng.choice(("constant", "exponential")),
            size_bytes=rng.choice((0, 60, 60, 3_000)),
            r=rng.choice((0.0, 0.5, 0.8, 1.0)),
            d=rng.choice((1, 2, 5)),
            several=rng.choice((0.0, 0.0, 0.2)),
        )
        return FederationScenario(
            sites=self.sites,
            title=f"federation case {seed}",
            seed=seed,
            duration_s=self.duration_s,
            drain_s=20.0,
            groups=self.groups(),
            senders=self.senders(),
            to=rng.choice(("own", "any", "any")),
            traffic=traffic,
            federation=self.settings(),
            network=self.network(),
            faults=self.faults(),
            consumers=self.consumers(),
            processes=self.processes(),
        )

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def within_s(self) -> float:
        """A time while there is traffic."""
        return round(self.rng.random() * self.duration_s, 3)

    def some(self, most: int) -> tuple[int, ...]:
        """Some of the sites, at least one."""
        count = self.rng.randint(1, max(1, min(most, self.sites)))
        return tuple(sorted(self.rng.sample(range(self.sites), count)))

    def groups(self) -> tuple[GroupOf, ...]:
        return tuple(GroupOf(name, self.some(5)) for name in self.names)

    def senders(self) -> tuple[int, ...]:
        return () if self.chance(0.6) else self.some(3)

    def settings(self) -> FederationSettings:
        rng = self.rng
        return FederationSettings(
            protocol=self.protocol,
            central_site=rng.randrange(self.sites),
            recovery="atomic" if self.atomic else "non-atomic",
            null_ms=self.silence_ms / rng.choice((4, 8)),
            silence_ms=self.silence_ms,
            settle_ms=rng.choice((1.0, 20.0)),
            forward_messages=rng.choice(_BOUNDS),
            wait_messages=rng.choice(_BOUNDS),
            window_messages=rng.choice(_BOUNDS),
            delivery_messages=rng.choice(_BOUNDS),
            purging=not self.chance(0.1),
            replacement=rng.choice(("key", "key", "bitmap")),
            k=rng.choice((2, 8, 64)),
            deliver_own=not self.chance(0.1),
        )

    def network(self) -> Network:
        if self.chance(0.3):
            return Lan()
        return Ideal(latency_us=self.rng.choice((100.0, 1_000.0, 10_000.0)))

    def faults(self) -> Faults:
        """All that is over soon: nothing takes as long as it takes to notice a crash."""
        rng, longest_ms = self.rng, self.silence_ms / 4
        cuts = []
        if self.chance(0.2):
            at_s = self.within_s()
            until_s = round(at_s + longest_ms / 1000, 3)
            cuts.append(Partition(self.some(2), at_s, until_s, self.chance(0.3)))
        return Faults(
            loss=rng.choice((0.0, 0.0, 0.05, 0.2)),
            jitter_ms=rng.choice((0.0, 1.0, 10.0)),
            reorder=rng.choice((0.0, 0.0, 0.2)),
            reorder_ms=rng.choice((1.0, longest_ms)),
            duplicate=rng.choice((0.0, 0.0, 0.2)),
            duplicate_ms=rng.choice((1.0, longest_ms)),
            partitions=tuple(cuts),
        )

    def consumers(self) -> tuple[Consumer, ...]:
        if self.chance(0.6):
            return ()
        return (Consumer(self.some(2), self.rng.choice((1.0, 10.0, 50.0))),)

    # -- what happens to sites ---------------------------------------------------------------------

    def processes(self) -> tuple[SiteFault, ...]:
        """At most one thing befalls each site, but who crashed may come back; and some change
        their groups. One that is never hurt remains.
        """
        found: list[SiteFault] = []
        if self.chance(0.25):
            return ()
        safe = self.rng.randrange(1, self.sites)
        for site in range(self.sites):
            if site != safe:
                found += self.fate(site, 3.0 if site == 0 else 1.0)
        return tuple(found)

    def fate(self, site: int, likely: float) -> list[SiteFault]:
        """What befalls a site, if anything."""
        rng, at_s = self.rng, self.within_s()
        fate = rng.random()
        if self.protocol == TWO_PHASE:
            return self.halts(site, at_s) if fate < 0.3 else []
        if fate < 0.12 * likely:
            return self.crash(site, at_s)
        fate = rng.random()
        if fate < 0.1:
            return self.halts(site, at_s)
        if fate < 0.2:
            return [Leave(site, at_s, rng.choice((0.2, 5.0)))]
        if fate < 0.3 and site > 0:
            return [Join(site, at_s)]
        if fate < 0.5:
            return self.changes(site, at_s)
        return []

    def crash(self, site: int, at_s: float) -> list[SiteFault]:
        """A crash. If all wait for a site, it comes back with what it had written down."""
        found: list[SiteFault] = [Crash(site, at_s)]
        if self.atomic or self.chance(0.6):
            back_s = round(at_s + self.rng.choice(_AWAY_S), 3)
            found.append(SiteRestart(site, back_s, self.atomic or self.chance(0.5)))
            if self.chance(0.4):
                # Once more, perhaps before it is in, or has undone what it must.
                again_s = round(back_s + self.rng.choice(_BACK_S), 3)
                found.append(Crash(site, again_s))
                back_s = round(again_s + self.rng.choice(_AWAY_S), 3)
                found.append(SiteRestart(site, back_s, self.atomic or self.chance(0.7)))
        return found

    def halts(self, site: int, at_s: float) -> list[SiteFault]:
        """It stops for a while, or its application becomes slow."""
        if self.chance(0.3):
            return [Slow(site, at_s, self.rng.choice((5.0, 40.0)))]
        halts_s = self.rng.choice((0.02, self.silence_ms / 4000, self.silence_ms / 250))
        return [Pause(site, at_s, round(halts_s, 3))]

    def changes(self, site: int, at_s: float) -> list[SiteFault]:
        """It wants other groups, perhaps twice, perhaps one that nobody had."""
        found: list[SiteFault] = []
        for _ in range(self.rng.randint(1, 2)):
            known = [*self.names, "new"]
            count = self.rng.randint(0, len(known))
            found.append(Change(site, at_s, tuple(sorted(self.rng.sample(known, count)))))
            at_s = round(at_s + self.rng.random() * 0.2, 3)
        return found


def _named(protocol: str) -> Literal["propagation", "two-phase", "central"]:
    if protocol == TWO_PHASE:
        return "two-phase"
    if protocol == CENTRAL:
        return "central"
    assert protocol == PROPAGATION, f"no protocol is called {protocol!r}"
    return "propagation"
