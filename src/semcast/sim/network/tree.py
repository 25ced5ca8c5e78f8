"""A tree of routers, one member on each node: the network of STAB §5.1, read literally.

Links between a node and its parent are FIFO in each direction. A message spends 1 ms in each
router that it passes *through*, pure latency, not paid at its source or destination; a node's own
member gets a message as soon as it is off the wire. A multicast is copied by the routers along the
tree. The time that hosts take is a host model's business (`sim.host`).

It counts as the paper does (STAB §5.2): `hops` are messages on all hops; `queue_max` is the longest
output queue of any directed link, including the message on the wire.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY
from semcast.sim.network.base import Copies, Links, Network, Waiting, check_latency
from semcast.sim.network.routes import Routes
from semcast.sim.scheduler import Handler, Scheduler

NO_PARENT: Final = -1
_NO_LINK: Final = -1


@final
class RouterTree(Network):
    """Node 0 is the root, and every other node v hangs on an earlier one, parents[v]."""

    def __init__(
        self,
        scheduler: Scheduler,
        parents: list[int],  # one for each node; the root has NO_PARENT
        bandwidth_bits_s: float = 100_000_000,
        router_ns: i64 = 1_000_000,
    ) -> None:
        super().__init__(scheduler, len(parents))
        _check_parents(parents)
        self.hops: i64 = 0
        self.queue_max: i64 = 0
        self._router_ns: Final[i64] = check_latency(router_ns)
        self._routes: Final = Routes(parents)
        self._links: Final = Links(2 * self.nodes, bandwidth_bits_s)
        self._queued = vec[i64]([0] * (2 * len(parents)))
        self._copies: Final = Copies()
        self._off_wire: Final[i64] = scheduler.add(_OffWire(self))
        self._routed: Final[i64] = scheduler.add(_Routed(self))
        self._late: Final = Waiting(scheduler, self.exit)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        self._pass_on(from_node, _NO_LINK, from_node, to_node, size_bytes, packet)

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:
        """When the first link on the way is idle; for EVERYBODY, when all the sender's are."""
        ready_ns = self.scheduler.now_ns
        if to_node != EVERYBODY:
            return max(ready_ns, self._links.free_ns(self._routes.link_towards(from_node, to_node)))
        for link in self._links_of(from_node):
            ready_ns = max(ready_ns, self._links.free_ns(link))
        return ready_ns

    def set_bandwidth(self, node: i64, rate_bits_s: float) -> None:
        """Give the link between a node and its parent another speed, both ways."""
        self._check_node(node)
        if node == 0:
            raise ConfigError("node 0 is the root and has no parent; name the node below the link")
        self._links.set_rate(2 * node, rate_bits_s)
        self._links.set_rate(2 * node + 1, rate_bits_s)

    # -- events --------------------------------------------------------------------------------

    def off_wire(self, place: i64) -> None:
        """A copy is at the end of the link it was on: deliver it, pass it on, or both."""
        fields = self._copies.fields
        from_node = fields[4 * place]
        to_node = fields[4 * place + 1]
        size_bytes = fields[4 * place + 2]
        link = fields[4 * place + 3]
        packet = self._copies.packets[place]
        self._queued[link] -= 1
        node = self._routes.end_of(link)
        # A message for this node goes no further, nor does a multicast from a leaf's only link.
        if to_node == node or (to_node == EVERYBODY and not self._routes.children[node]):
            self._copies.drop(place)
        else:
            self.scheduler.at(self.scheduler.now_ns + self._router_ns, self._routed, place)
        if to_node in (node, EVERYBODY):
            self._deliver(from_node, node, size_bytes, packet)

    def routed(self, place: i64) -> None:
        """A copy has passed through the router at the end of the link it came by."""
        fields = self._copies.fields
        from_node = fields[4 * place]
        to_node = fields[4 * place + 1]
        size_bytes = fields[4 * place + 2]
        link = fields[4 * place + 3]
        packet = self._copies.packets[place]
        self._copies.drop(place)
        self._pass_on(self._routes.end_of(link), link, from_node, to_node, size_bytes, packet)

    def _deliver(self, from_node: i64, node: i64, size_bytes: i64, packet: bytes) -> None:
        delay_ns = self._delays_ns[node]
        if delay_ns == 0:
            self.exit.take(from_node, node, size_bytes, packet)
        else:
            until_ns = self.scheduler.now_ns + delay_ns
            self._late.hold(until_ns, from_node, node, size_bytes, packet)

    def _pass_on(
        self, node: i64, came_by: i64, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes
    ) -> None:
        """Put a message on the link that leads to its destination, or on all that lead onward."""
        if to_node != EVERYBODY:
            link = self._routes.link_towards(node, to_node)
            self._put_on(link, from_node, to_node, size_bytes, packet)
            return
        for onward in self._links_of(node):
            # The two directions of a link differ in the last bit only.
            if onward != came_by ^ 1:
                self._put_on(onward, from_node, to_node, size_bytes, packet)

    def _put_on(
        self, link: i64, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes
    ) -> None:
        place = self._copies.put(from_node, to_node, size_bytes, packet, link)
        self.hops += 1
        self._queued[link] += 1
        self.queue_max = max(self.queue_max, self._queued[link])
        left_ns = self._links.transmit(link, self.scheduler.now_ns, size_bytes)
        self.scheduler.at(left_ns, self._off_wire, place)

    def _links_of(self, node: i64) -> list[int]:
        """The links that lead away from a node."""
        links = [2 * child + 1 for child in self._routes.children[node]]
        if node != 0:
            links.append(2 * node)
        return links


@final
class _OffWire(Handler):
    def __init__(self, tree: RouterTree) -> None:
        self._tree: Final = tree

    def fire(self, argument: i64) -> None:
        self._tree.off_wire(argument)


@final
class _Routed(Handler):
    def __init__(self, tree: RouterTree) -> None:
        self._tree: Final = tree

    def fire(self, argument: i64) -> None:
        self._tree.routed(argument)


def tree_parents(branching: int, height: int, leaf_degree: int) -> list[int]:
    """The tree of STAB §5.1: complete down to depth height - 1, where each node has leaf_degree
    leaves. Numbered from the root down, level by level.
    """
    if branching < 1 or height < 1 or not 1 <= leaf_degree <= branching:
        raise ConfigError(
            f"a tree of branching {branching}, height {height} and leaf degree {leaf_degree}; "
            "all must be at least 1, and the leaf degree at most the branching"
        )
    parents = [NO_PARENT]
    level = [0]
    for depth in range(1, height + 1):
        degree = branching if depth < height else leaf_degree
        above = level
        level = list(range(len(parents), len(parents) + degree * len(above)))
        parents += [node for node in above for _ in range(degree)]
    return parents


def _check_parents(parents: list[int]) -> None:
    if parents[0] != NO_PARENT:
        raise ConfigError(f"node 0 is the root: its parent must be {NO_PARENT}, not {parents[0]}")
    for node in range(1, len(parents)):
        if not 0 <= parents[node] < node:
            raise ConfigError(
                f"the parent of node {node} is {parents[node]}; it must be an earlier node"
            )
