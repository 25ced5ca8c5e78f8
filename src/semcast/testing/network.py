"""A network in memory: groups without sockets, threads or waiting, for your own tests.

    network = FakeNetwork(seed=1, loss=0.1)
    a, b = (network.join("quotes", name=name, size=2, insecure=True) for name in "ab")
    network.run(lambda: a.complete and b.complete)
    a.send(b"101.25", replaces="AAPL")
    network.run(lambda: b.waiting > 0)
    assert b.receive_many()[0].payload == b"101.25"

Members and the datagrams that they exchange are real; only time and the network are not. Time goes
on in `run` alone, and the same seed gives the same run every time.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Final, Unpack

from semcast.errors import WindowFullError
from semcast.ids import Source
from semcast.live.arguments import Settings
from semcast.live.config import configure
from semcast.live.meeting.joining import new_session
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address
from semcast.live.sockets.datagrams import Transport
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.federated import as_federated
from semcast.wire.message import Message

PORT: Final = 7400
START_NS: Final = 1_700_000_000_000_000_000
SEEN_MAX: Final = 10_000
# The clock moves at least so far in each step, so that a run always ends.
_STEP_NS: Final = 1_000


class FakeNetwork:
    """One network, everything on it, and its clock."""

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        delay_ms: tuple[float, float] = (0.1, 1.0),
        multicast: bool = True,
    ) -> None:
        """Each datagram has a delay of its own from this range, so they overtake each other."""
        self.loss = loss
        self.duplication = duplication
        self.delay_ms = delay_ms
        self.multicast: Final = multicast
        self.now_ns = START_NS
        # What was sent lately: from, to (None: everybody) and the datagram.
        self.seen: Final[deque[tuple[Address, Address | None, bytes]]] = deque(maxlen=SEEN_MAX)
        # Hosts whose cable is pulled: nothing goes in or out.
        self.unplugged: Final[set[str]] = set()
        # Pairs of hosts of which the second hears nothing from the first.
        self.severed: Final[set[tuple[str, str]]] = set()
        self.members: Final[list[FakeMember]] = []
        self._seed: Final = seed
        self._rng: Final = random.Random(f"{seed}/network")
        self._hosts = 0
        self._sent = 0
        self._flying: Final[list[tuple[int, int, Address, Address, bytes]]] = []
        self._transports: Final[dict[Address, FakeTransport]] = {}

    def transport(self, address: Address | None = None) -> "FakeTransport":
        """A host of its own on this network."""
        self._hosts += 1
        address = address or (f"10.0.{self._hosts >> 8}.{self._hosts & 255}", PORT)
        self._transports[address] = transport = FakeTransport(self, address)
        return transport

    def join(
        self,
        group: str,
        *,
        observer: Callable[[Source], Observer | None] = lambda _: None,
        incarnation: int = 0,
        address: Address | None = None,
        ahead_ns: int = 0,
        contacts: Sequence[Address] | None = None,
        **settings: Unpack[Settings],
    ) -> "FakeMember":
        """A member that begins to look for the others, with the settings of `GroupConfig`.

        On a network without multicast it gets everybody who is there already as a peer, or these
        `contacts`. Its
        incarnation is the time, as in the real world, unless another is given. Its address is a new
        one unless one is given, such as that of a former life. Its clock is `ahead_ns` ahead of the
        network's; a negative number means behind.
        """
        config = configure({"group": group} | settings)
        seeds = [] if self.multicast else list(self._transports)
        if contacts is not None:
            seeds = list(contacts)
        transport = self.transport(address)
        rng = random.Random(f"{self._seed}/member/{self._hosts}")
        life = incarnation or self.now_ns + ahead_ns
        session = new_session(config, transport, seeds, life, rng, observer)
        member = FakeMember(self, session, ahead_ns)
        self.members.append(member)
        return member

    # -- time --------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool] = lambda: False, seconds: float = 60.0) -> bool:
        """Let time go on until `until` holds. False if it does not within these virtual seconds."""
        end_ns = self.now_ns + round(seconds * 1e9)
        while not until():
            if self.now_ns >= end_ns:
                return False
            self._step(end_ns)
        return True

    def _step(self, end_ns: int) -> None:
        due_ns = [member.next_deadline_ns() for member in self.members if member.running]
        if self._flying:
            due_ns.append(self._flying[0][0])
        next_ns = min(due_ns, default=end_ns)
        self.now_ns = min(max(next_ns, self.now_ns + _STEP_NS), end_ns)
        self._deliver()
        for member in self.members:
            if member.running:
                member.turn()

    def _deliver(self) -> None:
        """Let arrive what is due."""
        while self._flying and self._flying[0][0] <= self.now_ns:
            _, _, source, to, datagram = heapq.heappop(self._flying)
            if to in self._transports:
                self._transports[to].arrive(datagram, source)

    # -- datagrams ---------------------------------------------------------------------------------

    def carry(self, source: Address, to: Address | None, datagram: bytes) -> None:
        """Carry a datagram to one address or to everybody, including its sender."""
        self.seen.append((source, to, datagram))
        targets = list(self._transports) if to is None else [to]
        for target in targets:
            if self.unplugged & {source[0], target[0]} and source != target:
                continue
            if (source[0], target[0]) in self.severed:
                continue
            copies = 2 if self._rng.random() < self.duplication else 1
            for _ in range(copies):
                if self._rng.random() >= self.loss:
                    self.inject(source, target, datagram)

    def inject(self, source: Address, to: Address, datagram: bytes) -> None:
        """Let a datagram arrive in a moment, as if it came from `source`."""
        low, high = self.delay_ms
        delay_ns = round(self._rng.uniform(low, high) * 1e6)
        self._sent += 1
        heapq.heappush(self._flying, (self.now_ns + delay_ns, self._sent, source, to, datagram))

    def unplug(self, transport: "FakeTransport") -> None:
        """Forget a host: nothing reaches it any more."""
        self._transports.pop(transport.address, None)


class FakeTransport(Transport):
    """What a session takes for its sockets."""

    def __init__(self, network: FakeNetwork, address: Address) -> None:
        # The base class is not initialised, because it would open sockets.
        self.multicast = network.multicast
        self.address = address
        self.path_mtu_bytes = 1500
        self.receive_buffer_bytes = 8 << 20
        self.warnings = ()
        self.peers = []
        self.segmenting = False
        self.counters = dict.fromkeys(
            ("datagrams_in", "datagrams_out", "bytes_in", "bytes_out", "send_full", "overflowed"), 0
        )
        # How many datagrams may still be sent before the buffer is full; -1: any number.
        self.room = -1
        self._network: Final = network
        self._inbox: Final[deque[tuple[bytes, Address]]] = deque()
        self._inbox_bytes = 0

    def filenos(self) -> tuple[int, ...]:
        """None: there is nothing to wait on."""
        return ()

    @property
    def waiting(self) -> int:
        """How many datagrams have arrived and were not received yet."""
        return len(self._inbox)

    def arrive(self, datagram: bytes, source: Address) -> None:
        """Take a datagram from the network; it is lost if the buffer is full."""
        if self._inbox_bytes + len(datagram) > self.receive_buffer_bytes:
            self.counters["overflowed"] += 1
            return
        self._inbox_bytes += len(datagram)
        self._inbox.append((datagram, source))

    def receive(
        self,
        datagrams_max: int = 64,
        ready: Container[int] | None = None,  # noqa: ARG002
        calm: bool = False,
    ) -> list[tuple[bytes, Address]]:
        """What has arrived."""
        datagrams_max = 1 if calm else datagrams_max
        got = [self._inbox.popleft() for _ in range(min(datagrams_max, len(self._inbox)))]
        size_bytes = sum(len(datagram) for datagram, _ in got)
        self._inbox_bytes -= size_bytes
        self.counters["datagrams_in"] += len(got)
        self.counters["bytes_in"] += size_bytes
        return got

    def send_all(self, datagrams: list[bytes]) -> int:
        """To everybody, or to every peer where there is no multicast."""
        taken = self._admit(datagrams)
        for datagram in datagrams[:taken]:
            for to in [None] if self.multicast else self.peers:
                self._network.carry(self.address, to, datagram)
        return taken

    def send(self, to: Address, datagrams: list[bytes]) -> int:
        """To one address."""
        taken = self._admit(datagrams)
        for datagram in datagrams[:taken]:
            self._network.carry(self.address, to, datagram)
        return taken

    def _admit(self, datagrams: list[bytes]) -> int:
        taken = len(datagrams) if self.room < 0 else min(self.room, len(datagrams))
        if self.room >= 0:
            self.room -= taken
        self.counters["send_full"] += taken < len(datagrams)
        self.counters["datagrams_out"] += taken
        self.counters["bytes_out"] += sum(map(len, datagrams[:taken]))
        return taken

    def close(self) -> None:
        """Nothing arrives here any more."""
        self._network.unplug(self)


class FakeMember:
    """A member on a fake network. Its calls never wait: time goes on in `FakeNetwork.run`."""

    def __init__(self, network: FakeNetwork, session: Session, ahead_ns: int = 0) -> None:
        self.session: Final = session
        self.running = True
        self._network: Final = network
        self._ahead_ns: Final = ahead_ns

    @property
    def now_ns(self) -> int:
        """The time by this member's clock."""
        return self._network.now_ns + self._ahead_ns

    def next_deadline_ns(self) -> int:
        """When it wants its next turn, by the network's clock."""
        return self.session.next_deadline_ns() - self._ahead_ns

    @property
    def complete(self) -> bool:
        """Whether this member is in: all others were found, or those who are in let it in."""
        return self.session.inside

    @property
    def waiting(self) -> int:
        """How many messages can be received now."""
        session = self.session
        waiting = 0 if session.member is None else session.member.deliverable()
        return waiting + len(session.leftover)

    @property
    def stable(self) -> bool:
        """Whether every member has everything that this one sent."""
        return self.session.member is not None and self.session.member.all_stable()

    def can_send(self) -> bool:
        """Whether there is room to send now."""
        session = self.session
        return session.member is not None and not session.seeking and session.member.can_multicast()

    def send(self, payload: bytes, replaces: Replaces = None, to: str = "") -> int:
        """Send, in a federation `to` a group; WindowFullError if there is no room now. Returns the
        message's number.
        """
        if self.session.ended is not None:
            raise self.session.ended
        if self.session.member is None:
            raise WindowFullError("the group is not complete yet; run the network on", 0, 0)
        if self.session.seeking:
            raise WindowFullError("this member was put out, and is on its way back", 0, 0)
        member = self.session.member
        site = as_federated(member)
        if site is not None:
            if not site.inside:
                raise WindowFullError("this site is not in; run the network on", 0, 0)
            seq = site.multicast_to(to, payload, replaces, self.now_ns).seq
        else:
            seq = member.multicast(payload, replaces, self.now_ns).seq
        self.session.flush(self.now_ns)
        return seq

    def receive_many(self, messages_max: int = 1 << 20) -> list[Message]:
        """The messages that wait, first those that a former life of this member has left."""
        session = self.session
        if session.member is None:
            return []
        taken = [
            session.leftover.popleft() for _ in range(min(len(session.leftover), messages_max))
        ]
        return taken + session.member.take(messages_max - len(taken), self.now_ns)

    def turn(self) -> None:
        """Do what an engine does in a turn."""
        now_ns = self.now_ns
        while self.session.on_readable(now_ns) > 0:
            pass
        if self.session.next_deadline_ns() <= now_ns:
            self.session.on_timer(now_ns)
        self.session.flush(now_ns)

    def leave(self) -> None:
        """Leave the group: the others learn of it."""
        self.session.leave(self.now_ns)
        self.crash()

    def crash(self) -> None:
        """Stop at once, without a word to the others."""
        self.running = False
        self.session.close()
