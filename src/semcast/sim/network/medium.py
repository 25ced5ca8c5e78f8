"""A broadcast medium: one transmission at a time, which every node hears after the same time (PROP
§4.2).

What a node sends at one instant to several nodes is one transmission, because the medium carries it
past all of them; the second packet to the same node is the second transmission. Nothing is lost:
losses are layers.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

from semcast.sim.network.base import Network, Waiting, check_latency
from semcast.sim.scheduler import Scheduler


@final
class Medium(Network):
    """All nodes on one medium."""

    def __init__(self, scheduler: Scheduler, nodes: i64, transmission_ns: i64) -> None:
        super().__init__(scheduler, nodes)
        self._transmission_ns: Final[i64] = check_latency(transmission_ns)
        self._under_way: Final = Waiting(scheduler, self.exit)
        # INV-ONE: the medium is busy with what it was given up to here, and idle from then on.
        self._free_ns: i64 = 0
        self.transmissions: i64 = 0
        # When the packet that is being sent arrives.
        self._arrival_ns: i64 = 0
        # Of each node: when it last sent; when what it sent at that instant arrives, by
        # transmission; and how many packets it sent to each destination then.
        self._last_ns = vec[i64]([-1] * nodes)
        self._arrivals_ns: Final[list[list[int]]] = [[] for _ in range(nodes)]
        self._packets: Final[list[dict[int, int]]] = [{} for _ in range(nodes)]

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        now_ns = self.scheduler.now_ns
        arrivals_ns = self._arrivals_ns[from_node]
        packets = self._packets[from_node]
        if self._last_ns[from_node] != now_ns:
            self._last_ns[from_node] = now_ns
            arrivals_ns.clear()
            packets.clear()
        turn = packets.get(int(to_node), 0)
        packets[int(to_node)] = turn + 1
        if turn == len(arrivals_ns):
            self._free_ns = max(now_ns, self._free_ns) + self._transmission_ns
            self.transmissions += 1
            arrivals_ns.append(int(self._free_ns))
        self._arrival_ns = arrivals_ns[turn]
        self._send_each(from_node, to_node, size_bytes, packet)

    def _send_one(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        arrival_ns = self._arrival_ns + self._delays_ns[to_node]
        self._under_way.hold(arrival_ns, from_node, to_node, size_bytes, packet)

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:  # noqa: ARG002
        """When the medium is idle."""
        return max(self.scheduler.now_ns, self._free_ns)
