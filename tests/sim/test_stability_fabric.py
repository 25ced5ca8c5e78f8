"""The network of STAB §5.1, its counts, and every way to read it that the paper leaves open."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy_extensions import i64

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import EVERYBODY
from semcast.sim.host import CostHosts, LinearCost
from semcast.sim.network import Receiver, RouterTree
from semcast.sim.scheduler import Handler, Scheduler
from semcast.sim.stability.fabric import Arrivals, Fabric
from semcast.sim.stability.reading import Reading

MS = 1_000_000
# A root with two children, each of which has two.
BINARY = [-1, 0, 0, 1, 1, 2, 2]
Traffic = list[tuple[int, int, int, int]]  # time, from, to, size
Log = list[tuple[int, int, int, int]]  # time, node, from, which packet


class Watch(Arrivals):
    """Notes what arrives where, and which numbers are free again."""

    def __init__(self, scheduler: Scheduler, traffic: Traffic) -> None:
        self.log: Log = []
        self.forgotten: list[int] = []
        self._scheduler = scheduler
        self._traffic = traffic

    def arrive(self, node: i64, message: i64) -> None:
        sender = self._traffic[message][1]
        self.log.append((self._scheduler.now_ns, node, sender, message))

    def forget(self, message: i64) -> None:
        self.forgotten.append(message)


class Sends(Handler):
    def __init__(self, fabric: Fabric, traffic: Traffic) -> None:
        self._fabric = fabric
        self._traffic = traffic
        number = fabric.scheduler.add(self)
        for at, packet in enumerate(traffic):
            fabric.scheduler.at(packet[0], number, at)

    def fire(self, argument: i64) -> None:
        _, sender, to_node, size = self._traffic[argument]
        self._fabric.send(sender, to_node, argument, size, argument % 2)


def fabric_of(parents: list[int], reading: Reading) -> Fabric:
    """10 ns a byte on each link, 2 ms to send, 3 ms to receive."""
    costs = LinearCost(2 * MS, 0), LinearCost(3 * MS, 0)
    return Fabric(Scheduler(), parents, *costs, reading, 800_000_000)


def times_ms(
    reading: Reading, traffic: Traffic, parents: list[int] = BINARY
) -> list[tuple[float, int]]:
    """When and where the packets arrive; each byte is on each link for 10 ns."""
    fabric = fabric_of(parents, reading)
    watch = Watch(fabric.scheduler, traffic)
    fabric.arrivals = watch
    Sends(fabric, traffic)
    fabric.scheduler.drain(100_000)
    assert sorted(watch.forgotten) == list(range(len(traffic)))
    return [(time_ns / MS, node) for time_ns, node, _, _ in watch.log]


# -- the literal reading ---------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    size = draw(st.integers(2, 14))
    return [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]


@st.composite
def journeys(draw: st.DrawFn) -> tuple[list[int], Traffic]:
    parents = draw(trees())
    node = st.integers(0, len(parents) - 1)
    packet = st.tuples(
        st.integers(0, 9 * MS), node, st.integers(-1, len(parents) - 1), st.integers(1, 400_000)
    ).filter(lambda one: one[1] != one[2])
    return parents, draw(st.lists(packet, min_size=1, max_size=25))


@given(journeys(), st.booleans())
def test_it_does_what_the_router_tree_under_costly_hosts_does_to_the_nanosecond(
    journey: tuple[list[int], Traffic], loopback: bool
) -> None:
    parents, traffic = journey
    fabric = fabric_of(parents, Reading(loopback=loopback))
    watch = Watch(fabric.scheduler, traffic)
    fabric.arrivals = watch
    Sends(fabric, traffic)
    fabric.scheduler.drain(1_000_000)

    tree = RouterTree(Scheduler(), parents, 800_000_000)
    hosts = CostHosts(tree, LinearCost(2 * MS, 0), LinearCost(3 * MS, 0), loopback)
    log: Log = []

    class Note(Receiver):
        def __init__(self, node: int) -> None:
            self._node = node

        def arrive(self, from_node: i64, packet: bytes) -> None:
            log.append((hosts.scheduler.now_ns, self._node, from_node, int(packet)))

    class SendsBytes(Handler):
        def fire(self, argument: i64) -> None:
            _, sender, to_node, size = traffic[argument]
            hosts.send(sender, to_node, size, str(int(argument)).encode())

    for node in range(len(parents)):
        hosts.attach(node, Note(node))
    number = hosts.scheduler.add(SendsBytes())
    for at, packet in enumerate(traffic):
        hosts.scheduler.at(packet[0], number, at)
    hosts.scheduler.drain(1_000_000)

    assert watch.log == log
    assert (fabric.hops, fabric.link_queue_max) == (tree.hops, tree.queue_max)
    assert sum(fabric.kind_hops) == fabric.hops
    assert sum(fabric.receptions) == len(log)
    assert sum(fabric.sends) == len(traffic)
    assert sorted(watch.forgotten) == list(range(len(traffic)))


@given(journeys(), st.integers(0, 99))
def test_the_numbering_of_the_nodes_does_not_matter(
    journey: tuple[list[int], Traffic], seed: int
) -> None:
    """Children keep their order, so that copies of a multicast leave in the same order."""
    parents, traffic = journey
    traffic = [packet for packet in traffic if packet[2] != EVERYBODY]
    name = random.Random(seed).sample(range(len(parents)), len(parents))
    renamed = [0] * len(parents)
    for node, parent in enumerate(parents):
        renamed[name[node]] = -1 if parent < 0 else name[parent]
    moved = [(time, name[sender], name[to], size) for time, sender, to, size in traffic]
    plain = times_ms(Reading(), traffic, parents)
    assert [(time, name[node]) for time, node in plain] == times_ms(Reading(), moved, renamed)


# -- the other readings ----------------------------------------------------------------------------

ONE = [(0, 3, 5, 100_000)]  # four hops of 1 ms each, through nodes 1, 0 and 2


def test_a_router_is_paid_where_a_message_passes_through_or_everywhere() -> None:
    assert times_ms(Reading(), ONE) == [(2 + 4 + 3 + 3, 5)]
    assert times_ms(Reading(router_at_ends=True), ONE) == [(2 + 4 + 5 + 3, 5)]
    assert times_ms(Reading(router_ns=0), ONE) == [(2 + 4 + 3, 5)]


def test_a_serial_router_handles_one_message_at_a_time() -> None:
    """Two that come to the root at the same time, for hosts with processors to spare."""
    both = [(0, 1, 2, 100_000), (0, 3, 4, 100_000), (0, 2, 1, 100_000)]
    assert times_ms(Reading(), both) == [(8, 2), (8, 4), (8, 1)]
    assert times_ms(Reading(router_serial=True), both) == [(8, 2), (8, 4), (9, 1)]


def test_a_second_processor_receives_while_the_first_sends() -> None:
    crossing = [(0, 1, 0, 100_000), (3 * MS, 0, 1, 100_000)]
    # At 3 ms a message reaches the root, which then sends one that keeps it busy until 5 or 8.
    one = {node: time for time, node in times_ms(Reading(), crossing)}
    two = {node: time for time, node in times_ms(Reading(processors=2), crossing)}
    assert one[0] + one[1] > two[0] + two[1]
    assert two == {0: 6, 1: 9}


def test_hosts_that_route_are_busy_with_what_passes_through() -> None:
    # 3 ms to take it in and 2 to send it on, in each of three nodes, beside the router's 1.
    assert times_ms(Reading(host_routes=True), ONE) == [(2 + 4 + 3 * 6 + 3, 5)]


def test_a_multicast_without_routers_that_copy_is_a_message_to_each() -> None:
    traffic = [(0, 0, EVERYBODY, 100_000)]
    copied = times_ms(Reading(), traffic)
    assert copied == [(5, 0), (6, 1), (6, 2), (8, 3), (8, 4), (8, 5), (8, 6)]
    each = times_ms(Reading(multicast=False), traffic)
    assert sorted(node for _, node in each) == list(range(7))
    # The loopback is taken in first, then there is one send after another.
    assert {node: time for time, node in each}[6] == 3 + 6 * 2 + 2 + 1 + 3
    assert len(times_ms(Reading(multicast=False, loopback=False), traffic)) == 6
    assert len(times_ms(Reading(loopback=False), traffic)) == 6


# -- wide-area links -------------------------------------------------------------------------------


def test_a_delay_is_paid_on_each_link_that_has_one_and_is_no_queue() -> None:
    fabric = fabric_of(BINARY, Reading())
    traffic = [(0, 1, 0, 100_000), (0, 1, 0, 100_000)]
    watch = Watch(fabric.scheduler, traffic)
    fabric.arrivals = watch
    fabric.set_delay(1, 40 * MS)
    Sends(fabric, traffic)
    fabric.scheduler.drain(1000)
    # Sent at 2 and 4, on the wire for 1, under way for 40, taken in for 3.
    assert [time for time, *_ in watch.log] == [46 * MS, 49 * MS]
    assert fabric.link_queue_max == 1


def test_loss_takes_its_share_of_hops_and_everything_below() -> None:
    fabric = fabric_of(BINARY, Reading(loopback=False))
    traffic = [(at * 100 * MS, 0, EVERYBODY, 100) for at in range(2000)]
    watch = Watch(fabric.scheduler, traffic)
    fabric.arrivals = watch
    fabric.set_loss(0.1, random.Random(1))
    Sends(fabric, traffic)
    fabric.scheduler.drain(1_000_000)
    counts = [sum(node == one for _, node, *_ in watch.log) for one in range(7)]
    assert counts[0] == 0
    assert counts[1] == pytest.approx(1800, abs=40)
    assert counts[3] == pytest.approx(1620, abs=60)
    assert fabric.lost == fabric.hops - sum(counts)
    assert sorted(watch.forgotten) == list(range(2000))


def test_a_slower_link_takes_longer() -> None:
    fabric = fabric_of(BINARY, Reading())
    traffic = [(0, 1, 0, 100_000)]
    watch = Watch(fabric.scheduler, traffic)
    fabric.arrivals = watch
    fabric.set_rate(1, 80_000_000)
    Sends(fabric, traffic)
    fabric.scheduler.drain(1000)
    assert watch.log[0][0] == (2 + 10 + 3) * MS


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("parents", [[], [0], [-1, -1], [-1, 2, 1], [-1, 9]])
def test_what_is_no_tree_is_refused(parents: list[int]) -> None:
    with pytest.raises(ConfigError):
        fabric_of(parents, Reading())


def test_settings_out_of_range_and_numbers_in_use_are_refused() -> None:
    with pytest.raises(ConfigError):
        Reading(router_ns=-1)
    with pytest.raises(ConfigError):
        Reading(processors=3)
    fabric = fabric_of(BINARY, Reading())
    with pytest.raises(ConfigError):
        fabric.set_delay(1, -1)
    with pytest.raises(ConfigError):
        fabric.set_loss(1.0, random.Random(1))
    with pytest.raises(LocalProtocolError, match="itself"):
        fabric.send(1, 1, 0, 10, 0)
    fabric.send(1, 2, 0, 10, 0)
    with pytest.raises(LocalProtocolError, match="under way"):
        fabric.send(1, 2, 0, 10, 0)
