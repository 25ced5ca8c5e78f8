"""One simulated process: a member, its seal, its timer, and the two applications around it.

Datagrams and events of the scheduler go in, datagrams go out to the network. The process only
translates: whatever a member wants is done as the live world would do it. The receiving
application takes a message and is then busy for its delay, or takes everything at once; the
sending one multicasts what its traffic says, and when the window is full it stores its message the
instant there is room and makes the next a gap later (SRM §5.1).
"""

from collections.abc import Callable, Iterator
from typing import Final

from mypy_extensions import i64

from semcast.errors import RemoteProtocolError, UnknownGroupError, WindowFullError
from semcast.ids import NEVER, SEQ_MAX, Source
from semcast.protocol.machine import Machine
from semcast.protocol.propagation.federated import as_federated
from semcast.sim.closed_ports import ClosedPorts
from semcast.sim.life import Life
from semcast.sim.network import Network, Receiver
from semcast.sim.scheduler import NO_EVENT, Handler
from semcast.sim.traffic import Item

# What UDP (8), IP (20) and Ethernet (18) add to a datagram on the wire.
WIRE_BYTES: Final = 46

# What an event of a process is about; the rest of its argument is the incarnation that it is for.
_TIMER: Final = 0
_TAKEN: Final = 1
_DUE: Final = 2
_REFUSED: Final = 3
_KINDS: Final = 4
# A process hears so soon that nobody listens where it has sent something.
_REFUSED_NS: Final = 200_000


class Socket(Receiver):
    """Where the network reaches a process."""

    def __init__(self, process: "Process") -> None:
        super().__init__()
        self._process: Final = process

    def arrive(self, from_node: i64, packet: bytes) -> None:  # noqa: ARG002
        """Take a datagram. Its header says who sent it, whatever node it came from."""
        self._process.arrive(packet)


class Bell(Handler):
    """Asks the host model of a node to do what is due."""

    def __init__(self, network: Network, node: int, handler: int) -> None:
        super().__init__()
        self._network: Final = network
        self._node: Final = node
        self._handler: Final = handler

    def fire(self, argument: i64) -> None:
        """Queue the work that is due; it is done when the processor is free."""
        self._network.execute(self._node, self._handler, argument)


