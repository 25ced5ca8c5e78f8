"""The simulated world of a federation: a scenario and a seed in; what its sites did, out.

It is the world of an open group but for what sites are: those of the charter begin together, others
come later and are told of sites that are there, a crashed site comes back with what it had written
down or without, and sites change the groups that they want to be in. Nobody says who is gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.journal import Header, Journal, node_name
from semcast.journal.header import FEDERATION
from semcast.protocol.machine import Machine
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.federated import Federated, as_federated
from semcast.protocol.propagation.site import Site, as_site
from semcast.sim.build import SECOND_NS
from semcast.sim.closed_world import World
from semcast.sim.life import Life
from semcast.sim.propagation.counting import RecordCounter
from semcast.sim.propagation.federation_scenario import Change, FederationScenario, SiteRestart
from semcast.sim.propagation.making import (
    ListStore,
    SiteLife,
    SiteMaker,
    charter_of,
    groups_of_site,
    make_site,
)
from semcast.sim.propagation.meter import Meter, SiteMeter
from semcast.sim.propagation.outcome import FederationOutcome, outcome_of
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Crash, Leave
from semcast.sim.tally import Tally
from semcast.sim.traffic import Item
from semcast.wire.keys import Keyring, Unsealed

# How often a site that is not in hears of those that are there.
_MEET_NS: Final = SECOND_NS // 2


@dataclass(frozen=True)
class FederationRun:
    """What came of a scenario."""

    outcome: FederationOutcome
    journal: Journal | None


class CountedLife(Life):
    """One life of a site, whose records are counted as they leave."""

    def __init__(
        self,
        me: Source,
        keys: Keyring | Unsealed,
        tally: Tally,
        site: Federated,
        counter: RecordCounter,
    ) -> None:
        super().__init__(me, keys, tally, site)
        self._site: Final = site
        self._counter: Final = counter

    def undo(self, messages_max: int) -> bool:
        messages = self._site.to_undo()[:messages_max]
        for message in messages:
            self._site.undid(message)
        return bool(messages)

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        try:
            super().receive(frames, source, now_ns)
        except RemoteProtocolError:
            self._counter.refused += 1
            raise

    def datagrams(self, now_ns: int) -> list[Outgoing]:
        found = super().datagrams(now_ns)
        self._counter.sends(int(self.me.sender), int(self.me.incarnation), found)
        return found


class FederationWorld(World):
    """Everything there is, for one run."""

    def __init__(
        self,
        scenario: FederationScenario,
        seed: int,
        journal: bool = False,
        name: str = "sim",
        make: SiteMaker = make_site,
    ) -> None:
        # What the world of a group asks for while it is built comes first.
        self._federation: Final = scenario
        self._make_site: Final = make
        self.groups: Final = scenario.groups_of_run(seed)
        later = scenario.come_later()
        founders = [site for site in range(scenario.sites) if site not in later]
        self._charter: Final = charter_of(scenario, self.groups, founders)
        self._wanted: Final = {
            site: groups_of_site(self.groups, site) for site in range(scenario.sites)
        }
        self._stores: Final[dict[int, ListStore]] = {}
        # The sites that left before they were allowed to.
        self._broke_off: Final[set[int]] = set()
        super().__init__(as_group(scenario), seed, journal, name)
        self.counter: Final = RecordCounter(scenario.sites)
        deliver_own = scenario.federation.deliver_own
        self.meter: Final = Meter(self.groups, deliver_own, self._span, self._now_ns)
        for process in self._processes:
            process.on_out = self._rejoin
        for fault in scenario.processes:
            if isinstance(fault, Change):
                self._at(round(fault.at_s * SECOND_NS), partial(self._change, fault))

    # -- building ----------------------------------------------------------------------------------

    def _header(self, name: str) -> Header:
        nodes = [node_name(seat.source) for seat in self._charter.seats]
        header = Header.of(self._config, nodes, name, "sim", str(self._seed))
        return federation_header(header, self._federation.federation.recovery)

    def _observer(self, name: str) -> Observer | None:
        return SiteMeter(self.meter, super()._observer(name))

    def _items(self, node: int) -> Iterator[Item]:
        """What a site sends, each message to one of the groups that it sends to."""
        scenario = self._federation
        groups = self._targets(node)
        if node not in scenario.sending_sites() or not groups:
            return
        rng = self._rng(f"p{node}/targets")
        for item in scenario.traffic.items(self._rng(f"p{node}/traffic")):
            yield item._replace(group=rng.choice(groups))

    def _targets(self, node: int) -> list[str]:
        match self._federation.to:
            case "own":
                return [name for name, sites in self.groups.items() if node in sites]
            case "others":
                return [name for name, sites in self.groups.items() if node not in sites]
        return list(self.groups)

    # -- lives -------------------------------------------------------------------------------------

    def _start(self, node: int) -> None:
        self._begin(node, None)

    def _begin(self, node: int, former: Machine | None) -> None:
        """A site begins a life: with the others, later, or again. `former`: what it was before,
        if it did not crash.
        """
        me, tally = self._next_life(node)
        founds = me.incarnation == 1 and node not in self._federation.come_later()
        if me.incarnation > 1 and not self._keeps_store(node):
            self._stores.pop(node, None)
        life = SiteLife(
            me,
            self._wanted[node],
            self._charter if founds else None,
            self._stores.setdefault(node, ListStore()),
            self._rng(f"{tally.node}/protocol"),
            tally,
            self._now_ns(),
            former,
        )
        site = self._make_site(self._federation, life)
        self._run_life(CountedLife(me, self._keys, tally, site, self.counter))
        if not founds:
            self._meet(node, int(me.incarnation))

    def _keeps_store(self, node: int) -> bool:
        """Whether the life that begins now has what the one before had written down."""
        now_s = self._now_ns() / SECOND_NS
        restarts = [
            fault
            for fault in self._federation.processes
            if isinstance(fault, SiteRestart) and fault.member == node and fault.at_s <= now_s
        ]
        return not restarts or max(restarts, key=lambda one: one.at_s).store

    def _meet(self, node: int, incarnation: int) -> None:
        """Until a site is in, it hears again and again of those that are there."""
        process = self._processes[node]
        life = process.life
        if life is None or life.me.incarnation != incarnation or life.inside:
            return
        for other in self._processes:
            if other is not process and other.life is not None:
                process.meet(other.life.me)
        self._at(self._now_ns() + _MEET_NS, partial(self._meet, node, incarnation))

    def _rejoin(self, node: int) -> None:
        """The others have gone on without this life."""
        former = self._processes[node].retire()
        self._record(node, "leave")
        self._begin(node, former)

    def _change(self, change: Change) -> None:
        """A site wants other groups."""
        self._wanted[change.member] = tuple(sorted(change.groups))
        self._processes[change.member].want(self._wanted[change.member])

    # -- process faults ----------------------------------------------------------------------------

    def _crash(self, fault: Crash) -> None:
        self._record(fault.member, "crash")
        self._processes[fault.member].crash()

    def _begin_leaving(self, member: int) -> None:
        self._processes[member].begin_leaving(list)

    def _leave(self, member: int) -> None:
        self._processes[member].say_goodbye()
        self._record(member, "leave")
        self._processes[member].crash()

    def _at_rest(self) -> bool:
        """Every site is also a member of just the groups that it wants, and has heard of others if
        it goes on where it was. If the others go on without a site that crashed, they have begun
        to; and if they did so without one that only stood still, it has heard of that, so that all
        have the same graph. Until then nobody knows what a site lacks.
        """
        graphs: set[int] = set()
        for process in self._processes:
            life = process.life
            site = as_site(None if life is None or life.silent is not None else life.member)
            if site is None:
                continue
            graph = site.graph()
            graphs.add(0 if graph is None else graph.number)
            if len(graphs) > 1 or not self._is_settled(site):
                self._rested_ns = -1
                return False
        return super()._at_rest()

    def _is_settled(self, site: Site) -> bool:
        """Whether a site has a graph of sites that are there, with the groups that it wants."""
        if site.resumes or not site.settled_groups:
            return False
        return site.federation.atomic or all(self._runs(seat) for seat in site.seats())

    def _runs(self, seat: Seat) -> bool:
        """Whether a seat is for the life that a site is in."""
        life = self._processes[seat.sender].life
        return life is not None and life.me.incarnation == seat.life

    def restless(self) -> list[str]:
        """The sites that have something left to do, and what they say of themselves."""
        found: list[str] = []
        for process in self._processes:
            life = process.life
            if life is None or life.member is None:
                continue
            site, wanted = as_federated(life.member), self._wanted[process.node]
            assert site is not None
            if process.at_rest() and site.groups() == wanted and not process.leaving:
                continue
            stats = {name: count for name, count in site.stats().items() if count}
            inside = "in" if life.inside else "not in"
            inside += ", and leaves" if process.leaving else ""
            groups = f"has {list(site.groups())} and wants {list(wanted)}"
            found.append(f"{self._name(process.node)} is {inside}, {groups}, {stats}")
        return found

    def _settled(self, member: int) -> None:
        """What a site that others have gone on without has taken is not safe."""
        life = self._processes[member].life
        if life is not None and life.out:
            self._leave(member)
        else:
            super()._settled(member)

    def _give_up(self, fault: Leave) -> None:
        if self._processes[fault.member].life is not None:
            self._broke_off.add(fault.member)
        super()._give_up(fault)

    def sites(self) -> list[Site]:
        """The sites that run."""
        machines = [one.life.member for one in self._processes if one.life is not None]
        return [site for site in map(as_site, machines) if site is not None]

    @property
    def atomic(self) -> bool:
        """Whether all wait for a site that fails."""
        return self._federation.federation.recovery == "atomic"

    def lost(self) -> set[int]:
        """The sites that are gone without having settled, or have come back as if they were new."""
        dead = {process.node for process in self._processes if process.life is None}
        crashed = {one.member for one in self._federation.processes if isinstance(one, Crash)}
        renewed = {
            one.member
            for one in self._federation.processes
            if isinstance(one, SiteRestart) and not one.store
        }
        return (dead & (crashed | self._broke_off)) | renewed

    def _record(self, node: int, event: str) -> None:
        if self.journal is not None:
            self.journal.record(self._now_ns(), self._name(node), event)


def as_group(scenario: FederationScenario) -> ProtocolScenario:
    """The same as the world of a group reads it: sites as members, and what surrounds them."""
    settings = scenario.federation
    names = {one.name for one in fields(Protocol)} & {one.name for one in fields(settings)}
    common = {name: getattr(settings, name) for name in names}
    return ProtocolScenario(
        members=scenario.sites,
        seed=scenario.seed,
        duration_s=scenario.duration_s,
        warm_up_s=scenario.warm_up_s,
        drain_s=scenario.drain_s,
        senders=scenario.sending_sites(),
        traffic=scenario.traffic,
        # Sites come and go.
        protocol=Protocol(membership="open", **common),
        network=scenario.network,
        faults=scenario.faults,
        host=scenario.host,
        consumers=scenario.consumers,
        processes=scenario.process_faults(),
        socket_datagrams=scenario.socket_datagrams,
    )


def federation_header(header: Header, recovery: str) -> Header:
    """The header of a federation's journal."""
    return replace(header, reliability=FEDERATION, recovery=recovery, state="none")


def run_federation(
    scenario: FederationScenario,
    seed: int,
    journal: bool = False,
    progress: Callable[[float], None] | None = None,
    name: str = "sim",
    make: SiteMaker = make_site,
) -> FederationRun:
    """Run a scenario. `name` is what the journal calls the run; `make` makes its sites."""
    world = FederationWorld(scenario, seed, journal, name, make)
    run = world.run(progress)
    return FederationRun(outcome_of(run, world.meter, world.counter), run.journal)
