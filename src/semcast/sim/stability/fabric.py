"""The network and the hosts of STAB §5.1: numbered messages in, arrivals out, everything counted.

A tree with a host and a router on each node. The defaults are the literal reading: links are FIFO
in each direction; a message spends 1 ms in each router that it passes *through*, pure latency, not
paid at its source or destination; each host has one processor for sends and receptions, and what
it routes does not use it; a multicast costs its sender one send, is copied by the routers along
the tree, and is received by everybody, the sender included. The alternatives are fields of
`Reading`. Links may also have delays and lose messages, for wide-area networks.

It does what `network.RouterTree` under `host.CostHosts` does, to the nanosecond (a test compares
them), but carries numbers instead of bytes, takes trees numbered in any order and counts more.
Knows nothing of protocols: a message is a number, and its kind is for the counts only.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import EVERYBODY, Randomness
from semcast.sim.host import Cost
from semcast.sim.network.base import Links
from semcast.sim.network.routes import Routes
from semcast.sim.scheduler import Handler, Scheduler
from semcast.sim.stability.reading import Reading

KINDS_MAX: Final = 8
_NO_LINK: Final = -1  # of a copy that has not left its source
_END: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Arrivals:
    """Gets the messages that arrive. This one ignores them."""

    def arrive(self, node: i64, message: i64) -> None:
        """The processor of `node` has taken this message in."""

    def forget(self, message: i64) -> None:
        """No copy of this message is left anywhere; its number may be used again."""


@final
class Fabric:
    """Routers, links and hosts of one tree; node `root` is its root."""

    def __init__(
        self,
        scheduler: Scheduler,
        parents: list[int],  # -1 for the root
        send_cost: Cost,
        receive_cost: Cost,
        reading: Reading,
        bandwidth_bits_s: float = 100_000_000,
    ) -> None:
        self.scheduler: Final = scheduler
        self.nodes: Final[i64] = len(parents)
        self.arrivals = Arrivals()
        self._reading: Final = reading
        self._send_cost: Final = send_cost
        self._receive_cost: Final = receive_cost
        self._routes: Final = Routes(parents)
        self._links: Final = Links(2 * self.nodes, bandwidth_bits_s)
        self._delays_ns = vec[i64]([0] * len(parents))
        self._loss = 0.0
        self._random: Randomness | None = None
        # INV-CPU: until when the processors of node v are busy: [2v] with sends, or with all work
        # if it is the only one, [2v + 1] with receptions.
        self._free_ns = vec[i64]([0] * (2 * len(parents)))
        self._router_free_ns = vec[i64]([0] * len(parents))
        # Copies under way: [3p] message, [3p + 1] to, [3p + 2] the link it came by or is on. A free
        # place has the next free one in [3p].
        self._copies = vec[i64]()
        self._free: i64 = _END
        # Messages: from whom, size, kind, and how many copies of it are left.
        self._senders = vec[i64]()
        self._sizes = vec[i64]()
        self._kinds = vec[i64]()
        self._left = vec[i64]()
        self._init_counts(len(parents))
        self._sent: Final[i64] = scheduler.add(_Sent(self))
        self._off_wire: Final[i64] = scheduler.add(_OffWire(self))
        self._at_node: Final[i64] = scheduler.add(_AtNode(self))
        self._routed: Final[i64] = scheduler.add(_Routed(self))
        self._handed: Final[i64] = scheduler.add(_Handed(self))
        self._taken: Final[i64] = scheduler.add(_Taken(self))

    def _init_counts(self, nodes: int) -> None:
        self.hops: i64 = 0  # messages on all hops (STAB §5.2)
        self.hop_bytes: i64 = 0
        self.lost: i64 = 0
        self.link_queue_max: i64 = 0  # of a directed link, with the message on the wire
        self.host_queue_max: i64 = 0  # arrived at a host and not taken in, with the one in service
        self.kind_hops = vec[i64]([0] * KINDS_MAX)
        self.sends = vec[i64]([0] * nodes)  # by node; a multicast is one
        self.receptions = vec[i64]([0] * nodes)
        self._queued = vec[i64]([0] * (2 * nodes))
        self._waiting = vec[i64]([0] * nodes)

    # -- in ------------------------------------------------------------------------------------

    def set_delay(self, node: i64, delay_ns: i64) -> None:
        """How long a message is under way on the link between a node and its parent."""
        if delay_ns < 0:
            raise ConfigError(f"a delay of {delay_ns} ns; it must be 0 or more")
        self._delays_ns[node] = delay_ns

    def set_rate(self, node: i64, rate_bits_s: float) -> None:
        """The speed of the link between a node and its parent, both ways."""
        self._links.set_rate(2 * node, rate_bits_s)
        self._links.set_rate(2 * node + 1, rate_bits_s)

    def set_loss(self, loss: float, random: Randomness) -> None:
        """Each hop loses this share of what it carries."""
        if not 0 <= loss < 1:
            raise ConfigError(f"a loss of {loss:g}; it goes from 0 to below 1")
        self._loss = loss
        self._random = random if loss > 0 else None

    def send(self, from_node: i64, to_node: i64, message: i64, size_bytes: i64, kind: i64) -> None:
        """Send to a node or to EVERYBODY; `message` must not be in use (see `Arrivals.forget`)."""
        if from_node == to_node:
            raise LocalProtocolError(f"node {from_node} sends to itself")
        self._register(message, from_node, size_bytes, kind)
        # The message is held while it is sent, so that it is not forgotten before it has left.
        self._left[message] = 1
        if to_node != EVERYBODY or self._reading.multicast:
            self._work_on(from_node, to_node, message)
        else:
            if self._reading.loopback:
                self._take_in(self._put(message, from_node, _NO_LINK))
            for node in range(self.nodes):
                if node != from_node:
                    self._work_on(from_node, node, message)
        self._release(message)

    # -- events --------------------------------------------------------------------------------

    def sent(self, place: i64) -> None:
        """The sender's processor is done with a message."""
        message = self._copies[3 * place]
        node = self._senders[message]
        if self._reading.loopback and self._copies[3 * place + 1] == EVERYBODY:
            self._take_in(self._put(message, node, _NO_LINK))
        if self._reading.router_at_ends:
            self.scheduler.at(self._router_ns(node), self._routed, place)
        else:
            self.routed(place)

    def off_wire(self, place: i64) -> None:
        """The last bit of a copy has left its link's transmitter."""
        link = self._copies[3 * place + 2]
        self._queued[link] -= 1
        delay_ns = self._delays_ns[link >> 1]
        if self._random is not None and self._random.random() < self._loss:
            self.lost += 1
            self._drop(place)
        elif delay_ns > 0:
            self.scheduler.at(self.scheduler.now_ns + delay_ns, self._at_node, place)
        else:
            self.at_node(place)

    def at_node(self, place: i64) -> None:
        """A copy is at the end of its link: it is for this node, goes on, or both."""
        to_node = self._copies[3 * place + 1]
        link = self._copies[3 * place + 2]
        node = self._routes.end_of(link)
        if to_node == node:
            self._hand_over(node, place)
            return
        if to_node == EVERYBODY:
            # A copy is for this node; from a leaf there is nowhere else to go.
            if not self._routes.children[node]:
                self._copies[3 * place + 1] = node
                self._hand_over(node, place)
                return
            own = self._put(self._copies[3 * place], node, link)
            self._pass_through(node, place)
            self._hand_over(node, own)
            return
        self._pass_through(node, place)

    def routed(self, place: i64) -> None:
        """A copy has passed through a router: put it on its next link, or a copy on each."""
        message = self._copies[3 * place]
        to_node = self._copies[3 * place + 1]
        link = self._copies[3 * place + 2]
        node = self._senders[message] if link == _NO_LINK else self._routes.end_of(link)
        if to_node != EVERYBODY:
            self._put_on(self._routes.link_towards(node, to_node), place)
            return
        for child in self._routes.children[node]:
            if link != 2 * child:  # it came from there
                self._put_on(2 * child + 1, self._put(message, EVERYBODY, _NO_LINK))
        if self._routes.parents[node] >= 0 and link != 2 * node + 1:
            self._put_on(2 * node, self._put(message, EVERYBODY, _NO_LINK))
        self._drop(place)

    def handed(self, place: i64) -> None:
        """The router of its destination has handed a copy to the host."""
        self._take_in(place)

    def taken(self, place: i64) -> None:
        """The receiver's processor is done with a copy."""
        message = self._copies[3 * place]
        node = self._copies[3 * place + 1]
        self._waiting[node] -= 1
        self.receptions[node] += 1
        self.arrivals.arrive(node, message)
        self._drop(place)

    # -- hosts and routers ---------------------------------------------------------------------

    def _work_on(self, from_node: i64, to_node: i64, message: i64) -> None:
        """The sender's processor has a message to send."""
        self.sends[from_node] += 1
        done_ns = self._busy_until(2 * from_node, self._send_cost.of(self._sizes[message]))
        self.scheduler.at(done_ns, self._sent, self._put(message, to_node, _NO_LINK))

    def _take_in(self, place: i64) -> None:
        """The receiver's processor has a copy to take in."""
        node = self._copies[3 * place + 1]
        self._waiting[node] += 1
        self.host_queue_max = max(self.host_queue_max, self._waiting[node])
        processor = 2 * node + (1 if self._reading.processors == 2 else 0)
        size_bytes = self._sizes[self._copies[3 * place]]
        done_ns = self._busy_until(processor, self._receive_cost.of(size_bytes))
        self.scheduler.at(done_ns, self._taken, place)

    def _hand_over(self, node: i64, place: i64) -> None:
        if self._reading.router_at_ends:
            self.scheduler.at(self._router_ns(node), self._handed, place)
        else:
            self._take_in(place)

    def _pass_through(self, node: i64, place: i64) -> None:
        if self._reading.host_routes:
            size_bytes = self._sizes[self._copies[3 * place]]
            cost_ns = self._receive_cost.of(size_bytes) + self._send_cost.of(size_bytes)
            done_ns = self._busy_until(2 * node, cost_ns)
            self.scheduler.at(done_ns + self._reading.router_ns, self._routed, place)
        else:
            self.scheduler.at(self._router_ns(node), self._routed, place)

    def _router_ns(self, node: i64) -> i64:
        """When the router of a node is done with what it gets now."""
        started_ns = self.scheduler.now_ns
        if self._reading.router_serial:
            started_ns = max(started_ns, self._router_free_ns[node])
            self._router_free_ns[node] = started_ns + self._reading.router_ns
        return started_ns + self._reading.router_ns

    def _busy_until(self, processor: i64, cost_ns: i64) -> i64:
        done_ns = max(self.scheduler.now_ns, self._free_ns[processor]) + cost_ns
        self._free_ns[processor] = done_ns
        return done_ns

    # -- copies and links ----------------------------------------------------------------------

    def _register(self, message: i64, from_node: i64, size_bytes: i64, kind: i64) -> None:
        while len(self._senders) <= message:
            self._senders = append(self._senders, 0)
            self._sizes = append(self._sizes, 0)
            self._kinds = append(self._kinds, 0)
            self._left = append(self._left, 0)
        if self._left[message] != 0:
            raise LocalProtocolError(f"message {message} is still under way")
        self._senders[message] = from_node
        self._sizes[message] = size_bytes
        self._kinds[message] = kind

    def _put(self, message: i64, to_node: i64, link: i64) -> i64:
        """A place for one more copy of a message."""
        self._left[message] += 1
        place = self._free
        if place == _END:
            place = len(self._copies) // 3
            copies = self._copies
            for value in (message, to_node, link):
                copies = append(copies, value)
            self._copies = copies
            return place
        self._free = self._copies[3 * place]
        self._copies[3 * place] = message
        self._copies[3 * place + 1] = to_node
        self._copies[3 * place + 2] = link
        return place

    def _drop(self, place: i64) -> None:
        message = self._copies[3 * place]
        self._copies[3 * place] = self._free
        self._free = place
        self._release(message)

    def _release(self, message: i64) -> None:
        self._left[message] -= 1
        if self._left[message] == 0:
            self.arrivals.forget(message)

    def _put_on(self, link: i64, place: i64) -> None:
        message = self._copies[3 * place]
        size_bytes = self._sizes[message]
        self._copies[3 * place + 2] = link
        self.hops += 1
        self.hop_bytes += size_bytes
        self.kind_hops[self._kinds[message]] += 1
        self._queued[link] += 1
        self.link_queue_max = max(self.link_queue_max, self._queued[link])
        left_ns = self._links.transmit(link, self.scheduler.now_ns, size_bytes)
        self.scheduler.at(left_ns, self._off_wire, place)


@final
class _Sent(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.sent(argument)


@final
class _OffWire(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.off_wire(argument)


@final
class _AtNode(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.at_node(argument)


@final
class _Routed(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.routed(argument)


@final
class _Handed(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.handed(argument)


@final
class _Taken(Handler):
    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Final = fabric

    def fire(self, argument: i64) -> None:
        self._fabric.taken(argument)