class Process(Handler):
    """One process, through all its lives."""

    def __init__(
        self,
        node: int,
        network: Network,
        items: Iterator[Item],
        until_ns: int,
        socket_datagrams: int,
        works: bool,
    ) -> None:
        """`works`: work costs time, so a host model decides when it is done."""
        super().__init__()
        self.node: Final = node
        self.socket: Final = Socket(self)
        self.delay_ns = 0
        # Called when this process leaves and may go; when it is in; and when the others have gone
        # on without it, so that it has to come back in another life.
        self.on_settled: Callable[[int], None] | None = None
        self.on_inside: Callable[[int], None] | None = None
        self.on_out: Callable[[int], None] | None = None
        self.life: Life | None = None
        # What comes back of what this process sends, if anything may; and what has.
        self.ports: ClosedPorts | None = None
        self._refused: list[int] = []
        self._network: Final = network
        self._scheduler: Final = network.scheduler
        self._items: Final = items
        self._until_ns: Final = until_ns
        self._socket_datagrams: Final = socket_datagrams
        # The handler that timers call: this process or, if its processor may be busy, a bell that
        # queues the work.
        self._called: int = self._scheduler.add(self)
        if works:
            self._called = self._scheduler.add(Bell(network, node, self._called))
        self._paused = False
        # While paused: datagrams that arrived and events that were due.
        self._arrived: list[bytes] = []
        self._missed: list[int] = []
        self._timer_from_ns = 0
        # The next message to send, until its time has come.
        self._next: Item | None = None

    # -- lives -------------------------------------------------------------------------------------

    def start(self, life: Life, timer_from_ns: int) -> None:
        """Begin a life. Its timer waits for the given time, since processes start unevenly."""
        self.life = life
        self._timer_from_ns = timer_from_ns
        self._prepare(life)
        self._settle(life)

    def crash(self) -> None:
        """The end of a life; what it had sent is still on its way."""
        assert self.life is not None
        self._scheduler.cancel(self.life.timer)
        self.life.tally.end()
        self.life = None
        self._refused.clear()
        self.resume()

    def begin_leaving(self, silent: Callable[[], list[int]]) -> None:
        """Leave as soon as that is allowed; `silent` says which members are not heard of."""
        life = self.life
        assert life is not None
        life.silent = silent
        life.blocked = None
        if life.member is not None:
            life.member.begin_leaving(self._scheduler.now_ns)
        if not self._paused:
            self._settle(life)

    def retire(self) -> Machine | None:
        """The end of a life that others have gone on without. Its application takes what waits; in
        a federation the next life has it.
        """
        assert self.life is not None
        member = self.life.member
        if member is not None and as_federated(member) is None:
            member.take(member.deliverable(), self._scheduler.now_ns)
            member.take_own()
        self.crash()
        return member

    def say_goodbye(self) -> None:
        """Tell the others that this process goes, in its last datagrams."""
        life = self.life
        if life is not None and life.member is not None:
            life.member.goodbye(self._scheduler.now_ns)
            self._send(life)

    def pause(self) -> None:
        """Stand still; what is due happens when the process goes on."""
        self._paused = True

    def resume(self) -> None:
        """Go on: first what is in the socket, then what was due, in order."""
        self._paused = False
        arrived, self._arrived = self._arrived, []
        missed, self._missed = self._missed, []
        for datagram in arrived:
            self.arrive(datagram)
        for argument in missed:
            self.fire(argument)

    def slow_down(self, delay_ns: int) -> None:
        """From the next message on the application takes so long for each, or no time at all."""
        self.delay_ns = delay_ns

    def remove(self, sender: int) -> None:
        """A perfect failure detector says that a member is gone for good."""
        if self.life is not None and self.life.member is not None:
            self.life.member.remove(sender, self._scheduler.now_ns)
            self._settle(self.life)

    def meet(self, source: Source) -> None:
        """Another process shows that it is there."""
        if self.life is not None and self.life.member is not None and not self._paused:
            self.life.member.met(source, self._scheduler.now_ns)
            self._settle(self.life)

    def want(self, groups: tuple[str, ...]) -> None:
        """A site of a federation wants to be in these groups from now on."""
        life = self.life
        site = None if life is None else as_federated(life.member)
        if life is not None and site is not None:
            site.want(groups, self._scheduler.now_ns)
            self._settle(life)

    def at_rest(self) -> bool:
        """Whether nothing is left to deliver or to keep.

        Messages that wait for an earlier one do not count. If a living member had that one, it
        would still hold it; if none has, the sender took it along, and they wait for ever. Messages
        that came to a member after it began to leave do not count either: it delivers none of them.
        """
        if self.life is None:
            return True
        member = self.life.member
        if member is None or not member.inside:
            return False
        stats = member.stats()
        # What stands is still to come, or a snapshot: until then the application gets nothing.
        held = member.deliverable() + stats["retained_held"] + stats.get("state_pending", 0)
        return held == 0 and not self._paused and not self.life.busy

    @property
    def leaving(self) -> bool:
        """Whether it waits until it may leave."""
        return self.life is not None and self.life.silent is not None

    # -- events ------------------------------------------------------------------------------------

    def arrive(self, datagram: bytes) -> None:
        """The network brings a datagram."""
        life = self.life
        if life is None:
            return
        if self._paused:
            if len(self._arrived) < self._socket_datagrams:
                self._arrived.append(datagram)
            else:
                life.tally.refused_datagram()
            return
        try:
            opened = life.opener.open(datagram)
            life.tally.received_datagram()
            life.receive(opened.frames, opened.header.source, self._scheduler.now_ns)
        except RemoteProtocolError:
            life.tally.refused_datagram()
        self._settle(life)

    def fire(self, argument: i64) -> None:
        """A timer, the end of the application's work on a message, or the time to send."""
        life = self.life
        if life is None or life.me.incarnation != argument // _KINDS:
            return
        if self._paused:
            self._missed.append(argument)
            return
        kind = argument % _KINDS
        if kind == _TIMER:
            life.timer_ns, life.timer = NEVER, NO_EVENT
            life.on_timer(self._scheduler.now_ns)
        elif kind == _TAKEN:
            life.busy = False
        elif kind == _REFUSED:
            self._hear_refused(life)
        else:
            life.blocked = self._next
        self._settle(life)

    def _hear_refused(self, life: Life) -> None:
        """The system says that nobody listens where something was sent."""
        refused, self._refused = self._refused, []
        for sender in refused:
            if life.member is not None:
                life.member.refused(sender, self._scheduler.now_ns)

    # -- applications ------------------------------------------------------------------------------

    def _settle(self, life: Life) -> None:
        """After something happened to the member: let applications, network and timer follow."""
        while self._take(life) or self._multicast(life):
            pass
        self._send(life)
        self._set_timer(life)
        if not life.entered and life.inside:
            life.entered = True
            if self.on_inside is not None:
                self.on_inside(self.node)
        if life.silent is not None:
            self._try_to_leave(life, life.silent())
        elif life.out and self.on_out is not None:
            self.on_out(self.node)

    def _send(self, life: Life) -> None:
        for outgoing in life.datagrams(self._scheduler.now_ns):
            datagram = life.sealer.seal(outgoing.frames)
            life.tally.sent_datagram(len(datagram))
            size_bytes = len(datagram) + WIRE_BYTES
            self._network.send(self.node, outgoing.to, size_bytes, datagram)
            if self.ports is not None and self.ports.comes_back(outgoing.to):
                self._refused.append(outgoing.to)
                self._at(life, self._scheduler.now_ns + _REFUSED_NS, _REFUSED)

    def _try_to_leave(self, life: Life, silent: list[int]) -> None:
        member = life.member
        # A process that is not in, or not any more, need not ask anybody.
        free = member is None or member.out
        if free or (member is not None and member.may_leave(silent, self._scheduler.now_ns)):
            assert self.on_settled is not None, "the world hears of it"
            self.on_settled(self.node)

    def _take(self, life: Life) -> bool:
        """The receiving application takes what it can, when it has undone what it must."""
        member = life.member
        if member is None or life.busy:
            return False
        undoes = life.undo(1 if self.delay_ns else SEQ_MAX)
        if not undoes and member.deliverable() == 0:
            return False
        now_ns = self._scheduler.now_ns
        if self.delay_ns == 0:
            member.take(member.deliverable(), now_ns)
            return True
        if not undoes:
            member.take(1, now_ns)
        life.busy = True
        self._at(life, now_ns + self.delay_ns, _TAKEN)
        return True

    def _multicast(self, life: Life) -> bool:
        """The sending application sends what is due, if there is room."""
        item, now_ns = life.blocked, self._scheduler.now_ns
        if item is None or now_ns >= self._until_ns or life.silent is not None:
            return False
        if life.member is None or not life.inside or life.out:
            return False
        try:
            self._offer(life.member, item, now_ns)
        except WindowFullError:
            return False
        except UnknownGroupError:
            # Its last member has gone: nobody is there to send to.
            pass
        life.blocked = None
        self._prepare(life)
        return True

    def _offer(self, member: Machine, item: Item, now_ns: int) -> None:
        """Let a message be sent, to its group if there are several."""
        site = as_federated(member)
        if site is not None:
            site.multicast_to(item.group, bytes(item.size_bytes), item.replaces, now_ns)
        else:
            member.multicast(bytes(item.size_bytes), item.replaces, now_ns)

    def _prepare(self, life: Life) -> None:
        """Plan the next message, if the traffic has one: it is due a gap from now."""
        self._next = next(self._items, None)
        if self._next is not None:
            due_ns = self._scheduler.now_ns + self._next.gap_ns
            if due_ns < self._until_ns:
                self._at(life, due_ns, _DUE)

    def _set_timer(self, life: Life) -> None:
        wanted_ns = max(life.next_deadline_ns(), self._timer_from_ns)
        if wanted_ns < life.timer_ns:
            self._scheduler.cancel(life.timer)
            life.timer_ns = max(wanted_ns, self._scheduler.now_ns)
            life.timer = self._at(life, life.timer_ns, _TIMER)

    def _at(self, life: Life, time_ns: int, kind: int) -> int:
        argument = int(life.me.incarnation) * _KINDS + kind
        return self._scheduler.at(time_ns, self._called, argument)
