"""Two members, one behind an engine whose sockets a thread can wait on, for tests of turns.

`Script` is a time of the test's own for them: it goes on only where a thread sleeps, looks at the
sockets or lets others go first, so that how busy the machine is makes no difference.
"""

import math
import os
import random
import select
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import replace

import pytest
from tests.live.fake_world import World

from semcast.live.host.engine import Engine
from semcast.live.host.host import Host
from semcast.live.host.waker import Waker
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address
from semcast.testing import FakeMember
from semcast.testing.network import START_NS, FakeNetwork, FakeTransport
from semcast.wire.keys import group_id
from semcast.wire.note import is_note
from semcast.wire.opener import Opener

# Messages of a's, when it sends many.
MANY = [b"%d" % number for number in range(20)]


class HeardTransport(FakeTransport):
    """One that a thread can wait on."""

    def __init__(self, network: FakeNetwork, address: Address) -> None:
        super().__init__(network, address)
        self.waker = Waker()
        # Whether each read was for one datagram only.
        self.calm: list[bool] = []

    def filenos(self) -> tuple[int, ...]:
        return (self.waker.fileno(),)

    def close(self) -> None:
        super().close()
        self.waker.close()

    def receive(
        self, datagrams_max: int = 64, ready: Container[int] | None = None, calm: bool = False
    ) -> list[tuple[bytes, Address]]:
        self.calm.append(calm)
        got = super().receive(datagrams_max, ready, calm)
        if not self._inbox:
            self.waker.clear()
        return got


class Pair:
    """Members a and b; b has an engine, without a thread of its own unless it is started.

    The real time is years after that in which they met, so that everything is due.
    """

    def __init__(self, host: Host | None = None, **settings: int) -> None:
        """At a host of its own, or at one that other pairs share."""
        self.world = World(names="ab")
        network = self.world.network
        self.a = self.world.join("a")
        self.heard = HeardTransport(network, network.transport().address)
        network._transports[self.heard.address] = self.heard
        config = self.a.session.config
        session = Session(
            replace(config, name="b", **settings),  # type: ignore[arg-type]
            self.heard,
            [],
            network.now_ns,
            random.Random("b"),
        )
        self.b = FakeMember(network, session)
        network.members.append(self.b)
        assert network.run(lambda: self.a.complete and self.b.complete)
        if host is not None:
            host.claims += 1
        self.engine = Engine(session, host)

    def sent(self, send: Callable[[], object]) -> list[tuple[bytes, Address]]:
        """What a sends in there, and where from."""
        seen = self.world.network.seen
        seen.clear()
        send()
        return [(datagram, source) for source, _, datagram in seen]

    def arrive(self, datagrams: list[tuple[bytes, Address]]) -> None:
        """At b, now."""
        for datagram, source in datagrams:
            self.heard.arrive(datagram, source)
        self.heard.waker.wake()

    def pass_on(self, send: Callable[[], object]) -> None:
        """What a sends in there arrives at b, now."""
        self.arrive(self.sent(send))

    def say_hello(self) -> None:
        self.a.session.say_hello(self.world.network.now_ns)

    def hello_and(self, payload: bytes) -> None:
        """A hello of a's and a message, to arrive in one go."""
        self.say_hello()
        self.a.send(payload)

    def send_many(self) -> None:
        """Messages of a's, in a datagram each."""
        for payload in MANY:
            self.a.send(payload)

    def heard_of_a_ns(self) -> int:
        """When b read a hello of a's for the last time."""
        return self.b.session.roster.peers[self.a.session.me.sender].heard_ns

    def kinds(self, by: FakeMember) -> list[str]:
        """Whether each datagram that was seen of this member is a note or something else."""
        session = by.session
        opener = Opener(group_id(session.config.group), session.keys)
        sent = [
            datagram
            for source, _, datagram in self.world.network.seen
            if source == session.transport.address
        ]
        return ["note" if is_note(opener.open(one).frames) else "frames" for one in sent]

    def close(self) -> None:
        self.engine.stop()
        self.heard.close()


# -- a time of its own -----------------------------------------------------------------------------

LOOK_NS = 1_000
MS = 1_000_000


class Script:
    """Clocks and sleeps of this process, and what arrives when; made before the pair it is for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        # How often anybody stayed awake and let others go first; and of each arrival whether
        # somebody was awake just then.
        self.let_others = 0
        self.seen_awake: list[bool] = []
        # Whether descriptors are larger than `select` knows them.
        self.high = False
        self._to_come: deque[tuple[int, Callable[[], None]]] = deque()
        self._select, self._epoll = select.select, select.epoll
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "time_ns", lambda: START_NS + self.now_ns)
        monkeypatch.setattr(os, "sched_yield", self._let_others)
        monkeypatch.setattr(select, "select", self._doze)
        monkeypatch.setattr(select, "epoll", lambda: ScriptedPoll(self, self._epoll()))

    def comes(self, at_ns: int, arrive: Callable[[], None]) -> None:
        """Say what happens then, after all that was said before."""
        self._to_come.append((at_ns, arrive))

    def sleep(self, wait_ns: int) -> None:
        """Until so much later, or until something comes."""
        until_ns = self.now_ns + wait_ns
        if self._to_come and self._to_come[0][0] <= until_ns:
            at_ns, arrive = self._to_come.popleft()
            self.now_ns = max(self.now_ns, at_ns)
            self.seen_awake.append(wait_ns <= LOOK_NS)
            arrive()
        else:
            self.now_ns = until_ns

    def _let_others(self) -> None:
        self.let_others += 1
        self.sleep(LOOK_NS)

    def _doze(
        self, reading: list[int], _writing: list[int], _failing: list[int], wait_s: float
    ) -> tuple[list[int], list[int], list[int]]:
        ready = self._select(reading, [], [], 0)[0]
        if not ready:
            self.sleep(round(wait_s * 1e9))
            ready = self._select(reading, [], [], 0)[0]
        return ready, [], []


class ScriptedPoll:
    """An epoll of real descriptors whose waits take scripted time, in whole milliseconds."""

    def __init__(self, script: Script, real: select.epoll) -> None:
        self._script = script
        self._real = real
        self.register = real.register
        self.unregister = real.unregister
        self.close = real.close

    def fileno(self) -> int:
        return self._real.fileno() + (1024 if self._script.high else 0)

    @property
    def closed(self) -> bool:
        return self._real.closed

    def poll(self, wait_s: float, events_max: int) -> list[tuple[int, int]]:
        ready = self._real.poll(0, events_max)
        if not ready:
            self._script.sleep(math.ceil(wait_s * 1000) * MS or LOOK_NS)
            ready = self._real.poll(0, events_max)
        return ready
