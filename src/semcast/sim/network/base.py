"""What all network models share: packets in at `send`, copies out at each receiver's `arrive`.

A model decides when a copy of a packet reaches a node. From there it passes the layers that were
put on the network (faults), the last one added first, and is delivered. Nodes are numbered 0 to
n - 1. A packet is bytes that nobody here looks at; its size is given separately, because headers
take room on the wire too, and because some simulations send no contents at all.

Times are integer nanoseconds, and speeds are kept as picoseconds a byte, so that compiled and
interpreted runs agree to the nanosecond.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import EVERYBODY
from semcast.sim.scheduler import Handler, Scheduler

PACKET_BYTES_MAX: Final = 1 << 20
# 4.4 seconds a byte. The slowest transmission of the largest packet fits in 62 bits.
_BYTE_PS_MAX: Final = 1 << 42
_DELAY_NS_MAX: Final = 1 << 60
_END: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver:
    """A node's end of the network. This one drops whatever arrives."""

    def arrive(self, from_node: i64, packet: bytes) -> None:
        """A copy of a packet is here."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Stage:
    """A point that each copy of a packet passes on its way from a model to its node."""

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """A copy is here: pass it on, now, later or never."""
        raise NotImplementedError(f"{type(self).__name__} must define take")


@mypyc_attr(allow_interpreted_subclasses=True)
class Layer(Stage):
    """A stage that was put on a network: what it lets pass goes to `above`."""

    def __init__(self) -> None:
        self.above: Stage = Stage()

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:  # noqa: ARG002
        """Called once, by the network that this layer was put on."""
        self.above = above


@final
class Delivery(Stage):
    """The last stage: hands each copy to its receiver, or to the host model that took its place."""

    def __init__(self, nodes: i64) -> None:
        self.receivers: Final = [Receiver() for _ in range(nodes)]
        self.instead: Stage | None = None
        self.arrived: i64 = 0

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if self.instead is not None:
            self.instead.take(from_node, to_node, size_bytes, packet)
            return
        self.arrived += 1
        self.receivers[to_node].arrive(from_node, packet)


@final
class Exit(Stage):
    """Where copies leave a model: on to the layer that was added last."""

    def __init__(self, first: Stage) -> None:
        self.first = first

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self.first.take(from_node, to_node, size_bytes, packet)


@final
class Copies:
    """A table of copies under way, without an object for each: a place is an integer."""

    def __init__(self) -> None:
        self.packets: Final[list[bytes]] = []
        # Place p is [4p] from, [4p + 1] to, [4p + 2] size, [4p + 3] where it is, if a model needs
        # that. A free place has the next free one in [4p].
        self.fields = vec[i64]()
        self.held: i64 = 0
        self._free: i64 = _END

    def put(
        self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes, where: i64 = 0
    ) -> i64:
        place = self._free
        if place == _END:
            place = len(self.packets)
            self.packets.append(packet)
            fields = self.fields
            for value in (_END, 0, 0, 0):
                fields = append(fields, value)
            self.fields = fields
        fields = self.fields
        self._free = fields[4 * place]
        self.packets[place] = packet
        fields[4 * place] = from_node
        fields[4 * place + 1] = to_node
        fields[4 * place + 2] = size_bytes
        fields[4 * place + 3] = where
        self.held += 1
        return place

    def drop(self, place: i64) -> None:
        self.packets[place] = b""
        self.fields[4 * place] = self._free
        self._free = place
        self.held -= 1


@final
class Waiting(Handler):
    """Copies that go on to a stage when their time has come."""

    def __init__(self, scheduler: Scheduler, stage: Stage) -> None:
        self._scheduler: Final = scheduler
        self._stage: Final = stage
        self._number: Final[i64] = scheduler.add(self)
        self._copies: Final = Copies()

    def hold(
        self, until_ns: i64, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes
    ) -> None:
        place = self._copies.put(from_node, to_node, size_bytes, packet)
        self._scheduler.at(until_ns, self._number, place)

    def fire(self, argument: i64) -> None:
        copies = self._copies
        packet = copies.packets[argument]
        from_node = copies.fields[4 * argument]
        to_node = copies.fields[4 * argument + 1]
        size_bytes = copies.fields[4 * argument + 2]
        copies.drop(argument)
        self._stage.take(from_node, to_node, size_bytes, packet)


@final
class Links:
    """FIFO transmitters: each sends one packet at a time, in the order in which they came."""

    def __init__(self, links: i64, rate_bits_s: float) -> None:
        self._byte_ps = vec[i64]([byte_ps(rate_bits_s)] * links)
        # INV-FIFO: a link is busy with what it was given up to here, and idle from then on.
        self._free_ns = vec[i64]([0] * links)

    def set_rate(self, link: i64, rate_bits_s: float) -> None:
        """What is already queued keeps its times."""
        self._byte_ps[link] = byte_ps(rate_bits_s)

    def transmit(self, link: i64, from_ns: i64, size_bytes: i64) -> i64:
        """Queue a packet that is ready at `from_ns`. Returns when its last bit has left."""
        started_ns = max(from_ns, self._free_ns[link])
        left_ns = started_ns + (size_bytes * self._byte_ps[link] + 500) // 1000
        self._free_ns[link] = left_ns
        return left_ns

    def free_ns(self, link: i64) -> i64:
        return self._free_ns[link]

    def backlog_bytes(self, link: i64, now_ns: i64) -> i64:
        """How much waits, including what is left of the packet on the wire."""
        backlog_ns = max(0, self._free_ns[link] - now_ns)
        return (backlog_ns * 1000 + self._byte_ps[link] - 1) // self._byte_ps[link]


@mypyc_attr(allow_interpreted_subclasses=True)
class Network:
    """Base of the models and of the host models, which wrap one and are one themselves."""

    def __init__(self, scheduler: Scheduler, nodes: i64) -> None:
        if nodes < 1:
            raise ConfigError(f"a network of {nodes} nodes; it needs at least 1")
        self.scheduler: Final = scheduler
        self.nodes: Final[i64] = nodes
        self.sent: i64 = 0  # packets, a multicast being one
        self.sent_bytes: i64 = 0
        self.delivery: Final = Delivery(nodes)
        self.exit: Final = Exit(self.delivery)
        self._delays_ns = vec[i64]([0] * nodes)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """Send to a node, or to EVERYBODY but the sender, from now on."""
        raise NotImplementedError(f"{type(self).__name__} must define send")

    def attach(self, node: i64, receiver: Receiver) -> None:
        """From now on this receiver gets what reaches `node`; a plain `Receiver()` drops it."""
        self._check_node(node)
        self.delivery.receivers[node] = receiver

    def add_fault(self, layer: Layer) -> None:
        """Put a layer between the model and the layers added before."""
        layer.join(self.scheduler, self.nodes, self.exit.first)
        self.exit.first = layer

    def set_delay(self, node: i64, delay_ns: i64) -> None:
        """Whatever leaves for `node` from now on arrives so much later (SRM figure 1b). If it is
        reduced while packets are under way, later packets overtake them.
        """
        self._check_node(node)
        if delay_ns < 0 or delay_ns > _DELAY_NS_MAX:
            raise ConfigError(f"a delay of {delay_ns} ns; it must be from 0 to {_DELAY_NS_MAX}")
        self._delays_ns[node] = delay_ns

    def set_bandwidth(self, node: i64, rate_bits_s: float) -> None:
        """Give the link of one node another speed, both ways (SRM figure 1c)."""
        raise ConfigError(
            f"{type(self).__name__} has no link of its own for node {node} to run at "
            f"{rate_bits_s} bit/s; use a model that has"
        )

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:  # noqa: ARG002
        """When the first link on the way is idle: what is sent earlier has to wait."""
        return self.scheduler.now_ns

    def execute(self, node: i64, handler: i64, argument: i64) -> None:
        """Run a handler as work of a node: now, or when a host model has its processor free."""
        self._check_node(node)
        self.scheduler.at(self.scheduler.now_ns, handler, argument)

    def _send_one(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """For models that use `_send_each`: send to one node."""
        raise NotImplementedError(f"{type(self).__name__} must define _send_one")

    def _send_each(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """Send to a node, or to each node but the sender, in order."""
        if to_node != EVERYBODY:
            self._send_one(from_node, to_node, size_bytes, packet)
            return
        for node in range(self.nodes):
            if node != from_node:
                self._send_one(from_node, node, size_bytes, packet)

    def _admit(self, from_node: i64, to_node: i64, size_bytes: i64) -> None:
        """Refuse what cannot be sent, and count the rest."""
        self._check_node(from_node)
        if to_node != EVERYBODY:
            self._check_node(to_node)
            if to_node == from_node:
                raise LocalProtocolError(
                    f"node {from_node} sends to itself; a network carries packets between nodes"
                )
        if size_bytes < 0 or size_bytes > PACKET_BYTES_MAX:
            raise LocalProtocolError(
                f"a packet of {size_bytes} bytes; it must be from 0 to {PACKET_BYTES_MAX}"
            )
        self.sent += 1
        self.sent_bytes += size_bytes

    def _check_node(self, node: i64) -> None:
        if node < 0 or node >= self.nodes:
            raise LocalProtocolError(
                f"there is no node {node}: nodes are numbered 0 to {self.nodes - 1}"
            )


def byte_ps(rate_bits_s: float) -> i64:
    """How long a byte is on a wire of this speed."""
    if rate_bits_s > 0 and 8e12 / rate_bits_s <= _BYTE_PS_MAX:
        duration_ps = round(8e12 / rate_bits_s)
        if duration_ps >= 1:
            return duration_ps
    raise ConfigError(
        f"a bandwidth of {rate_bits_s} bit/s; it must be from {8e12 / _BYTE_PS_MAX:.2g} to 8e12"
    )


def check_latency(latency_ns: i64) -> i64:
    if latency_ns < 0 or latency_ns > _DELAY_NS_MAX:
        raise ConfigError(f"a latency of {latency_ns} ns; it must be from 0 to {_DELAY_NS_MAX}")
    return latency_ns
