"""Networks in which pairs of nodes do not disturb each other.

`Ideal` only delays. `SharedPointToPoint` is the model of PSRM §4.2: one bandwidth divided equally
over all directed pairs, each a FIFO link, and a fixed latency on top. A multicast is a packet to
each of the others. Neither loses anything: losses are layers. (Of the paper's latency only "100" is
legible. It is said to be that of a protocol stack, so it is taken as µs.)
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY
from semcast.sim.network.base import Links, Network, Waiting, check_latency
from semcast.sim.scheduler import Scheduler

# Two integers for each pair: 4,096 nodes take 256 MiB.
_MESH_NODES_MAX: Final = 4096


@final
class Ideal(Network):
    """Everything arrives after the same time, however much of it there is."""

    def __init__(self, scheduler: Scheduler, nodes: i64, latency_ns: i64) -> None:
        super().__init__(scheduler, nodes)
        self._latency_ns: Final[i64] = check_latency(latency_ns)
        self._under_way: Final = Waiting(scheduler, self.exit)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        self._send_each(from_node, to_node, size_bytes, packet)

    def _send_one(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        arrival_ns = self.scheduler.now_ns + self._latency_ns + self._delays_ns[to_node]
        self._under_way.hold(arrival_ns, from_node, to_node, size_bytes, packet)


@final
class SharedPointToPoint(Network):
    """A FIFO link for each directed pair, of 1 / (n (n - 1)) of the bandwidth (PSRM §4.2)."""

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: i64,
        total_bits_s: float = 10_000_000,
        latency_ns: i64 = 100_000,
    ) -> None:
        super().__init__(scheduler, nodes)
        if nodes < 2 or nodes > _MESH_NODES_MAX:
            raise ConfigError(
                f"{nodes} nodes; links between all pairs take from 2 to {_MESH_NODES_MAX}"
            )
        self.pair_bits_s: Final = total_bits_s / int(nodes * (nodes - 1))
        self._links: Final = Links(nodes * nodes, self.pair_bits_s)
        self._latency_ns: Final[i64] = check_latency(latency_ns)
        self._under_way: Final = Waiting(scheduler, self.exit)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        self._send_each(from_node, to_node, size_bytes, packet)

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:
        """When the link of this pair is idle; for EVERYBODY, when all the sender's links are."""
        ready_ns = self.scheduler.now_ns
        if to_node != EVERYBODY:
            return max(ready_ns, self._links.free_ns(self._pair(from_node, to_node)))
        for node in range(self.nodes):
            ready_ns = max(ready_ns, self._links.free_ns(self._pair(from_node, node)))
        return ready_ns

    def set_bandwidth(self, node: i64, rate_bits_s: float) -> None:
        """Give every link to and from one node another speed; the others keep theirs."""
        self._check_node(node)
        for other in range(self.nodes):
            self._links.set_rate(self._pair(node, other), rate_bits_s)
            self._links.set_rate(self._pair(other, node), rate_bits_s)

    def _send_one(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        link = self._pair(from_node, to_node)
        left_ns = self._links.transmit(link, self.scheduler.now_ns, size_bytes)
        arrival_ns = left_ns + self._latency_ns + self._delays_ns[to_node]
        self._under_way.hold(arrival_ns, from_node, to_node, size_bytes, packet)

    def _pair(self, from_node: i64, to_node: i64) -> i64:
        return from_node * self.nodes + to_node
