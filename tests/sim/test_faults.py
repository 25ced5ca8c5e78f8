"""Faults: how often, how long, how far, and that none is felt where it should not be."""

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy_extensions import i64
from tests.sim.arrivals import Arrival, Sends, watch

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY
from semcast.sim.faults import (
    BurstLoss,
    Corruption,
    Delay,
    Duplication,
    Fault,
    Loss,
    Partition,
    Reordering,
)
from semcast.sim.network import Ideal, Network, Stage, SwitchedLan
from semcast.sim.scheduler import Scheduler

LATENCY_NS = 1000
GAP_NS = 100
PACKETS = 20_000


def stream(name: str) -> random.Random:
    return random.Random(f"1/faults/{name}")


def run(
    faults: list[Fault], packets: int = 1000, to_node: int = 1, nodes: int = 2
) -> list[Arrival]:
    """Node 0 sends numbered packets at equal intervals."""
    network = Ideal(Scheduler(), nodes, LATENCY_NS)
    for fault in faults:
        network.add_fault(fault)
    log = watch(network)
    traffic = [(n * GAP_NS, 0, to_node, 8, n.to_bytes(8, "big")) for n in range(packets)]
    Sends(network, traffic)
    network.scheduler.drain(10 * packets * nodes)
    return log


class Passed(Stage):
    """Where copies come out of a fault that stands alone."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:  # noqa: ARG002
        self.packets.append(packet)


def losses(fault: Fault, packets: int) -> list[bool]:
    """Which of so many copies for one node a fault drops."""
    passed = Passed()
    fault.join(Scheduler(), 2, passed)
    lost = []
    for _ in range(packets):
        before = len(passed.packets)
        fault.take(0, 1, 1, b"x")
        lost.append(len(passed.packets) == before)
    assert fault.struck == sum(lost)
    return lost


def numbers(log: list[Arrival]) -> list[int]:
    return [int.from_bytes(packet, "big") for *_, packet in log]


FAULTS: dict[str, Callable[[], Fault]] = {
    "loss": lambda: Loss(0.2, stream("loss")),
    "burst loss": lambda: BurstLoss(0.05, 0.2, stream("burst")),
    "delay": lambda: Delay(500, 2000, stream("delay")),
    "reordering": lambda: Reordering(0.2, 2000, stream("reordering")),
    "duplication": lambda: Duplication(0.2, 2000, stream("duplication")),
    "corruption": lambda: Corruption(0.2, stream("corruption")),
    "partition": lambda: Partition(frozenset({0}), start_ns=5000, end_ns=20_000),
}
SILENT: dict[str, Callable[[], Fault]] = {
    "loss": lambda: Loss(0.0, stream("loss")),
    "burst loss": lambda: BurstLoss(0.0, 1.0, stream("burst")),
    "delay": lambda: Delay(0, 0, stream("delay")),
    "reordering": lambda: Reordering(0.0, 1, stream("reordering")),
    "duplication": lambda: Duplication(0.0, 0, stream("duplication")),
    "corruption": lambda: Corruption(0.0, stream("corruption")),
    "partition": lambda: Partition(frozenset({5}), frozenset({6})),
}


# -- every fault -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_felt_and_the_same_seed_gives_the_same_log(name: str) -> None:
    first, second = FAULTS[name](), FAULTS[name]()
    log = run([first], to_node=EVERYBODY, nodes=4)
    assert log == run([second], to_node=EVERYBODY, nodes=4)
    assert log != run([], to_node=EVERYBODY, nodes=4)
    assert first.struck == second.struck > 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_switched_off_draws_nothing_and_leaves_the_log_as_it_was(name: str) -> None:
    fault = FAULTS[name]()
    fault.active = False
    assert run([fault], to_node=EVERYBODY, nodes=4) == run([], to_node=EVERYBODY, nodes=4)
    assert fault.struck == 0


@pytest.mark.parametrize("name", SILENT)
def test_a_fault_at_rate_zero_leaves_the_log_as_it_was(name: str) -> None:
    log = run([SILENT[name]()], to_node=EVERYBODY, nodes=4)
    assert log == run([], to_node=EVERYBODY, nodes=4)


@pytest.mark.parametrize("name", sorted(set(FAULTS) - {"partition"}))
def test_a_fault_may_be_limited_to_what_goes_to_some_nodes(name: str) -> None:
    limited: dict[str, Fault] = {
        "loss": Loss(0.2, stream("loss"), frozenset({2})),
        "burst loss": BurstLoss(0.05, 0.2, stream("burst"), to_nodes=frozenset({2})),
        "delay": Delay(500, 2000, stream("delay"), frozenset({2})),
        "reordering": Reordering(0.2, 2000, stream("reordering"), frozenset({2})),
        "duplication": Duplication(0.2, 2000, stream("duplication"), frozenset({2})),
        "corruption": Corruption(0.2, stream("corruption"), to_nodes=frozenset({2})),
    }
    log = run([limited[name]], to_node=EVERYBODY, nodes=4)
    plain = run([], to_node=EVERYBODY, nodes=4)
    assert [a for a in log if a[2] != 2] == [a for a in plain if a[2] != 2]
    assert [a for a in log if a[2] == 2] != [a for a in plain if a[2] == 2]


def test_layers_stack_and_the_last_one_added_is_met_first() -> None:
    everything = Loss(1.0, stream("loss"))
    doubled = Duplication(1.0, 0, stream("duplication"))
    assert run([everything, doubled], packets=10) == []
    assert everything.struck == 20
    everything, doubled = Loss(1.0, stream("loss")), Duplication(1.0, 0, stream("duplication"))
    run([doubled, everything], packets=10)
    assert (everything.struck, doubled.struck) == (10, 0)


def test_copies_of_one_multicast_suffer_independently_and_after_using_the_wire() -> None:
    """What is lost has been transmitted: the packets behind it arrive no earlier."""

    def network() -> Network:
        return SwitchedLan(Scheduler(), 3)

    plain, lossy = network(), network()
    lossy.add_fault(Loss(0.5, stream("loss")))
    traffic = [(0, 0, EVERYBODY, 1000, n.to_bytes(8, "big")) for n in range(100)]
    logs = []
    for model in (plain, lossy):
        logs.append(watch(model))
        Sends(model, traffic)
        model.scheduler.drain(10_000)
    assert set(logs[1]) < set(logs[0])
    got = [{packet for _, _, to_node, packet in logs[1] if to_node == node} for node in (1, 2)]
    assert got[0] - got[1]
    assert got[1] - got[0]


def test_both_builds_give_this_log() -> None:
    """All faults at once on a busy network: compiled and interpreted agree to the nanosecond.

    The digest is of this very run; a change of what is drawn, or when, is meant to change it.
    """
    network = SwitchedLan(Scheduler(), 5, queue_bytes_max=20_000)
    for fault in FAULTS.values():
        network.add_fault(fault())
    log = watch(network)
    draws = stream("traffic")
    traffic = []
    for number in range(500):
        to_node = EVERYBODY if draws.random() < 0.5 else number % 4 + 1
        size = draws.randrange(1500)
        traffic.append((draws.randrange(3_000_000), 0, to_node, size, number.to_bytes(8, "big")))
    Sends(network, traffic)
    network.scheduler.drain(100_000)
    text = "".join(f"{t} {source} {to} {packet.hex()}\n" for t, source, to, packet in log)
    assert network.dropped > 0
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7138ddad1cf9259a"


# -- losses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_losses_are_as_frequent_as_said_and_independent(rate: float) -> None:
    """Within four standard deviations; a loss says nothing about the next copy."""
    lost = losses(Loss(rate, stream("loss")), PACKETS)
    assert abs(sum(lost) - PACKETS * rate) < 4 * math.sqrt(PACKETS * rate * (1 - rate))
    after_loss = [lost[n + 1] for n in range(PACKETS - 1) if lost[n]]
    spread = math.sqrt(rate * (1 - rate) / len(after_loss))
    assert abs(sum(after_loss) / len(after_loss) - rate) < 4 * spread


def test_bursts_are_as_long_and_as_frequent_as_the_chain_says() -> None:
    """Bursts last 1 / to_good copies on average, and to_bad / (to_bad + to_good) are lost."""
    to_bad, to_good = 0.05, 0.2
    lost = losses(BurstLoss(to_bad, to_good, stream("burst")), 5 * PACKETS)
    bursts = [len(list(group)) for is_lost, group in groupby(lost) if is_lost]
    assert sum(bursts) / len(bursts) == pytest.approx(1 / to_good, rel=0.05)
    assert sum(lost) / len(lost) == pytest.approx(to_bad / (to_bad + to_good), rel=0.05)
    # Lengths are geometric: as many go on after the first copy as after any other.
    longer = [length for length in bursts if length > 1]
    assert len(longer) / len(bursts) == pytest.approx(1 - to_good, rel=0.05)


def test_both_states_of_a_burst_may_lose_some() -> None:
    fault = BurstLoss(0.5, 0.5, stream("burst"), bad_loss=0.3, good_loss=0.1)
    losses(fault, PACKETS)
    assert fault.struck / PACKETS == pytest.approx(0.2, abs=0.015)


def test_each_receiver_has_bursts_of_its_own() -> None:
    log = run([BurstLoss(0.02, 0.2, stream("burst"))], to_node=EVERYBODY, nodes=3)
    got = [set(numbers([a for a in log if a[2] == node])) for node in (1, 2)]
    assert got[0] - got[1]
    assert got[1] - got[0]


# -- time and order --------------------------------------------------------------------------------


@given(fixed_ns=st.integers(0, 3000), jitter_ns=st.integers(0, 3000))
def test_delay_keeps_order_and_its_bounds(fixed_ns: int, jitter_ns: int) -> None:
    log = run([Delay(fixed_ns, jitter_ns, stream("delay"))], 200)
    assert numbers(log) == list(range(200))
    for number, (time_ns, *_) in enumerate(log):
        late_ns = time_ns - (number * GAP_NS + LATENCY_NS)
        assert fixed_ns <= late_ns <= fixed_ns + jitter_ns


def test_jitter_is_spread_over_its_range() -> None:
    """Far enough apart that none waits for the one before."""
    log = run([Delay(0, GAP_NS - 1, stream("delay"))], 5000)
    late_ns = [time_ns - n * GAP_NS - LATENCY_NS for n, (time_ns, *_) in enumerate(log)]
    assert set(late_ns) == set(range(GAP_NS))
    assert sum(late_ns) / 5000 == pytest.approx((GAP_NS - 1) / 2, rel=0.03)


@given(rate=st.floats(0.1, 1.0), hold_ns_max=st.integers(GAP_NS, 3000))
def test_reordering_loses_nothing_and_holds_nothing_longer_than_it_may(
    rate: float, hold_ns_max: int
) -> None:
    fault = Reordering(rate, hold_ns_max, stream("reordering"))
    log = run([fault], 200)
    assert sorted(numbers(log)) == list(range(200))
    held = 0
    for time_ns, _, _, packet in log:
        late_ns = time_ns - (int.from_bytes(packet, "big") * GAP_NS + LATENCY_NS)
        assert 0 <= late_ns <= hold_ns_max
        held += late_ns > 0
    assert held == fault.struck


def test_reordering_reorders() -> None:
    order = numbers(run([Reordering(0.2, 1000, stream("reordering"))]))
    overtaken = sum(1 for first, second in pairwise(order) if first > second)
    assert overtaken > 50


@given(rate=st.floats(0.0, 1.0), again_ns_max=st.integers(0, 3000))
def test_a_duplicate_comes_once_more_and_in_time(rate: float, again_ns_max: int) -> None:
    fault = Duplication(rate, again_ns_max, stream("duplication"))
    log = run([fault], 200)
    assert len(log) == 200 + fault.struck
    seen: dict[int, int] = {}
    for time_ns, _, _, packet in log:
        number = int.from_bytes(packet, "big")
        first_ns = seen.setdefault(number, time_ns)
        assert first_ns == number * GAP_NS + LATENCY_NS
        assert time_ns <= first_ns + again_ns_max
    assert len(seen) == 200
    assert max(Counter(numbers(log)).values()) <= 2


# -- contents --------------------------------------------------------------------------------------


@given(size=st.integers(1, 100), bytes_max=st.integers(1, 200))
def test_corruption_changes_bytes_but_not_length_or_time(size: int, bytes_max: int) -> None:
    network = Ideal(Scheduler(), 2, LATENCY_NS)
    network.add_fault(Corruption(1.0, stream("corruption"), bytes_max))
    log = watch(network)
    sent = bytes(size)
    for _ in range(20):
        network.send(0, 1, size, sent)
    network.scheduler.run(LATENCY_NS)
    assert len(log) == 20
    for *_, packet in log:
        assert len(packet) == size
        assert 1 <= sum(byte != 0 for byte in packet) <= min(bytes_max, size)
    assert sent == bytes(size)  # other copies are as they were


def test_corruption_is_as_frequent_as_said_and_spares_the_empty() -> None:
    fault = Corruption(0.1, stream("corruption"))
    passed = Passed()
    fault.join(Scheduler(), 2, passed)
    for _ in range(PACKETS):
        fault.take(0, 1, 1, b"x")
    assert fault.struck == sum(packet != b"x" for packet in passed.packets)
    assert fault.struck / PACKETS == pytest.approx(0.1, abs=0.01)
    network = Ideal(Scheduler(), 2, LATENCY_NS)
    network.add_fault(Corruption(1.0, stream("corruption")))
    log = watch(network)
    network.send(0, 1, 8, b"")
    network.scheduler.run(LATENCY_NS)
    assert [packet for *_, packet in log] == [b""]


# -- partitions ------------------------------------------------------------------------------------


def pairs(partition: Partition, at_ns: int) -> set[tuple[int, int]]:
    """Which (from, to) get through at a time, of four nodes."""
    network = Ideal(Scheduler(), 4, 0)
    network.add_fault(partition)
    log = watch(network)
    Sends(network, [(at_ns, node, EVERYBODY, 1, b"") for node in range(4)])
    network.scheduler.run(at_ns)
    return {(from_node, to_node) for _, from_node, to_node, _ in log}


ALL = {(a, b) for a in range(4) for b in range(4) if a != b}
SIDES = (frozenset({0, 1}), frozenset({2, 3}))


def test_a_partition_opens_and_heals() -> None:
    across = {(a, b) for a, b in ALL if (a in SIDES[0]) != (b in SIDES[0])}
    for at_ns, cut in [(9, set()), (10, across), (19, across), (20, set())]:
        for others in (SIDES[1], None):
            assert pairs(Partition(SIDES[0], others, 10, 20), at_ns) == ALL - cut


def test_a_one_way_partition_lets_the_other_way_pass() -> None:
    partition = Partition(SIDES[0], SIDES[1], 10, 20, one_way=True)
    assert ALL - pairs(partition, 15) == {(a, b) for a in SIDES[0] for b in SIDES[1]}


def test_nodes_on_neither_side_reach_everybody() -> None:
    assert ALL - pairs(Partition(frozenset({0}), frozenset({1})), 5) == {(0, 1), (1, 0)}


def test_settings_out_of_range_are_refused_with_the_numbers() -> None:
    with pytest.raises(ConfigError, match=r"loss rate is 1\.5; it must be a probability"):
        Loss(1.5, stream("loss"))
    with pytest.raises(ConfigError, match=r"to_good is -0\.1"):
        BurstLoss(0.1, -0.1, stream("burst"))
    with pytest.raises(ConfigError, match="jitter is -1 ns; it must be from 0"):
        Delay(0, -1, stream("delay"))
    with pytest.raises(ConfigError, match="hold_ns_max is 0 ns; it must be from 1"):
        Reordering(0.1, 0, stream("reordering"))
    with pytest.raises(ConfigError, match="bytes_max is 0"):
        Corruption(0.1, stream("corruption"), 0)
    with pytest.raises(ConfigError, match=r"nodes \[1\] are on both sides"):
        Partition(frozenset({0, 1}), frozenset({1, 2}))
    with pytest.raises(ConfigError, match="from 20 to 20 ns"):
        Partition(frozenset({0}), None, 20, 20)
    with pytest.raises(ConfigError, match="a partition of no nodes"):
        Partition(frozenset())
