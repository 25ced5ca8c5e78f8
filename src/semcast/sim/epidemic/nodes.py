"""The members of a simulated gossip group, driven: events of the scheduler and packets in, packets
to the network out. Applications take what they get at once. Nothing is decided here.

Packets are the frames of datagrams, without header and seal: the network says who sent them.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.machine import Machine
from semcast.sim.network.base import Network, Receiver
from semcast.sim.scheduler import NO_EVENT, Handler
from semcast.wire.message import Message

# What UDP (8), IP (20) and Ethernet (18) add to a datagram, and its own header and seal.
_AROUND_BYTES: Final = 46 + 60


@mypyc_attr(allow_interpreted_subclasses=True)
class Application:
    """What one application does with the messages that it takes; this one, nothing."""

    def took(self, message: Message, now_ns: i64) -> None:
        """It took this one."""


@final
class Node(Receiver):
    """One process, which may not have begun yet, or have ended."""

    def __init__(
        self, number: i64, network: Network, sources: list[Source], copy_bytes: i64
    ) -> None:
        """`sources`: the life that each node is in, by number."""
        self._number: Final[i64] = number
        self.member: Machine | None = None
        # Whoever takes its messages, in the life that it is in or was in last.
        self.application: Application | None = None
        self._network: Final = network
        self._scheduler: Final = network.scheduler
        self._sources: Final = sources
        self._copy_bytes: Final[i64] = copy_bytes
        self._timers: i64 = -1
        self._timer: i64 = NO_EVENT
        self._timer_ns: i64 = NEVER
        self.refused: i64 = 0

    def begin(self, member: Machine, timers: i64, application: Application | None) -> None:
        """Begin a life; `timers` is the handler that calls `due`."""
        self.member = member
        self.application = application
        self._timers = timers
        self.settle()

    def end(self) -> None:
        """The process is gone."""
        self.member = None
        self._scheduler.cancel(self._timer)
        self._timer_ns = NEVER
        self._timer = NO_EVENT

    def arrive(self, from_node: i64, packet: bytes) -> None:
        member = self.member
        if member is None:
            return
        try:
            member.receive(packet, self._sources[from_node], self._scheduler.now_ns)
        except RemoteProtocolError:
            self.refused += 1
        self.settle()

    def multicast(self, payload: bytes, replaces: Replaces) -> None:
        """The application sends, if it is there and does not leave."""
        member = self.member
        if member is not None and not member.leaving:
            member.multicast(payload, replaces, self._scheduler.now_ns)
            self.settle()

    def due(self) -> None:
        """A timer went off."""
        self._timer_ns = NEVER
        self._timer = NO_EVENT
        if self.member is not None:
            self.member.on_timer(self._scheduler.now_ns)
            self.settle()

    def settle(self) -> None:
        """After something happened to the member: let application, network and timer follow."""
        member = self.member
        if member is None:
            return
        now_ns = self._scheduler.now_ns
        message = member.take_one(now_ns)
        while message is not None:
            if self.application is not None:
                self.application.took(message, now_ns)
            message = member.take_one(now_ns)
        for outgoing in member.datagrams(now_ns):
            size: i64 = self._copy_bytes or len(outgoing.frames) + _AROUND_BYTES
            self._network.send(self._number, outgoing.to, size, outgoing.frames)
        wanted_ns: i64 = member.next_deadline_ns()
        if wanted_ns < self._timer_ns:
            self._scheduler.cancel(self._timer)
            self._timer_ns = max(wanted_ns, now_ns)
            self._timer = self._scheduler.at(self._timer_ns, self._timers, self._number)


@final
class Timers(Handler):
    """Wakes nodes; the argument of an event is the number of its node."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes: Final = nodes

    def fire(self, argument: i64) -> None:
        self._nodes[argument].due()
