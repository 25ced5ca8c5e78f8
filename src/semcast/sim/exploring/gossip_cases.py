"""Random gossip groups: a seed in, a scenario out, in which much goes wrong at once.

Small groups with full and partial views, with and without repair and tree, on links that are often
too slow; members come late, leave, crash and come back, and copies are lost, late, doubled, or cut
off. Nothing is promised of how many get a message, so anything may fail. Knows nothing of how a
case is run or judged.
"""

import random
from dataclasses import replace
from typing import Final, Literal

from semcast.sim.epidemic.gossip_scenario import (
    GossipProcess,
    GossipScenario,
    GossipSettings,
    PolicyName,
)
from semcast.sim.surroundings import (
    Crash,
    Faults,
    Ideal,
    Join,
    Leave,
    Network,
    Partition,
    Restart,
    Shared,
)
from semcast.sim.traffic import Chains

MEMBERS_MIN: Final = 5
MEMBERS_MAX: Final = 12
# A process is away for longer than any datagram is under way: the network names the node that sent
# one, and not its life.
_AWAY_S: Final = 1.0
_POLICIES: Final[tuple[PolicyName, ...]] = (
    "eager", "eager", "lazy", "lazy", "random", "drop-new", "age", "priority",
)  # fmt: skip


def gossip_case(seed: int) -> GossipScenario:
    """The scenario of a seed."""
    return _Draw(random.Random(f"explore/{seed}/relays")).scenario(seed)


class _Draw:
    """Draws the parts of a scenario, each from what the others allow."""

    def __init__(self, rng: random.Random) -> None:
        self.rng: Final = rng
        self.members: Final = rng.randint(MEMBERS_MIN, MEMBERS_MAX)
        self.partial: Final = rng.random() < 0.6
        self.form_s: Final = rng.choice((0.05, 0.5, 1.5)) if self.partial else 0.0
        self.lasts_s: Final = rng.choice((2.0, 4.0, 8.0))
        self.duration_s: Final = self.form_s + self.lasts_s

    def scenario(self, seed: int) -> GossipScenario:
        rng = self.rng
        rate_msg_s = rng.choice((80.0, 160.0, 400.0)) / self.lasts_s
        traffic = Chains(
            rate_msg_s=rate_msg_s,
            gaps=rng.choice(("constant", "exponential")),
            size_bytes=rng.choice((0, 100, 400)),
            ratio=rng.choice((0.0, 0.5, 0.8, 0.8, 1.0)),
            diversity=rng.choice((1, 3, 10)),
            length=rng.choice((2, 6, 30)),
        )
        processes = self.processes()
        return GossipScenario(
            members=self.members,
            title=f"gossip case {seed}",
            seed=seed,
            duration_s=self.duration_s,
            warm_up_s=0.0,
            cool_down_s=0.0,
            traffic=traffic,
            network=self.network(any(isinstance(one, Restart) for one in processes)),
            faults=self.faults(),
            gossip=self.spreading(
                self.gossip(random.Random(f"explore/{seed}/relays/room")),
                random.Random(f"explore/{seed}/relays/first"),
            ),
            processes=processes,
        )

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def within_s(self) -> float:
        """A time while there is traffic."""
        return round(self.form_s + self.rng.random() * self.lasts_s, 3)

    def gossip(self, rooms: random.Random) -> GossipSettings:
        """`rooms` draws who shares room and what becomes of late copies, and nothing else."""
        rng = self.rng
        policy: PolicyName = rng.choice(_POLICIES)
        repair: Literal["none", "pull"] = "pull" if self.chance(0.5) else "none"
        naive = self.chance(0.1)
        return GossipSettings(
            policy=policy,
            scope=rng.choice(("node", "node", "link")),
            room=rooms.choice(("shared", "each")),
            late=rooms.choice(("refuse", "refuse", "link", "relay")),
            composition="naive" if naive else "layered",
            period_s=0.1 if naive else 0.0,
            buffer_messages=rng.choice((1, 1, 2, 4, 10, 64)),
            fanout=rng.choice((1, 2, 3, 5)),
            rounds=rng.choice((1, 4, 16)),
            copy_bytes=rng.choice((0, 100)),
            link_kbit_s=rng.choice((0.0, 2.0, 8.0, 32.0)),
            patience_s=rng.choice((0.1, 0.5, 2.0)),
            views="partial" if self.partial else "full",
            contacts=rng.choice((1, 1, 2)),
            form_s=self.form_s,
            repair=repair,
            tree=self.partial and repair == "pull" and self.chance(0.5),
        )

    def spreading(self, settings: GossipSettings, firsts: random.Random) -> GossipSettings:
        """Where repair can bring what is lost, messages may go to everybody at once."""
        if settings.repair != "pull" or settings.tree or firsts.random() >= 0.25:
            return settings
        return replace(settings, optimistic=True)

    def network(self, restarts: bool) -> Network:
        """If somebody comes back, one in which nothing is under way for long."""
        if not restarts and self.chance(0.3):
            # Partial views need some room for frames of their own.
            pair_kbit_s = self.rng.choice((50.0, 200.0) if self.partial else (2.0, 8.0, 100.0))
            pairs = self.members * (self.members - 1)
            return Shared(bandwidth_mbit_s=round(pair_kbit_s * pairs / 1000, 3))
        return Ideal(latency_us=self.rng.choice((100.0, 5_000.0, 50_000.0)))

    def faults(self) -> Faults:
        rng = self.rng
        cuts = []
        if self.chance(0.3):
            at_s = self.within_s()
            members = tuple(sorted(rng.sample(range(self.members), rng.randint(1, 4))))
            until_s = round(at_s + rng.choice((0.3, 1.0, 3.0)), 3)
            cuts.append(Partition(members, at_s, until_s, self.chance(0.3)))
        return Faults(
            loss=rng.choice((0.0, 0.0, 0.05, 0.3)),
            jitter_ms=rng.choice((0.0, 5.0, 50.0)),
            reorder=rng.choice((0.0, 0.0, 0.2)),
            reorder_ms=rng.choice((1.0, 100.0)),
            duplicate=rng.choice((0.0, 0.0, 0.2)),
            duplicate_ms=rng.choice((1.0, 200.0)),
            partitions=tuple(cuts),
        )

    def processes(self) -> tuple[GossipProcess, ...]:
        """At most one thing befalls each, but who crashed may come back."""
        found: list[GossipProcess] = []
        for member in range(1, self.members):
            fate, at_s = self.rng.random(), self.within_s()
            if fate < 0.1:
                found.append(Join(member, at_s))
            elif fate < 0.2:
                found.append(Leave(member, at_s, self.rng.choice((0.0, 0.2, 2.0))))
            elif fate < 0.35:
                found.append(Crash(member, at_s))
                back_s = round(at_s + _AWAY_S, 3)
                if self.chance(0.5) and back_s < self.duration_s:
                    found.append(Restart(member, back_s))
        return tuple(found)
