"""One stability round in the network of STAB §5.1: settings and a seed in, what it cost out.

It drives the same tracker objects as live groups do, one for each member, over a `Fabric`, and
measures what the paper does: round-trip times, messages on all hops, messages processed, queues.
At the end every member must have agreed on the minimum of what all members have, exactly.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

from semcast.ids import EVERYBODY, NEVER
from semcast.protocol.stability.rounds.shape import Shape, complete_tree, filled_tree, random_tree
from semcast.sim.host import LinearCost
from semcast.sim.scheduler import NO_EVENT, Handler, Scheduler
from semcast.sim.stability.fabric import Arrivals, Fabric
from semcast.sim.stability.outcome import StabilityOutcome, Timing, outcome_of
from semcast.sim.stability.parties import Party, make_parties, size_of
from semcast.sim.stability.reading import Reading
from semcast.sim.stability.round_scenario import CompleteTree, RandomTree, StabilityScenario

_SLICE_EVENTS: Final = 50_000
# How many different arrays of received messages there are; members share them.
_POOL: Final = 8


def run(
    scenario: StabilityScenario, seed: int, progress: Callable[[float], None] | None = None
) -> StabilityOutcome:
    """One round; the same settings and seed give the same outcome.

    `progress`, if given, is called now and then with the share of the members that know.
    """
    if scenario.links.loss > 0 and scenario.timeout_ms == 0:
        scenario = replace(scenario, timeout_ms=2 * usual_ms(scenario, seed))
    shape = make_shape(scenario, seed)
    senders = min(scenario.senders or shape.members, shape.members)
    # A round deals with sequences only, whoever sends the messages in one.
    sequences = -(-senders // scenario.senders_per_sequence)
    scenario = replace(scenario, senders=sequences, senders_per_sequence=1)
    pool = _received(sequences, shape.members, seed)
    parties = make_parties(scenario, shape, pool, seed)
    world = World(scenario, shape, parties, seed)
    world.run(progress)
    return outcome_of(
        scenario.protocol,
        senders,
        shape,
        world.nodes,
        world.fabric,
        world.timing,
        wrong_members(parties, np.minimum.reduce(pool)),
    )


def usual_ms(scenario: StabilityScenario, seed: int) -> float:
    """How long a round takes that loses nothing, as members would measure it in the long run."""
    whole = run(replace(scenario, links=replace(scenario.links, loss=0.0)), seed)
    return scenario.deadline_s * 1e3 if whole.time_to_stable_ms is None else whole.time_to_stable_ms


def make_shape(scenario: StabilityScenario, seed: int) -> Shape:
    """The tree that a scenario asks for."""
    tree = scenario.tree
    if isinstance(tree, CompleteTree):
        return complete_tree(tree.branching, tree.height, tree.leaves_each)
    if isinstance(tree, RandomTree):
        rng = random.Random(f"{seed}/tree")
        return random_tree(tree.members, tree.branching, tree.height, rng)
    return filled_tree(tree.members, tree.branching)


def wrong_members(parties: Sequence[Party], expected: NDArray[np.int64]) -> int:
    """How many members agreed on anything else. A shared array is compared only once."""
    judged: dict[int, bool] = {}
    wrong = 0
    for party in parties:
        key = id(party.agreed)
        if key not in judged:
            judged[key] = np.array_equal(party.agreed, expected)
        wrong += not judged[key]
    return wrong


def _received(senders: int, members: int, seed: int) -> list[NDArray[np.int64]]:
    """Up to which message of each sender members have everything."""
    rng = np.random.default_rng([seed, 0x57AB])
    return [rng.integers(1, 1000, senders) for _ in range(min(_POOL, members))]


class World(Arrivals):
    """Hands messages from trackers to the fabric and back, and wakes trackers up."""

    def __init__(
        self, scenario: StabilityScenario, shape: Shape, parties: Sequence[Party], seed: int
    ) -> None:
        self.scheduler: Final = Scheduler()
        self.timing: Final = Timing(shape.members)
        self.nodes: Final = _placement(scenario, shape.members, seed)
        self.fabric: Final = make_fabric(scenario, shape, self.scheduler, seed)
        self.fabric.arrivals = self
        self._members: Final = np.argsort(self.nodes).tolist()  # by node
        self._parties: Final = parties
        self._sizes: Final = scenario.sizes
        self._senders: Final = scenario.senders
        self._deadline_ns: Final = round(scenario.deadline_s * 1e9)
        # Where nothing is lost nobody waits in vain, so timers are not needed.
        self._timed: Final = scenario.timeout_ms > 0 or scenario.protocol == "gossip"
        self._wake: Final[i64] = self.scheduler.add(_Wake(self))
        self._events: Final = [NO_EVENT] * shape.members
        self._due_ns: Final = [NEVER] * shape.members
        # Messages under way, by number, with who sent them; numbers are used again.
        self._messages: Final[list[Any]] = []
        self._from: Final[list[int]] = []
        self._free: Final[list[int]] = []

    def run(self, progress: Callable[[float], None] | None) -> None:
        """Run until every member knows and nothing is under way, or until the deadline."""
        members = len(self._parties)
        self.timing.took_part(0, 0)
        for member, party in enumerate(self._parties):
            if member == 0:
                party.start(0)
                if bool(party.agreed.any()):  # it is alone
                    self._knows(0)
            self._after(member)
        # When only the event of the deadline is left, nothing is under way any more.
        self.scheduler.at(self._deadline_ns, self.scheduler.add(_Stop(self.scheduler)))
        while self.scheduler.next_ns() < self._deadline_ns:
            self.scheduler.drain(_SLICE_EVENTS)
            if self._timed and self.timing.unaware == 0:
                break
            if progress is not None:
                progress(1 - self.timing.unaware / members)

    def arrive(self, node: i64, message: i64) -> None:
        """A member's processor has taken a message in."""
        member = self._members[node]
        now_ns = self.scheduler.now_ns
        self.timing.took_part(member, now_ns)
        if self._parties[member].on_round_message(
            self._messages[message], self._from[message], now_ns
        ):
            self._knows(member)
        self._after(member)

    def forget(self, message: i64) -> None:
        """No copy of a message is left."""
        self._messages[message] = None
        self._free.append(message)

    def wake(self, member: int) -> None:
        """The deadline of a member's tracker has come."""
        self._events[member] = NO_EVENT
        self._due_ns[member] = NEVER
        if self._parties[member].on_timer(self.scheduler.now_ns):
            self._knows(member)
        self._after(member)

    def _knows(self, member: int) -> None:
        self.timing.agreed(member, self.scheduler.now_ns)
        if self._timed and self.timing.unaware == 0:
            self.scheduler.stop()

    def _after(self, member: int) -> None:
        """Send what a member wants to send, and see when it wants to be woken."""
        party = self._parties[member]
        for to_member, message in party.take_out():
            to_node = EVERYBODY if to_member < 0 else self.nodes[to_member]
            number = self._number(message, member)
            size_bytes = size_of(message, self._sizes, self._senders, len(self._parties))
            self.fabric.send(self.nodes[member], to_node, number, size_bytes, message.kind)
        if not self._timed:
            return
        due_ns = max(party.next_deadline_ns(), self.scheduler.now_ns)
        if due_ns != self._due_ns[member]:
            self.scheduler.cancel(self._events[member])
            self._due_ns[member] = due_ns
            if due_ns < NEVER:
                self._events[member] = self.scheduler.at(due_ns, self._wake, member)

    def _number(self, message: Any, member: int) -> int:
        if self._free:
            number = self._free.pop()
            self._messages[number] = message
            self._from[number] = member
            return number
        self._messages.append(message)
        self._from.append(member)
        return len(self._messages) - 1


