"""The network models: when copies arrive, calculated by hand and by naive models."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.arrivals import Arrival, Sends, watch

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import EVERYBODY
from semcast.sim.network import (
    NO_PARENT,
    PACKET_BYTES_MAX,
    Ideal,
    Network,
    Receiver,
    RouterTree,
    SharedPointToPoint,
    SwitchedLan,
    tree_parents,
)
from semcast.sim.scheduler import Scheduler

US = 1000
MS = 1_000_000
NODES = 4
MODELS: dict[str, Callable[[Scheduler], Network]] = {
    "ideal": lambda scheduler: Ideal(scheduler, NODES, 50 * US),
    "lan": lambda scheduler: SwitchedLan(scheduler, NODES),
    "shared": lambda scheduler: SharedPointToPoint(scheduler, NODES),
    "tree": lambda scheduler: RouterTree(scheduler, [NO_PARENT, 0, 0, 1]),
}
TRAFFIC = st.lists(
    st.tuples(
        st.integers(0, 500 * US),
        st.integers(0, NODES - 1),
        st.integers(-1, NODES - 1),
        st.integers(0, 1500),
    ).filter(lambda packet: packet[1] != packet[2]),
    max_size=30,
)
Traffic = list[tuple[int, int, int, int]]


def run(network: Network, traffic: Traffic) -> list[Arrival]:
    """Send (time, from, to, size) packets, each named by its number, and see what arrives."""
    log = watch(network)
    named = [(*packet, str(number).encode()) for number, packet in enumerate(traffic)]
    Sends(network, named)
    network.scheduler.drain(100_000)
    return log


def times_us(log: list[Arrival]) -> list[tuple[float, int, int]]:
    return [(time_ns / US, from_node, to_node) for time_ns, from_node, to_node, _ in log]


def receivers(packet: tuple[int, int, int, int]) -> list[int]:
    _, from_node, to_node, _ = packet
    if to_node != EVERYBODY:
        return [to_node]
    return [node for node in range(NODES) if node != from_node]


# -- every model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@given(traffic=TRAFFIC)
def test_every_copy_arrives_once_in_the_order_of_its_pair(model: str, traffic: Traffic) -> None:
    network = MODELS[model](Scheduler())
    log = run(network, traffic)
    sent = sorted((n, node) for n, packet in enumerate(traffic) for node in receivers(packet))
    assert sorted((int(packet), to_node) for _, _, to_node, packet in log) == sent
    order = sorted(range(len(traffic)), key=lambda n: traffic[n][0])
    for from_node in range(NODES):
        for to_node in range(NODES):
            pair = [
                int(p) for _, source, target, p in log if (source, target) == (from_node, to_node)
            ]
            assert pair == [n for n in order if n in set(pair)]
    assert network.sent == len(traffic)
    assert network.sent_bytes == sum(size for *_, size in traffic)
    assert network.delivery.arrived == len(sent)


@pytest.mark.parametrize("model", MODELS)
@given(traffic=TRAFFIC)
def test_the_same_packets_give_the_same_log(model: str, traffic: Traffic) -> None:
    first = run(MODELS[model](Scheduler()), traffic)
    assert run(MODELS[model](Scheduler()), traffic) == first


@pytest.mark.parametrize("model", MODELS)
def test_one_receiver_may_be_delayed_alone(model: str) -> None:
    """SRM figure 1(b)."""
    plain = run(MODELS[model](Scheduler()), [(0, 0, EVERYBODY, 100)])
    network = MODELS[model](Scheduler())
    network.set_delay(2, 7 * MS)
    late = run(network, [(0, 0, EVERYBODY, 100)])
    expected = [(t + (7 * MS if to == 2 else 0), source, to, p) for t, source, to, p in plain]
    assert sorted(late) == sorted(expected)


@pytest.mark.parametrize("model", MODELS)
def test_what_cannot_be_sent_is_refused_with_the_reason(model: str) -> None:
    network = MODELS[model](Scheduler())
    with pytest.raises(LocalProtocolError, match="no node 4: nodes are numbered 0 to 3"):
        network.send(0, NODES, 10, b"")
    with pytest.raises(LocalProtocolError, match="no node -2"):
        network.send(-2, 0, 10, b"")
    with pytest.raises(LocalProtocolError, match="node 1 sends to itself"):
        network.send(1, 1, 10, b"")
    with pytest.raises(LocalProtocolError, match=f"{PACKET_BYTES_MAX + 1} bytes"):
        network.send(0, 1, PACKET_BYTES_MAX + 1, b"")
    with pytest.raises(LocalProtocolError, match="no node 4"):
        network.attach(NODES, Receiver())
    with pytest.raises(ConfigError, match="a delay of -1 ns"):
        network.set_delay(0, -1)
    assert network.sent == 0


def test_what_arrives_at_nobody_is_lost() -> None:
    network = Ideal(Scheduler(), 2, 5)
    log = watch(network)
    network.attach(1, Receiver())
    network.send(0, 1, 10, b"x")
    network.scheduler.run(10)
    assert log == []
    assert network.delivery.arrived == 1


# -- the switched network --------------------------------------------------------------------------


def test_a_packet_takes_two_stacks_and_two_transmissions() -> None:
    """SRM §6.1: 10 µs a stack; 1,000 bytes at 100 Mb/s take 80 µs, up and down again."""
    log = run(SwitchedLan(Scheduler(), 2), [(0, 0, 1, 1000)])
    assert times_us(log) == [(10 + 80 + 80 + 10, 0, 1)]


def test_packets_of_one_sender_queue_for_its_link() -> None:
    log = run(SwitchedLan(Scheduler(), 3), [(0, 0, 1, 1000), (0, 0, 2, 1000)])
    assert times_us(log) == [(180, 0, 1), (260, 0, 2)]


def test_packets_for_one_receiver_queue_for_its_port_behind_what_came_first() -> None:
    log = run(SwitchedLan(Scheduler(), 3), [(0, 0, 2, 1000), (10 * US, 1, 2, 500)])
    # The second is at the switch at 10 + 10 + 40 = 60, before the first (90), and goes first:
    # down until 100. The first waits from 90 to 100 and goes until 180.
    assert times_us(log) == [(110, 1, 2), (190, 0, 2)]


def test_a_multicast_is_transmitted_once_and_copied_by_the_switch() -> None:
    traffic = [(0, 0, EVERYBODY, 1000), (0, 0, 1, 1000)]
    log = run(SwitchedLan(Scheduler(), 4), traffic)
    assert times_us(log) == [(180, 0, 1), (180, 0, 2), (180, 0, 3), (260, 0, 1)]


def test_links_are_duplex() -> None:
    log = run(SwitchedLan(Scheduler(), 2), [(0, 0, 1, 1000), (0, 1, 0, 1000)])
    assert times_us(log) == [(180, 0, 1), (180, 1, 0)]


def test_one_receivers_bandwidth_may_be_lower_and_costs_only_it() -> None:
    """SRM figure 1(c)."""
    network = SwitchedLan(Scheduler(), 3)
    network.set_bandwidth(2, 10_000_000)
    log = run(network, [(0, 0, EVERYBODY, 1000), (0, 0, EVERYBODY, 1000)])
    assert times_us(log) == [(180, 0, 1), (260, 0, 1), (10 + 80 + 800 + 10, 0, 2), (1700, 0, 2)]


def test_what_does_not_fit_into_a_bounded_queue_is_dropped() -> None:
    network = SwitchedLan(Scheduler(), 3, queue_bytes_max=2500)
    burst = [(0, 0, 1, 1000)] * 4  # 3,000 bytes would wait
    later = [(100 * US, 0, 1, 1000)]  # 750 bytes still wait then
    assert [packet for *_, packet in run(network, burst + later)] == [b"0", b"1", b"4"]
    assert network.dropped == 2
    # Two senders at full speed fill the port of one receiver.
    network = SwitchedLan(Scheduler(), 3, queue_bytes_max=2500)
    pairs = [(80 * US * n, sender, 2, 1000) for n in range(10) for sender in (0, 1)]
    assert len(run(network, pairs)) == 20 - network.dropped
    assert network.dropped > 5


def test_the_sender_can_ask_when_its_link_is_idle() -> None:
    network = SwitchedLan(Scheduler(), 2)
    assert network.ready_ns(0, 1) == 0
    network.send(0, 1, 1000, b"")
    assert network.ready_ns(0, 1) == 90 * US
    network.scheduler.run(100 * US)
    assert network.ready_ns(0, 1) == 100 * US


def naive_lan(traffic: Traffic) -> list[Arrival]:
    """All packets up, one after the other, then all copies down."""
    up_free = [0] * NODES
    at_switch = []
    for number, (time_ns, from_node, _, size) in sorted(
        enumerate(traffic), key=lambda packet: packet[1][0]
    ):
        up_free[from_node] = max(time_ns + 10 * US, up_free[from_node]) + 80 * size
        at_switch.append((up_free[from_node], number))
    down_free = [0] * NODES
    log = []
    for time_ns, number in sorted(at_switch, key=lambda arrival: arrival[0]):
        _, from_node, _, size = traffic[number]
        for node in receivers(traffic[number]):
            down_free[node] = max(time_ns, down_free[node]) + 80 * size
            log.append((down_free[node] + 10 * US, from_node, node, str(number).encode()))
    return log


@given(traffic=TRAFFIC)
def test_the_switched_network_agrees_with_a_naive_calculation(traffic: Traffic) -> None:
    log = run(SwitchedLan(Scheduler(), NODES), traffic)
    assert sorted(log) == sorted(naive_lan(traffic))


# -- shared bandwidth ------------------------------------------------------------------------------


def test_total_bandwidth_is_divided_over_all_directed_pairs() -> None:
    """PSRM §4.2: 10 Mb/s over 50 nodes is 5.1 messages of 100 bytes a second on each link."""
    network = SharedPointToPoint(Scheduler(), 50)
    assert network.pair_bits_s / 800 == pytest.approx(5.1, abs=0.01)
    log = run(network, [(0, 0, 1, 100), (0, 0, 1, 100), (0, 0, 2, 100)])
    once_us = 196 * 1000 + 100
    assert times_us(log) == [(once_us, 0, 1), (once_us, 0, 2), (once_us + 196 * 1000, 0, 1)]
    assert network.ready_ns(0, 3) == network.scheduler.now_ns


def test_a_node_of_a_mesh_can_ask_when_its_links_are_idle_and_have_others() -> None:
    network = SharedPointToPoint(Scheduler(), 3, total_bits_s=6_000_000)
    network.send(0, 1, 1000, b"")
    assert network.ready_ns(0, 1) == network.ready_ns(0, EVERYBODY) == 8 * MS
    assert network.ready_ns(0, 2) == 0
    network.set_bandwidth(2, 8_000_000)
    network.send(0, 2, 1000, b"")
    network.send(2, 1, 2000, b"")
    assert (network.ready_ns(0, 2), network.ready_ns(2, 1)) == (1 * MS, 2 * MS)


# -- the tree --------------------------------------------------------------------------------------


def test_routers_take_their_time_only_on_the_way_through() -> None:
    """STAB §5.1 read literally: a chain 0 - 1 - 2, 80 µs a link, 1 ms in router 1."""
    chain = [NO_PARENT, 0, 1]
    assert times_us(run(RouterTree(Scheduler(), chain), [(0, 0, 2, 1000)])) == [(1160, 0, 2)]
    multicast = [(0, 0, EVERYBODY, 1000)]
    assert times_us(run(RouterTree(Scheduler(), chain), multicast)) == [(80, 0, 1), (1160, 0, 2)]
    middle = [(0, 1, EVERYBODY, 1000)]
    assert times_us(run(RouterTree(Scheduler(), chain), middle)) == [(80, 1, 2), (80, 1, 0)]


def test_messages_queue_for_a_link_and_the_queue_index_counts_the_one_on_the_wire() -> None:
    """Two leaves send to the root through one inner node at once."""
    tree = RouterTree(Scheduler(), [NO_PARENT, 0, 1, 1])
    log = run(tree, [(0, 2, 0, 1000), (0, 3, 0, 1000), (0, 2, 1, 1000)])
    assert times_us(log) == [(160, 2, 1), (1160, 2, 0), (1240, 3, 0)]
    assert tree.hops == 2 + 2 + 1
    assert tree.queue_max == 2
    once = RouterTree(Scheduler(), [NO_PARENT, 0, 1, 1])
    run(once, [(0, 0, EVERYBODY, 1000)])
    assert (once.hops, once.queue_max) == (3, 1)


def test_routers_do_not_serialise() -> None:
    """Two messages in one router at once leave it 1 ms after each came."""
    tree = RouterTree(Scheduler(), [NO_PARENT, 0, 0, 0])
    log = run(tree, [(0, 1, 2, 1000), (0, 2, 3, 1000)])
    assert times_us(log) == [(1160, 1, 2), (1160, 2, 3)]


def test_the_link_of_one_node_may_be_slower() -> None:
    tree = RouterTree(Scheduler(), [NO_PARENT, 0, 0])
    tree.set_bandwidth(2, 10_000_000)
    log = run(tree, [(0, 0, EVERYBODY, 1000)])
    assert times_us(log) == [(80, 0, 1), (800, 0, 2)]
    with pytest.raises(ConfigError, match="root"):
        tree.set_bandwidth(0, 10_000_000)


def test_a_node_of_a_tree_can_ask_when_its_links_are_idle() -> None:
    tree = RouterTree(Scheduler(), [NO_PARENT, 0, 0, 1])
    tree.send(1, 3, 1000, b"")
    assert tree.ready_ns(1, 3) == tree.ready_ns(1, EVERYBODY) == 80 * US
    assert tree.ready_ns(1, 2) == 0


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    size = draw(st.integers(2, 25))
    return [NO_PARENT, *(draw(st.integers(0, node - 1)) for node in range(1, size))]


def ancestors(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] != NO_PARENT:
        path.append(parents[path[-1]])
    return path


@given(parents=trees(), data=st.data())
def test_a_message_takes_the_shortest_way_through_any_tree(
    parents: list[int], data: st.DataObject
) -> None:
    from_node = data.draw(st.integers(0, len(parents) - 1))
    way_up = ancestors(parents, from_node)
    links = {}
    for node in range(len(parents)):
        other = ancestors(parents, node)
        links[node] = len(set(way_up) ^ set(other))
    expected = {node: n * 80 * US + (n - 1) * MS for node, n in links.items() if node != from_node}
    multicast = run(RouterTree(Scheduler(), parents), [(0, from_node, EVERYBODY, 1000)])
    assert {to_node: time_ns for time_ns, _, to_node, _ in multicast} == expected
    assert len(multicast) == len(expected)
    for node, time_ns in expected.items():
        tree = RouterTree(Scheduler(), parents)
        assert run(tree, [(0, from_node, node, 1000)]) == [(time_ns, from_node, node, b"0")]
        assert tree.hops == links[node]


@pytest.mark.parametrize(
    ("branching", "leaf_degree", "size"),
    [
        *[(2, 1, 47), (2, 2, 63), (3, 1, 202), (3, 2, 283), (3, 3, 364)],
        *[(4, 1, 597), (4, 2, 853), (4, 3, 1109), (4, 4, 1365)],
    ],
)
def test_the_papers_trees_have_the_papers_sizes(
    branching: int, leaf_degree: int, size: int
) -> None:
    """STAB table 3."""
    parents = tree_parents(branching, 5, leaf_degree)
    assert len(parents) == size
    depths = [len(ancestors(parents, node)) - 1 for node in range(size)]
    assert depths == sorted(depths)
    assert depths.count(5) == leaf_degree * branching**4


# -- configuration ---------------------------------------------------------------------------------


def test_settings_out_of_range_are_refused_with_the_numbers() -> None:
    scheduler = Scheduler()
    with pytest.raises(ConfigError, match="a network of 0 nodes"):
        Ideal(scheduler, 0, 5)
    with pytest.raises(ConfigError, match="a latency of -5 ns"):
        Ideal(scheduler, 2, -5)
    with pytest.raises(ConfigError, match="no link of its own for node 1"):
        Ideal(scheduler, 2, 5).set_bandwidth(1, 1e6)
    for bandwidth_bits_s in (0, -1, 1e-9, 1e20, float("nan")):
        with pytest.raises(ConfigError, match="a bandwidth of"):
            SwitchedLan(scheduler, 2, bandwidth_bits_s)
    with pytest.raises(ConfigError, match="queue_bytes_max is -1"):
        SwitchedLan(scheduler, 2, queue_bytes_max=-1)
    with pytest.raises(ConfigError, match="1 nodes; links between all pairs take from 2 to 4096"):
        SharedPointToPoint(scheduler, 1)
    with pytest.raises(ConfigError, match="node 0 is the root"):
        RouterTree(scheduler, [1, NO_PARENT])
    with pytest.raises(ConfigError, match="the parent of node 1 is 2"):
        RouterTree(scheduler, [NO_PARENT, 2, 0])
    with pytest.raises(ConfigError, match="a network of 0 nodes"):
        RouterTree(scheduler, [])
    with pytest.raises(ConfigError, match="leaf degree 3"):
        tree_parents(2, 5, 3)
