"""A federation on a fake network in which everything goes wrong that may, as a seed says.

Beside what the explorer runs, which is the protocol alone, sites here find each other, prove who
they are, write their histories to files, and come back by themselves in another life. What their
applications have is judged, and so is the journal.

    python -m tests.live.federation_hunt --seconds 600 --seed 1
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.live.federations import FakeSite, run_and_take

from semcast.check import check_all
from semcast.errors import SemcastError, WindowFullError
from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.graph import NO_SITE
from semcast.protocol.propagation.site import as_site
from semcast.sim.propagation.world import federation_header
from semcast.testing import FakeNetwork

GROUPS = ("alpha", "beta", "gamma")
SILENCE_S = 0.3
# How long sites have to be at rest again, once nothing goes wrong any more.
CALM_S = 60


class Hunt:
    """One case."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(f"{seed}/hunt")
        rng = self.rng
        self.recovery = rng.choice(("atomic", "non-atomic", "non-atomic"))
        self.network = FakeNetwork(
            seed,
            loss=rng.choice((0.0, 0.0, 0.02, 0.1)),
            duplication=rng.choice((0.0, 0.1)),
            multicast=rng.random() < 0.7,
        )
        header = Header.of(MemberConfig(), [], "hunt", membership="open")
        self.journal = Journal(federation_header(header, self.recovery))
        self.sites: dict[str, FakeSite] = {}
        self.folder = folder
        self.keeps = self.recovery == "atomic" or rng.random() < 0.6
        self.window = rng.choice((4, 16, 256))
        # Who does not run or is cut off, and when that is over; and whose application is away.
        self.hurt: dict[str, float] = {}
        self.away: dict[str, float] = {}
        for letter in "abcdefg"[: rng.randint(3, 6)]:
            self.start(letter)

    @property
    def now_s(self) -> float:
        return self.network.now_ns / 1e9

    def observer(self, me: Source) -> JournalObserver:
        return JournalObserver(self.journal, node_name(me), lambda: self.network.now_ns)

    def start(self, letter: str) -> None:
        site = self.sites.get(letter)
        if site is not None and self.keeps:
            site.restart()
            return
        # Without a history its application begins anew, too.
        groups = tuple(one for one in GROUPS if self.rng.random() < 0.6)
        more = {"history": str(self.folder / letter)} if self.keeps else {}
        self.sites[letter] = FakeSite(
            self.network, letter, groups=groups or ("alpha",), recovery=self.recovery,
            observer=self.observer, silence_ms=SILENCE_S * 1000, null_ms=60.0,
            window_messages=self.window, delivery_messages=self.rng.choice((2, 64)), **more,
        )  # fmt: skip

    # -- what goes on ------------------------------------------------------------------------------

    def flow(self, seconds: float) -> None:
        """Everybody who is in sends now and then, and takes what comes."""
        for _ in range(round(seconds / 0.02)):
            for site in self.sites.values():
                if not site.member.running or not site.inside or self.rng.random() < 0.7:
                    continue
                known = site.site.known_groups()
                if not known:
                    continue
                key = self.rng.choice((None, "k", "l"))
                try:
                    site.send(self.rng.choice(known), b"x" * 20, key)
                except (WindowFullError, SemcastError):
                    continue
            self.go_on(0.02)

    def go_on(self, seconds: float) -> None:
        """Let time pass; applications take what comes, but for those that are away."""
        there = [one for one in self.sites if self.away.get(one, 0) <= self.now_s]
        run_and_take(self.network, [self.sites[one] for one in there], seconds)

    def hurt_one(self) -> None:
        """Something happens to a site, unless that would leave too few of them."""
        rng = self.rng
        well = [one for one in self.sites if one not in self.hurt]
        if not well:
            return
        few = 2 * (len(self.hurt) + 1) >= len(self.sites)
        letter = rng.choice(well)
        site = self.sites[letter]
        what = rng.choice(("kill", "kill", "restart", "cut", "change", "change", "away", "leave"))
        if what == "away":
            self.away[letter] = self.now_s + rng.choice((0.1, 0.5, 2.0))
            return
        if what == "change" or (few and self.recovery == "non-atomic"):
            if site.member.running and site.inside:
                groups = tuple(one for one in GROUPS if rng.random() < 0.6)
                site.session.change(groups, site.member.now_ns)
            return
        if what == "leave" and site.inside:
            self.leave(letter)
        elif what == "restart":
            self.kill(letter)
            self.start(letter)
            self.hurt[letter] = self.now_s + 4 * SILENCE_S
        elif what == "kill":
            self.kill(letter)
            self.hurt[letter] = self.now_s + rng.choice((0.05, 0.3, 1.0, 3.0))
        else:
            host = site.session.transport.address[0]
            self.network.unplugged.add(host)
            self.hurt[letter] = self.now_s + rng.choice((0.05, 0.3, 1.0, 3.0))

    def kill(self, letter: str) -> None:
        site = self.sites[letter]
        self.journal.record(self.network.now_ns, node_name(site.session.me), "crash")
        site.member.crash()

    def leave(self, letter: str) -> None:
        """It goes when the others need it no more, or after a while by force."""
        site = self.sites[letter]
        end_s = self.now_s + self.rng.choice((0.1, 1.0, 5.0))
        while self.now_s < end_s and site.session.ended is None:
            if site.session.may_leave(site.member.now_ns):
                break
            self.go_on(0.02)
        site.take()
        self.journal.record(self.network.now_ns, node_name(site.session.me), "leave")
        site.member.leave()
        self.hurt[letter] = self.now_s + self.rng.choice((0.05, 1.0))

    def heal(self, everybody: bool = False) -> None:
        for letter, until_s in list(self.hurt.items()):
            if until_s > self.now_s and not everybody:
                continue
            site = self.sites[letter]
            host = site.session.transport.address[0]
            if host in self.network.unplugged:
                self.network.unplugged.remove(host)
                # The others may have gone on without it, which it has to hear first.
                self.hurt[letter] = self.now_s + 6 * SILENCE_S
            elif not site.member.running:
                self.start(letter)
                # It counts as missing until the others had time to go on without it.
                self.hurt[letter] = self.now_s + 6 * SILENCE_S
            elif site.inside or everybody:
                del self.hurt[letter]

    # -- and what is expected ----------------------------------------------------------------------

    def run(self) -> list[str]:
        """What went wrong."""
        if not self.network.run(lambda: all(one.inside for one in self.sites.values()), 60):
            return [f"not together: {self.facts()}"]
        self.flow(0.3)
        for _ in range(self.rng.randint(2, 10)):
            self.hurt_one()
            self.flow(self.rng.choice((0.05, 0.2, 0.5, 1.0)))
            self.heal()
        self.heal(everybody=True)
        self.heal(everybody=True)
        self.away.clear()
        self.go_on(1)
        waited = 0
        while not self.at_rest():
            self.go_on(1)
            waited += 1
            if waited > CALM_S:
                return [f"not at rest: {self.facts()}", *self.faults()]
        return self.faults()

    def at_rest(self) -> bool:
        sites = list(self.sites.values())
        graphs = {None if one.session.site is None else one.site.graph() for one in sites}
        return (
            all(one.inside and one.member.stable and settled(one) for one in sites)
            and all(one.member.waiting == 0 for one in sites)
            and len({None if graph is None else graph.number for graph in graphs}) == 1
            and all(len(one.site.view.present) == len(sites) for one in sites)
        )

    def facts(self) -> str:
        found = []
        for letter, one in self.sites.items():
            site = one.session.site
            graph = None if site is None else site.graph()
            found.append(
                f"{letter}: inside={one.inside} graph={graph and graph.number} "
                f"stable={one.member.stable} "
                f"settled={settled(one)} "
                f"groups={site.groups() if site else ()} "
                f"sites={len(site.view.present) if site else 0} "
                f"manager={site.manager() if site else NO_SITE} "
                f"stats={ {k: v for k, v in site.stats().items() if v} if site else {} }\n"
            )
        return "; ".join(found)

    def faults(self) -> list[str]:
        found: list[str] = []
        sites = list(self.sites.values())
        found += [
            f"{one.name} took a message twice"
            for one in sites
            if len(set(one.taken)) < len(one.taken)
        ]
        for one, other in itertools.combinations(sites, 2):
            both = set(one.taken) & set(other.taken)
            if [at for at in one.taken if at in both] != [at for at in other.taken if at in both]:
                found.append(f"{one.name} and {other.name} have two orders")
        if any("goes over" in text for one in sites for _, text in one.told):
            return found  # what was done in two federations is no one's history
        report = check_all(self.journal)
        told: set[str] = set()
        for violation in report.violations:
            if violation.property not in told:
                told.add(violation.property)
                found.append(str(violation))
        return found


def settled(one: FakeSite) -> bool:
    """Whether a site is a member of just the groups that it wants."""
    site = as_site(one.session.site)
    return site is not None and site.settled_groups


def hunt(seed: int) -> list[str]:
    """What goes wrong in one case."""
    with tempfile.TemporaryDirectory() as folder:
        return Hunt(seed, Path(folder)).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true")
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    broken = 0
    seed = given.seed
    while time.monotonic() < end:
        faults = hunt(seed)
        if faults:
            broken += 1
            print(f"seed {seed}:", *faults, sep="\n  ", flush=True)
            if not given.keep_going:
                break
        seed += 1
    print(f"{seed - given.seed} cases from {given.seed}, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