@final
class _Wake(Handler):
    def __init__(self, world: World) -> None:
        self._world: Final = world

    def fire(self, argument: i64) -> None:
        self._world.wake(argument)


@final
class _Stop(Handler):
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Final = scheduler

    def fire(self, argument: i64) -> None:  # noqa: ARG002
        self._scheduler.stop()


def make_fabric(
    scenario: StabilityScenario, shape: Shape, scheduler: Scheduler, seed: int
) -> Fabric:
    """Routers, links and hosts as a scenario has them. Node numbers are those of the tree."""
    hosts = scenario.hosts
    send = LinearCost(round(hosts.send_us * 1e3), round(hosts.send_us_per_byte * 1e6))
    receive = LinearCost(
        round(hosts.send_us * hosts.receive_factor * 1e3),
        round(hosts.send_us_per_byte * hosts.receive_factor * 1e6),
    )
    reading = Reading(
        router_ns=round(scenario.routers.latency_us * 1e3),
        router_serial=scenario.routers.serial,
        router_at_ends=scenario.routers.at_ends,
        processors=hosts.processors,
        host_routes=hosts.routes,
        loopback=scenario.loopback,
        multicast=scenario.multicast,
    )
    parents: list[int] = shape.parents.tolist()
    bandwidth = scenario.links.bandwidth_mbit_s * 1e6
    fabric = Fabric(scheduler, parents, send, receive, reading, bandwidth)
    delays = scenario.links.delays_ms
    if delays:
        for node, depth in enumerate(shape.depths().tolist()):
            if depth:
                fabric.set_delay(node, round(delays[min(depth, len(delays)) - 1] * 1e6))
    fabric.set_loss(scenario.links.loss, random.Random(f"{seed}/loss"))
    return fabric


def _placement(scenario: StabilityScenario, members: int, seed: int) -> list[int]:
    """The node of the network on which each member sits; the root stays where it is."""
    nodes = list(range(1, members))
    if scenario.placement == "random":
        random.Random(f"{seed}/placement").shuffle(nodes)
    return [0, *nodes]
