"""Host models: whose processor is busy with what, and what that does to the papers' round trips."""

from collections import Counter

import pytest
from mypy_extensions import i64
from tests.sim.arrivals import Sends, watch

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY
from semcast.sim.faults import Partition
from semcast.sim.host import (
    Cost,
    CostHosts,
    LinearCost,
    MeasuredHosts,
)
from semcast.sim.network import Ideal, Network, Receiver, RouterTree, tree_parents
from semcast.sim.scheduler import Handler, Scheduler

US = 1000
# STAB §5.1: t_s(u) = 338 + 47u/400 µs, t_r(u) = 1.1 t_s(u).
STAB_SEND = LinearCost(338_000, 117_500)
STAB_RECEIVE = LinearCost(371_800, 129_250)
LATENCY_NS = 100 * US


def times_us(network: Network, traffic: list[tuple[int, int, int, int]]) -> list[tuple[float, int]]:
    """Send (time, from, to, size) packets; when and where did they arrive?"""
    log = watch(network)
    Sends(network, [(*packet, b"") for packet in traffic])
    network.scheduler.drain(10_000)
    return [(time_ns / US, to_node) for time_ns, _, to_node, _ in log]


# -- costs -----------------------------------------------------------------------------------------


def hosts(nodes: int, loopback: bool = False) -> CostHosts:
    """20 µs to send, 30 µs to receive, 100 µs on the way."""
    network = Ideal(Scheduler(), nodes, LATENCY_NS)
    return CostHosts(network, LinearCost(20 * US, 0), LinearCost(30 * US, 0), loopback)


def test_sending_and_receiving_take_their_time() -> None:
    assert times_us(hosts(2), [(0, 0, 1, 10)]) == [(150, 1)]


def test_a_processor_does_one_thing_at_a_time_in_order() -> None:
    # Node 0 sends until 20 and until 40; they arrive at 120 and 140; node 1 receives the first
    # until 150 and only then the second.
    assert times_us(hosts(2), [(0, 0, 1, 10), (0, 0, 1, 10)]) == [(150, 1), (180, 1)]
    # What node 1 sends at 110 keeps it busy until 130, so it receives what arrives at 120 later.
    assert times_us(hosts(2), [(0, 0, 1, 10), (110 * US, 1, 0, 10)]) == [(160, 1), (260, 0)]


def test_a_multicast_costs_its_sender_once_and_each_receiver_once() -> None:
    twice = [(0, 0, EVERYBODY, 10), (0, 0, EVERYBODY, 10)]
    assert times_us(hosts(3), twice) == [(150, 1), (150, 2), (180, 1), (180, 2)]


def test_with_loopback_the_sender_of_a_multicast_receives_it_too() -> None:
    """STAB's multicasts reach everybody, the sender included (STAB §2.1)."""
    assert times_us(hosts(2, loopback=True), [(0, 0, EVERYBODY, 10)]) == [(50, 0), (150, 1)]
    assert times_us(hosts(2, loopback=True), [(0, 0, 1, 10)]) == [(150, 1)]


def test_other_work_waits_for_the_processor() -> None:
    class Work(Handler):
        def fire(self, argument: i64) -> None:
            done.append((scheduler.now_ns, argument))

    network = hosts(2)
    scheduler = network.scheduler
    done: list[tuple[int, int]] = []
    work = scheduler.add(Work())
    network.execute(0, work, 1)
    network.send(0, 1, 10, b"")
    network.execute(0, work, 2)
    network.execute(1, work, 3)
    assert network.free_ns(0) == 20 * US
    scheduler.drain(100)
    assert done == [(0, 1), (0, 3), (20 * US, 2)]
    assert network.free_ns(1) == scheduler.now_ns == 150 * US


