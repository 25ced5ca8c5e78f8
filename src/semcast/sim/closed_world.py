"""The simulated world of a group whose members are counted beforehand, and what it has in common
with that of an open group.

Builds scheduler, network, faults, hosts and processes, lets the traffic run for its time, and then
lets the group come to rest. The world decides nothing: members decide, and it only translates.
Random numbers come from named generators, `seed/node/purpose`, so the same seed gives the same
journal and a new draw in one place shifts no other.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

from mypy_extensions import i64

from semcast.ids import Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.protocol.machine import MachineMaker
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.sim.attendance import Comings
from semcast.sim.build import build_faults, build_hosts, build_network, ns_of_ms
from semcast.sim.closed_ports import ClosedPorts
from semcast.sim.life import Life
from semcast.sim.process import Process
from semcast.sim.scenario import ProtocolScenario
from semcast.sim.scheduler import Handler, Scheduler
from semcast.sim.surroundings import (
    Crash,
    Join,
    Leave,
    Link,
    NoCost,
    Pause,
    ProcessFault,
    Restart,
    Slow,
)
from semcast.sim.tally import NodeOutcome, Span, Tally
from semcast.sim.traffic import SECOND_NS, Chains, Item, Replay, of_sender
from semcast.wire.keys import UNSEALED, Keyring

# The secret of every sealed group; nobody in a simulation could misuse it.
SECRET: Final = bytes(range(32))
# How often the world reports progress, and looks whether a group that drains is at rest.
_LOOK_NS: Final = SECOND_NS // 20


@dataclass(frozen=True)
class Run:
    """What came of a scenario."""

    measured_s: float
    # What the whole group sent, and what the slowest got of those that lived all the time.
    sent_rate_msg_s: float
    delivered_rate_min_msg_s: float | None
    nodes: tuple[NodeOutcome, ...]
    # Whether everything was delivered, released and at rest when the run ended.
    quiescent: bool
    ended_s: float
    # Since when no member held anything; after that, only leaving went on.
    rested_s: float
    events: int
    journal: Journal | None
    # Of an open group: how processes came and went.
    membership: Comings | None = None


class World(Handler):
    """Everything there is, for one run."""

    def __init__(
        self,
        scenario: ProtocolScenario,
        seed: int,
        journal: bool,
        name: str,
        make: MachineMaker = Member,
    ) -> None:
        """`make` makes the members of the group."""
        super().__init__()
        self._make: Final = make
        self._scenario: Final = scenario
        self._seed: Final = seed
        self._config: Final = scenario.protocol.config()
        self._keys: Final = Keyring(SECRET) if scenario.protocol.sealed else UNSEALED
        self._ids: Final = list(range(scenario.members))
        self._view: Final = View.first(self._ids, self._config.f)
        until_ns = round(scenario.duration_s * SECOND_NS)
        self._span: Final = Span(round(scenario.warm_up_s * SECOND_NS), until_ns)
        self._scheduler: Final = Scheduler()
        self._number: Final[int] = self._scheduler.add(self)
        self._tallies: Final[list[Tally]] = []
        self._incarnations: Final = [0] * scenario.members
        self._removed: Final[list[int]] = []
        self._rested_ns: i64 = -1
        self.journal: Journal | None = None
        if journal:
            self.journal = Journal(self._header(name))
        model = build_network(scenario.network, self._scheduler, scenario.members)
        self._faults, partitions = build_faults(scenario.faults, self._rng)
        for layer in [*partitions, *self._faults]:
            model.add_fault(layer)
        self._network: Final = build_hosts(scenario.host, model)
        self._processes: Final = [self._process(node) for node in self._ids]
        self._actions: Final[list[Callable[[], None]]] = []
        faults = scenario.process_faults()
        self._last_fault_s: Final = max((fault.at_s for fault in faults), default=0.0)
        for process in self._processes:
            process.on_settled = self._settled
        for consumer in scenario.consumers:
            for node in consumer.members:
                self._processes[node].delay_ns = ns_of_ms(consumer.delay_ms)
        for fault in faults:
            self._plan(fault)
        for link in scenario.links:
            self._plan_link(link)
        self._at(until_ns, self._heal)

    # -- running -----------------------------------------------------------------------------------

    def run(self, progress: Callable[[float], None] | None = None) -> Run:
        """Let the traffic run, then let the group come to rest."""
        later = self._scenario.come_later()
        for node in self._ids:
            if node not in later:
                self._start(node)
        until_ns = self._span.until_ns
        while self._scheduler.now_ns < until_ns:
            self._scheduler.run(min(self._scheduler.now_ns + _LOOK_NS, until_ns))
            if progress is not None:
                progress(self._scheduler.now_ns / until_ns)
        quiescent = self._drain()
        return self._outcome(quiescent)

    def _drain(self) -> bool:
        """Go on without traffic until nothing is left to do. Returns whether it came to that."""
        end_ns = self._span.until_ns + round(self._scenario.drain_s * SECOND_NS)
        while not self._at_rest():
            if self._scheduler.now_ns >= end_ns:
                return False
            self._scheduler.run(min(self._scheduler.now_ns + _LOOK_NS, end_ns))
        return True

    def _at_rest(self) -> bool:
        now_s = int(self._scheduler.now_ns) / SECOND_NS
        if not all(process.at_rest() for process in self._processes):
            self._rested_ns = -1
            return False
        if self._rested_ns < 0:
            self._rested_ns = self._scheduler.now_ns
        if now_s < self._last_fault_s:
            return False
        return not any(process.leaving for process in self._processes)

    def _outcome(self, quiescent: bool) -> Run:
        sent = sum(tally.sent for tally in self._tallies)
        nodes = tuple(tally.outcome(sent) for tally in self._tallies)
        rates = [
            node.delivered_rate_msg_s
            for node, tally in zip(nodes, self._tallies, strict=True)
            if tally.whole
        ]
        return Run(
            measured_s=self._span.length_s,
            sent_rate_msg_s=sent / self._span.length_s,
            delivered_rate_min_msg_s=min(rates, default=None),
            nodes=nodes,
            quiescent=quiescent,
            ended_s=self._scheduler.now_ns / SECOND_NS,
            rested_s=int(max(self._rested_ns, 0)) / SECOND_NS,
            events=self._scheduler.fired,
            journal=self.journal,
            membership=self.comings(),
        )

    def comings(self) -> Comings | None:
        """How processes came and went, if the group is open."""
        return None

    # -- building ----------------------------------------------------------------------------------

    def _header(self, name: str) -> Header:
        scenario = self._scenario
        # Nobody is in an open group from the start.
        ids = [] if scenario.open else self._ids
        return Header.of(
            self._config,
            [node_name(Source(sender, 1)) for sender in ids],
            name,
            "sim",
            str(self._seed),
            membership=scenario.protocol.membership,
            readers=[f"p{sender}" for sender in scenario.readers],
        )

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._seed}/{purpose}")

    def _now_ns(self) -> int:
        return self._scheduler.now_ns

    def _process(self, node: int) -> Process:
        scenario = self._scenario
        process = Process(
            node,
            self._network,
            self._items(node),
            self._span.until_ns,
            scenario.socket_datagrams,
            works=not isinstance(scenario.host, NoCost),
        )
        self._network.attach(node, process.socket)
        closed, false = scenario.faults.closed_ports, scenario.faults.false_ports
        if closed > 0 or false > 0:
            drawn = self._rng(f"faults/ports/{node}")
            process.ports = ClosedPorts(closed, false, drawn, self._is_there)
        return process

    def _is_there(self, node: int) -> bool:
        return self._processes[node].life is not None

    def _items(self, node: int) -> Iterator[Item]:
        """What a process sends; nothing if it is no sender."""
        senders, traffic = self._scenario.senders, self._scenario.traffic
        if node not in senders:
            return iter(())
        if isinstance(traffic, Chains | Replay):
            # All senders share one traffic: each draws the whole of it and keeps its part.
            whole = traffic.items(self._rng("group/traffic"), len(senders))
            return of_sender(whole, senders.index(node))
        return traffic.items(self._rng(f"p{node}/traffic"))

    def _start(self, node: int) -> None:
        """Begin the first life of a process, or another one."""
        me, tally = self._next_life(node)
        again = me.incarnation > 1
        rng = self._rng(f"{tally.node}/protocol")
        view = self._view.with_life(node, me.incarnation) if again else self._view
        member = self._make(self._config, me, view, rng, tally, again)
        self._run_life(Life(me, self._keys, tally, member))
        for sender in self._removed:
            self._processes[node].remove(sender)

    def _next_life(self, node: int) -> tuple[Source, Tally]:
        """Who a process is in its next life, and what counts what it does."""
        self._incarnations[node] += 1
        me = Source(node, self._incarnations[node])
        name = node_name(me)
        tally = Tally(name, self._span, self._now_ns, self._observer(name))
        self._tallies.append(tally)
        return me, tally

    def _observer(self, name: str) -> Observer | None:
        """Who else hears of all that a life does, beside the tally."""
        if self.journal is None:
            return None
        return JournalObserver(self.journal, name, self._now_ns)

    def _run_life(self, life: Life) -> None:
        offset_ns = self._rng(f"{life.tally.node}/start").randrange(self._config.gossip_period_ns)
        node = int(life.me.sender)
        self._processes[node].start(life, self._scheduler.now_ns + offset_ns)

    # -- process faults ----------------------------------------------------------------------------

    def fire(self, argument: i64) -> None:
        """Something planned is due."""
        self._actions[argument]()

    def _at(self, time_ns: int, action: Callable[[], None]) -> None:
        self._actions.append(action)
        self._scheduler.at(time_ns, self._number, len(self._actions) - 1)

    def _plan(self, fault: ProcessFault) -> None:
        process, at_ns = self._processes[fault.member], round(fault.at_s * SECOND_NS)
        match fault:
            case Crash():
                self._at(at_ns, lambda: self._crash(fault))
            case Restart() | Join():
                self._at(at_ns, lambda: self._start(fault.member))
            case Pause():
                self._at(at_ns, lambda: self._pause(fault.member))
                self._at(at_ns + round(fault.for_s * SECOND_NS), process.resume)
            case Slow():
                delay_ns = ns_of_ms(fault.delay_ms)
                self._at(at_ns, lambda: process.slow_down(delay_ns))
            case Leave():
                self._at(at_ns, lambda: self._begin_leaving(fault.member))
                self._at(at_ns + round(fault.within_s * SECOND_NS), lambda: self._give_up(fault))
            case _:
                assert_never(fault)

    def _plan_link(self, link: Link) -> None:
        at_ns, network = round(link.at_s * SECOND_NS), self._network
        delay_ms, mbit_s = link.delay_ms, link.bandwidth_mbit_s
        if delay_ms is not None:
            delay_ns = ns_of_ms(delay_ms)
            self._at(at_ns, lambda: network.set_delay(link.member, delay_ns))
        if mbit_s is not None:
            self._at(at_ns, lambda: network.set_bandwidth(link.member, mbit_s * 1e6))

    def _heal(self) -> None:
        """The traffic is over: so that the group can come to rest, nothing goes wrong any more."""
        for layer in self._faults:
            layer.active = False
        for process in self._processes:
            if process.ports is not None:
                process.ports.active = False

    def _crash(self, fault: Crash) -> None:
        process = self._processes[fault.member]
        if self.journal is not None:
            self.journal.record(self._now_ns(), self._name(fault.member), "crash")
        process.crash()
        if not self._scenario.comes_back(fault.member, fault.at_s):
            detection_ns = ns_of_ms(self._scenario.detection_ms)
            self._at(self._now_ns() + detection_ns, lambda: self._detect(fault.member))

    def _pause(self, member: int) -> None:
        self._processes[member].pause()

    def _begin_leaving(self, member: int) -> None:
        self._processes[member].begin_leaving(self._silent)

    def _silent(self) -> list[int]:
        """Members that are not heard of: those that have crashed and are not back."""
        return [process.node for process in self._processes if process.life is None]

    def _settled(self, member: int) -> None:
        """A member that leaves may go."""
        if self.journal is not None:
            self.journal.record(self._now_ns(), self._name(member), "settled")
        self._leave(member)

    def _give_up(self, fault: Leave) -> None:
        if self._processes[fault.member].life is not None:
            self._leave(fault.member)

    def _leave(self, member: int) -> None:
        """A member is gone. Each of the others hears of it, sooner or later."""
        if self.journal is not None:
            self.journal.record(self._now_ns(), self._name(member), "leave")
        self._processes[member].crash()
        self._removed.append(member)
        rng = self._rng(f"p{member}/goodbye")
        for process in self._processes:
            delay_ns = round(rng.random() * ns_of_ms(self._scenario.detection_ms))
            self._at(self._now_ns() + delay_ns, partial(process.remove, member))

    def _name(self, member: int) -> str:
        return node_name(Source(member, self._incarnations[member]))

    def _detect(self, member: int) -> None:
        self._removed.append(member)
        for process in self._processes:
            process.remove(member)
