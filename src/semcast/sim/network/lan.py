"""A switched local network: SRM §6.1, with the queues that it implies.

Each node has one duplex link to a store-and-forward switch. A packet traverses its sender's
protocol stack, waits for the sender's link, is transmitted, is whole at the switch, waits there
for the receiver's port, is transmitted again and traverses the receiver's stack. A multicast goes
up once and the switch copies it to every other port. Links are FIFO. Nothing is lost unless the
queues are bounded: then what does not fit is dropped, as it comes (drop-tail).
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.sim.network.base import Links, Network, Stage, Waiting, check_latency
from semcast.sim.scheduler import Scheduler


@final
class SwitchedLan(Network):
    """By default, 100 Mb/s duplex ports and 10 µs for each traversal of a stack."""

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: i64,
        bandwidth_bits_s: float = 100_000_000,
        stack_ns: i64 = 10_000,
        queue_bytes_max: i64 = 0,  # of each link, up or down; 0: no bound
    ) -> None:
        super().__init__(scheduler, nodes)
        if queue_bytes_max < 0:
            raise ConfigError(f"queue_bytes_max is {queue_bytes_max}; use 0 for no bound, or more")
        self.dropped: i64 = 0  # packets before the switch, copies after it
        self._stack_ns: Final[i64] = check_latency(stack_ns)
        self._queue_bytes_max: Final[i64] = queue_bytes_max
        # The link of a node up to the switch, and its port down from there.
        self._up: Final = Links(nodes, bandwidth_bits_s)
        self._down: Final = Links(nodes, bandwidth_bits_s)
        self._going_up: Final = Waiting(scheduler, _Switch(self))
        self._going_down: Final = Waiting(scheduler, self.exit)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        ready_ns = self.scheduler.now_ns + self._stack_ns
        if self._fits(self._up, from_node, ready_ns, size_bytes):
            at_switch_ns = self._up.transmit(from_node, ready_ns, size_bytes)
            self._going_up.hold(at_switch_ns, from_node, to_node, size_bytes, packet)

    def forward(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """The switch has the whole packet now: put it, or its copies, on the way down."""
        self._send_each(from_node, to_node, size_bytes, packet)

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:  # noqa: ARG002
        """When the sender's link is idle. It is the same link to all, so `to_node` is not used."""
        return max(self.scheduler.now_ns, self._up.free_ns(from_node))

    def set_bandwidth(self, node: i64, rate_bits_s: float) -> None:
        """Give the link of one node another speed, up and down (SRM figure 1c)."""
        self._check_node(node)
        self._up.set_rate(node, rate_bits_s)
        self._down.set_rate(node, rate_bits_s)

    def _send_one(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        now_ns = self.scheduler.now_ns
        if self._fits(self._down, to_node, now_ns, size_bytes):
            left_ns = self._down.transmit(to_node, now_ns, size_bytes)
            arrival_ns = left_ns + self._stack_ns + self._delays_ns[to_node]
            self._going_down.hold(arrival_ns, from_node, to_node, size_bytes, packet)

    def _fits(self, links: Links, link: i64, now_ns: i64, size_bytes: i64) -> bool:
        if self._queue_bytes_max == 0:
            return True
        if links.backlog_bytes(link, now_ns) + size_bytes <= self._queue_bytes_max:
            return True
        self.dropped += 1
        return False


@final
class _Switch(Stage):
    """The switch, at which packets from the senders' links arrive."""

    def __init__(self, lan: SwitchedLan) -> None:
        self._lan: Final = lan

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._lan.forward(from_node, to_node, size_bytes, packet)