def test_costs_follow_the_size_as_the_paper_says() -> None:
    """STAB §5.1: t_s(u) = 338 + 47u/400 µs, t_r = 1.1 t_s."""
    for size in (0, 32, 220, 400, 4468):
        sending_us = 338 + 47 * size / 400
        assert STAB_SEND.of(size) == pytest.approx(sending_us * US, abs=0.51)
        assert STAB_RECEIVE.of(size) == pytest.approx(1.1 * sending_us * US, abs=0.51)
    assert Cost().of(1000) == 0
    with pytest.raises(ConfigError, match="a cost of -1 ns a packet"):
        LinearCost(-1, 0)


def test_faults_and_settings_go_to_the_network_below() -> None:
    network = hosts(2)
    network.set_delay(1, 7 * US)
    network.add_fault(Partition(frozenset({0}), start_ns=200 * US))
    # The second leaves its sender in time but finds the network cut.
    assert times_us(network, [(0, 0, 1, 10), (150 * US, 0, 1, 10)]) == [(157, 1)]
    with pytest.raises(ConfigError, match="Ideal has no link of its own"):
        network.set_bandwidth(1, 1e6)
    assert network.ready_ns(0, 1) == network.below.ready_ns(0, 1)


# -- the papers' round trips -----------------------------------------------------------------------


class CoordP(Receiver):
    """STAB §3.1 and §4.1 in a few lines: START to all, ACKs to a coordinator or up the tree, INFO.

    Contents do not matter here, only times: a packet is its kind.
    """

    def __init__(
        self, network: Network, node: int, parent: int, acks: int, done: list[int]
    ) -> None:
        self.network = network
        self.node = node
        self.parent = parent  # where ACKs go
        self.acks = acks  # that are still missing
        self.started = False
        self.done = done
        self.ack_bytes = 4 * network.nodes + 32

    def arrive(self, from_node: i64, packet: bytes) -> None:  # noqa: ARG002
        self.started = self.started or packet == b"START"
        self.acks -= packet == b"ACK"
        if packet == b"INFO" or not self.started or self.acks > 0:
            return
        if self.node != 0:
            self.network.send(self.node, self.parent, self.ack_bytes, b"ACK")
        else:
            self.done.append(self.network.scheduler.now_ns)
            self.network.send(0, EVERYBODY, self.ack_bytes, b"INFO")


def round_trip(branching: int, leaf_degree: int, structured: bool) -> tuple[RouterTree, float]:
    """The network after one round, and the root's round-trip time in ms."""
    parents = tree_parents(branching, 5, leaf_degree)
    tree = RouterTree(Scheduler(), parents)
    network = CostHosts(tree, STAB_SEND, STAB_RECEIVE, loopback=True)
    children = Counter(parents)
    done: list[int] = []
    for node, parent in enumerate(parents):
        to_node, acks = parent, children[node]
        if not structured:
            to_node, acks = 0, len(parents) - 1 if node == 0 else 0
        network.attach(node, CoordP(network, node, to_node, acks, done))
    network.send(0, EVERYBODY, 32, b"START")
    network.scheduler.drain(1_000_000)
    assert len(done) == 1
    return tree, done[0] / 1_000_000


@pytest.mark.parametrize(
    ("branching", "leaf_degree", "structured", "hops", "round_trip_ms", "queue_max"),
    [
        (2, 1, False, 270, 21.15, None),
        (2, 1, True, 138, 10.24, 1),
        (3, 3, False, 2367, 206.6, None),
        (3, 3, True, 1089, 16.35, 1),
        (4, 3, False, 7308, 1054, 203),
        (4, 3, True, 3324, 28.87, 1),
    ],
)
def test_coordinator_rounds_take_what_independent_calculations_give(
    branching: int,
    leaf_degree: int,
    structured: bool,
    hops: int,
    round_trip_ms: float,
    queue_max: int | None,
) -> None:
    """CoordP and S_CoordP on the trees of STAB table 3: messages on all hops as table 4 counts
    them, round trips and queues as calculated independently for this reading of STAB §5.1.
    """
    tree, took_ms = round_trip(branching, leaf_degree, structured)
    assert tree.hops == hops
    assert took_ms == pytest.approx(round_trip_ms, rel=0.0006)
    if queue_max is not None:
        assert tree.queue_max == queue_max


