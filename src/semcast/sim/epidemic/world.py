"""A simulated gossip group: a scenario and a seed in; what was measured, and the journal, out.

Builds scheduler, network, faults and members of the real protocol, and lets the traffic run. The
run ends with the traffic's time, as in PSRM §4.2: what is still under way then is not measured.
Random numbers come from named generators, so the same seed gives the same run.
"""

import gc
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.sim.build import SECOND_NS, build_faults, build_network
from semcast.sim.epidemic.attendance import Attendance
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.epidemic.making import Life, Made, MemberMaker, make_member
from semcast.sim.epidemic.meter import Meter, NodeMeter
from semcast.sim.epidemic.nodes import Application, Node
from semcast.sim.epidemic.outcome import GossipOutcome, outcome_of
from semcast.sim.scheduler import Handler, Scheduler
from semcast.sim.traffic import Item

_LOOK_NS: Final = SECOND_NS // 20
# Makes whoever takes the messages of a node: its name, and whether it joins a group that runs.
ApplicationMaker = Callable[[str, bool], Application]


class Sending(Handler):
    """The sending applications: all share one traffic, whose items say who sends."""

    def __init__(self, scenario: GossipScenario, seed: int, begin_ns: int, until_ns: int) -> None:
        super().__init__()
        rng = random.Random(f"{seed}/group/traffic")
        self._items: Final = scenario.traffic.items(rng, scenario.members)
        self._begin_ns: Final = begin_ns
        self._until_ns: Final = until_ns
        self._next: Item | None = None
        self._nodes: list[Node] = []
        self._payloads: Final[dict[int, bytes]] = {}

    def start(self, nodes: list[Node], scheduler: Scheduler) -> None:
        """Plan the first message."""
        self._nodes = nodes
        self._scheduler = scheduler
        self._number = scheduler.add(self)
        self._plan(self._begin_ns)

    def _plan(self, since_ns: int) -> None:
        self._next = next(self._items, None)
        if self._next is not None:
            due_ns = since_ns + self._next.gap_ns
            if due_ns < self._until_ns:
                self._scheduler.at(due_ns, self._number)

    def fire(self, argument: i64) -> None:  # noqa: ARG002
        """The next message is due."""
        item = self._next
        assert item is not None
        payload = self._payloads.setdefault(item.size_bytes, bytes(item.size_bytes))
        self._nodes[item.sender].multicast(payload, item.replaces)
        self._plan(self._scheduler.now_ns)


class GossipWorld:
    """Everything there is, for one run."""

    def __init__(
        self,
        scenario: GossipScenario,
        seed: int,
        journal: bool = False,
        name: str = "sim",
        make: MemberMaker = make_member,
        application: ApplicationMaker | None = None,
    ) -> None:
        self._scenario: Final = scenario
        self._seed: Final = seed
        self._until_ns: Final = round(scenario.duration_s * SECOND_NS)
        self.scheduler: Final = Scheduler()
        self._network: Final = build_network(scenario.network, self.scheduler, scenario.members)
        layers, partitions = build_faults(scenario.faults, self._rng)
        for layer in [*partitions, *layers]:
            self._network.add_fault(layer)
        since_ns = round(scenario.warm_up_s * SECOND_NS)
        before_ns = self._until_ns - round(scenario.cool_down_s * SECOND_NS)
        self.meter: Final = Meter(self.scheduler, scenario.members, since_ns, before_ns)
        self._sources: Final = [Source(number, 1) for number in range(scenario.members)]
        self.journal: Final = self._make_journal(name) if journal else None
        self._make: Final = make
        self._application: Final = application
        copy_bytes = scenario.config().copy_bytes
        self.nodes: Final = [
            Node(number, self._network, self._sources, copy_bytes)
            for number in range(scenario.members)
        ]
        self.attendance: Final = Attendance(
            scenario,
            self.scheduler,
            self.nodes,
            self._sources,
            self._make_life,
            self._rng("contacts"),
        )

    @property
    def members(self) -> list[Machine]:
        """Every member that there was."""
        return [made.member for made in self.attendance.made]

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._seed}/{purpose}")

    def _make_journal(self, name: str) -> Journal:
        names = [node_name(one) for one in self._sources]
        config = self._scenario.member_config()
        header = Header.of(config, names, name, "sim", str(self._seed))
        # Delivery has no bound that is a promise here: what is too much is dropped.
        return Journal(replace(header, reliability="gossip", state="none"))

    def _make_life(
        self, me: Source, view: View, contact: Source | None, joining: bool
    ) -> tuple[Made, Application | None]:
        """The member of a life that begins, and its application if anybody looks at it."""
        name = node_name(me)
        observer: Observer | None = None
        if self.journal is not None:
            observer = JournalObserver(self.journal, name, self._now_ns)
        meter = NodeMeter(self.meter, observer)
        life = "" if me.incarnation == 1 else f".{me.incarnation}"
        stream = self._rng(f"p{me.sender}{life}/protocol")
        made = self._make(
            self._scenario, Life(me, view, contact, joining, self._now_ns(), stream, meter)
        )
        taker = None if self._application is None else self._application(name, joining)
        return made, taker

    def _now_ns(self) -> int:
        return int(self.scheduler.now_ns)

    def run(self, progress: Callable[[float], None] | None = None) -> GossipOutcome:
        """Let the traffic run for its time."""
        self.start()
        # There are many objects and hardly a cycle among them: looking for some takes long.
        collects = gc.isenabled()
        gc.disable()
        try:
            while self.scheduler.now_ns < self._until_ns:
                self.scheduler.run(min(self.scheduler.now_ns + _LOOK_NS, self._until_ns))
                if progress is not None:
                    progress(self.scheduler.now_ns / self._until_ns)
        finally:
            if collects:
                gc.enable()
        return self.outcome()

    def start(self, traffic_ns: tuple[int, int] | None = None) -> None:
        """Begin those who are there from the start, and the traffic. It lasts from when all have
        come until the end of the run, or from and until these times.
        """
        for number, node in enumerate(self.nodes):
            self._network.attach(number, node)
        self.attendance.start()
        if traffic_ns is None:
            partial = self._scenario.gossip.partial
            form_ns = round(self._scenario.gossip.form_s * SECOND_NS) if partial else 0
            traffic_ns = form_ns, self._until_ns
        sending = Sending(self._scenario, self._seed, *traffic_ns)
        sending.start(self.nodes, self.scheduler)

    def outcome(self) -> GossipOutcome:
        """What came of it so far."""
        return outcome_of(self._scenario, self.meter, self.members, int(self.scheduler.fired))


def run(
    scenario: GossipScenario, seed: int, progress: Callable[[float], None] | None = None
) -> GossipOutcome:
    """One run, without a journal."""
    return GossipWorld(scenario, seed).run(progress)
