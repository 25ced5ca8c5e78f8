"""Host models: what a node's processor does to the time of its sends, receptions and other work.

A host model wraps a network and is one itself, so that a world which knows `Network` need not know
whether there is a host model. Without one, work takes no time. Each node has one processor, which
does one piece of work at a time, in the order in which they came:

- `CostHosts`: sending and receiving cost what a function of the size says (STAB §5.1).
- `MeasuredHosts`: the handlers are really run, timed, and the node is busy for as long; what they
  send leaves afterwards (the centralized simulation of SRM §5.4).

Faults belong to the network: a host model passes them on to the network below it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY
from semcast.sim.network.base import Layer, Network, Stage, Waiting
from semcast.sim.scheduler import Handler

_COST_MAX: Final = 1 << 40
_NOBODY: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Cost:
    """What sending or receiving costs a processor. This one costs nothing."""

    def of(self, size_bytes: i64) -> i64:  # noqa: ARG002
        """Nanoseconds for a packet of this size."""
        return 0


@final
class LinearCost(Cost):
    """A fixed cost for each packet and one for each byte."""

    def __init__(self, packet_ns: i64, byte_ps: i64) -> None:
        if not 0 <= packet_ns <= _COST_MAX or not 0 <= byte_ps <= _COST_MAX:
            raise ConfigError(
                f"a cost of {packet_ns} ns a packet and {byte_ps} ps a byte; "
                f"each must be from 0 to {_COST_MAX}"
            )
        self._packet_ns: Final[i64] = packet_ns
        self._byte_ps: Final[i64] = byte_ps

    def of(self, size_bytes: i64) -> i64:
        return self._packet_ns + (self._byte_ps * size_bytes + 500) // 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class Hosts(Network):
    """Base of the host models: it passes everything but the work on to the network below."""

    def __init__(self, below: Network) -> None:
        super().__init__(below.scheduler, below.nodes)
        self.below: Final = below

    def add_fault(self, layer: Layer) -> None:
        self.below.add_fault(layer)

    def set_delay(self, node: i64, delay_ns: i64) -> None:
        self.below.set_delay(node, delay_ns)

    def set_bandwidth(self, node: i64, rate_bits_s: float) -> None:
        self.below.set_bandwidth(node, rate_bits_s)

    def ready_ns(self, from_node: i64, to_node: i64) -> i64:
        return self.below.ready_ns(from_node, to_node)


@final
class CostHosts(Hosts):
    """Processors that are busy with sends and receptions as cost functions say."""

    def __init__(
        self,
        below: Network,
        send_cost: Cost,
        receive_cost: Cost,
        loopback: bool = False,  # the sender of a multicast receives it too, at the usual cost
    ) -> None:
        super().__init__(below)
        self._send_cost: Final = send_cost
        self._receive_cost: Final = receive_cost
        self._loopback: Final = loopback
        # INV-CPU: a processor is busy up to here with what it was given, and idle from then on.
        self._free_ns = vec[i64]([0] * below.nodes)
        self._sending: Final = Waiting(self.scheduler, _Sent(self))
        self._receiving: Final = Waiting(self.scheduler, self.exit)
        below.delivery.instead = _Arrived(self)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        done_ns = self._busy_until(from_node, self._send_cost.of(size_bytes))
        self._sending.hold(done_ns, from_node, to_node, size_bytes, packet)

    def execute(self, node: i64, handler: i64, argument: i64) -> None:
        """Other work costs nothing here, but it waits for its turn."""
        self._check_node(node)
        self.scheduler.at(self._busy_until(node, 0), handler, argument)

    def free_ns(self, node: i64) -> i64:
        """When the processor of a node is idle."""
        return max(self.scheduler.now_ns, self._free_ns[node])

    def sent_by_host(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """The sender's processor is done with a packet."""
        self.below.send(from_node, to_node, size_bytes, packet)
        if self._loopback and to_node == EVERYBODY:
            self.arrived(from_node, from_node, size_bytes, packet)

    def arrived(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        """A copy is at the receiver's host: its processor has to take it in."""
        done_ns = self._busy_until(to_node, self._receive_cost.of(size_bytes))
        self._receiving.hold(done_ns, from_node, to_node, size_bytes, packet)

    def _busy_until(self, node: i64, cost_ns: i64) -> i64:
        done_ns = max(self.scheduler.now_ns, self._free_ns[node]) + cost_ns
        self._free_ns[node] = done_ns
        return done_ns


@final
class _Sent(Stage):
    def __init__(self, hosts: CostHosts) -> None:
        self._hosts: Final = hosts

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._hosts.sent_by_host(from_node, to_node, size_bytes, packet)


@final
class _Arrived(Stage):
    def __init__(self, hosts: CostHosts) -> None:
        self._hosts: Final = hosts

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._hosts.arrived(from_node, to_node, size_bytes, packet)


@final
class MeasuredHosts(Hosts):
    """Processors as fast as the one that runs this (SRM §5.4).

    What arrives at a node, and what is given to `execute`, is run when the node's processor is
    free and timed with `clock`, a function that gives nanoseconds (`time.perf_counter_ns`, or
    `time.process_time_ns` where other programs run too). The node is then busy for as long in
    simulated time, and what was sent meanwhile leaves when it is done. A send from anywhere else
    leaves at once. `wake_ns` is the scheduling latency of the operating system, paid when work
    finds the processor idle (SRM §6.1).

    **Runs are not deterministic**: the same seed gives other times, hence other orders, each time.
    """

    def __init__(self, below: Network, clock: Callable[[], int], wake_ns: i64 = 0) -> None:
        super().__init__(below)
        if wake_ns < 0:
            raise ConfigError(f"wake_ns is {wake_ns}; it must be 0 or more")
        self._clock: Final = clock
        self._wake_ns: Final[i64] = wake_ns
        self._running: i64 = _NOBODY
        self._queues: Final[list[deque[_Job]]] = [deque() for _ in range(below.nodes)]
        self._outboxes: Final[list[list[_Job]]] = [[] for _ in range(below.nodes)]
        # INV-BUSY: a node is busy from when work finds it idle until `done` finds none left; while
        # it is, one of these two events is pending or running for it.
        self._busy: Final = [False] * below.nodes
        self._start: Final[i64] = self.scheduler.add(_Start(self))
        self._done: Final[i64] = self.scheduler.add(_Done(self))
        below.delivery.instead = _ArrivedMeasured(self)

    def send(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._admit(from_node, to_node, size_bytes)
        if from_node == self._running:
            self._outboxes[from_node].append(_Job(to_node, size_bytes, packet))
        else:
            self.below.send(from_node, to_node, size_bytes, packet)

    def execute(self, node: i64, handler: i64, argument: i64) -> None:
        self._check_node(node)
        self.queue(node, _Job(handler, argument, None))

    def queue(self, node: i64, job: "_Job") -> None:
        """Give a job to the processor of a node."""
        self._queues[node].append(job)
        if not self._busy[node]:
            self._busy[node] = True
            self.scheduler.at(self.scheduler.now_ns + self._wake_ns, self._start, node)

    def start(self, node: i64) -> None:
        """The processor of a node takes the next job."""
        job = self._queues[node].popleft()
        self._running = node
        started_ns: i64 = self._clock()
        try:
            if job.packet is None:
                self.scheduler.handler(job.subject).fire(job.number)
            else:
                self.delivery.arrived += 1
                self.delivery.receivers[node].arrive(job.subject, job.packet)
        finally:
            elapsed_ns: i64 = max(0, self._clock() - started_ns)
            self._running = _NOBODY
            self.scheduler.at(self.scheduler.now_ns + elapsed_ns, self._done, node)

    def done(self, node: i64) -> None:
        """The processor of a node has done its job: its packets leave, and the next job starts."""
        outbox = self._outboxes[node]
        self._outboxes[node] = []
        for job in outbox:
            assert job.packet is not None
            self.below.send(node, job.subject, job.number, job.packet)
        if self._queues[node]:
            self.start(node)
        else:
            self._busy[node] = False


@final
@mypyc_attr(acyclic=True)
class _Job:
    """Work that waits: an arrival (from whom, size, packet), a packet to send (to whom, size,
    packet), or a handler with its argument and no packet.
    """

    def __init__(self, subject: i64, number: i64, packet: bytes | None) -> None:
        self.subject: Final[i64] = subject
        self.number: Final[i64] = number
        self.packet: Final = packet


@final
class _Start(Handler):
    def __init__(self, hosts: MeasuredHosts) -> None:
        self._hosts: Final = hosts

    def fire(self, argument: i64) -> None:
        self._hosts.start(argument)


@final
class _Done(Handler):
    def __init__(self, hosts: MeasuredHosts) -> None:
        self._hosts: Final = hosts

    def fire(self, argument: i64) -> None:
        self._hosts.done(argument)


@final
class _ArrivedMeasured(Stage):
    def __init__(self, hosts: MeasuredHosts) -> None:
        self._hosts: Final = hosts

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        self._hosts.queue(to_node, _Job(from_node, size_bytes, packet))