# -- measured --------------------------------------------------------------------------------------


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000

    def __call__(self) -> int:
        return self.now_ns


class Busy(Receiver):
    """Works for a time on each arrival, and answers the first ones."""

    def __init__(self, network: Network, clock: Clock, node: int, work_ns: int, answers: int):
        self.network = network
        self.clock = clock
        self.node = node
        self.work_ns = work_ns
        self.answers = answers
        self.log: list[int] = []

    def arrive(self, from_node: i64, packet: bytes) -> None:
        self.log.append(self.network.scheduler.now_ns)
        if self.answers > 0:
            self.answers -= 1
            self.network.send(self.node, from_node, len(packet), packet)
        self.clock.now_ns += self.work_ns


def measured(wake_ns: int = 0) -> tuple[MeasuredHosts, Clock]:
    clock = Clock()
    return MeasuredHosts(Ideal(Scheduler(), 2, LATENCY_NS), clock, wake_ns), clock


def test_what_a_handler_sends_leaves_when_it_is_done() -> None:
    """SRM §5.4: the time that a handler really took moves the node's simulated clock."""
    network, clock = measured()
    asked = Busy(network, clock, 1, 40 * US, answers=1)
    asker = Busy(network, clock, 0, 0, answers=0)
    network.attach(0, asker)
    network.attach(1, asked)
    network.send(0, 1, 3, b"ask")
    network.scheduler.drain(100)
    assert asked.log == [100 * US]
    assert asker.log == [100 * US + 40 * US + 100 * US]


def test_what_arrives_meanwhile_waits_its_turn() -> None:
    network, clock = measured()
    busy = Busy(network, clock, 1, 40 * US, answers=0)
    network.attach(1, busy)
    Sends(network, [(at * US, 0, 1, 1, b"x") for at in (0, 10, 15, 300)])
    network.scheduler.drain(100)
    assert busy.log == [100 * US, 140 * US, 180 * US, 400 * US]


def test_an_idle_processor_takes_a_while_to_wake_and_a_busy_one_does_not() -> None:
    """SRM §6.1: the scheduling latency of the operating system."""
    network, clock = measured(wake_ns=5 * US)
    busy = Busy(network, clock, 1, 40 * US, answers=0)
    network.attach(1, busy)
    Sends(network, [(at * US, 0, 1, 1, b"x") for at in (0, 10, 300)])
    network.scheduler.drain(100)
    assert busy.log == [105 * US, 145 * US, 405 * US]


def test_other_work_is_timed_too() -> None:
    class Work(Handler):
        def fire(self, argument: i64) -> None:
            network.send(argument, EVERYBODY, 4, b"work")
            clock.now_ns += 25 * US

    network, clock = measured()
    log = watch(network)
    work = network.scheduler.add(Work())
    network.execute(0, work, 0)
    network.execute(0, work, 0)
    network.scheduler.drain(100)
    assert log == [(125 * US, 0, 1, b"work"), (150 * US, 0, 1, b"work")]
    assert network.sent == 2


def test_a_handler_that_raises_is_timed_and_its_node_goes_on() -> None:
    class Raises(Handler):
        def fire(self, argument: i64) -> None:
            clock.now_ns += 125 * US
            raise RuntimeError(f"node {argument}")

    network, clock = measured()
    log = watch(network)
    network.execute(1, network.scheduler.add(Raises()), 1)
    network.send(0, 1, 1, b"x")
    with pytest.raises(RuntimeError, match="node 1"):
        network.scheduler.drain(100)
    network.scheduler.drain(100)
    assert log == [(125 * US, 0, 1, b"x")], "it waited for the processor"
    with pytest.raises(ConfigError, match="wake_ns is -1"):
        MeasuredHosts(Ideal(Scheduler(), 2, 1), clock, -1)
