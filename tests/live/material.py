"""What the tests of the transport share: members on loopback, and waiting for what they get."""

import errno
import itertools
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from semcast.live.sockets.address import SocketAddress
from semcast.live.sockets.offload import Ancillary
from semcast.live.sockets.transport import Address, Transport, TransportSettings, open_transport

DEADLINE_S = 60.0
_numbers = itertools.count()


def new_group_id() -> int:
    """Of this process and this moment alone: others may run the same tests on this machine."""
    return (os.getpid() << 20) + next(_numbers)


@dataclass
class Way:
    """One way to reach the others, and the members that use it."""

    kind: str
    ipv6: bool
    group_id: int = field(default_factory=new_group_id)
    members: list[Transport] = field(default_factory=list)

    @property
    def version(self) -> str:
        return "ipv6" if self.ipv6 else "ipv4"

    def join(self, **changed: object) -> Transport:
        """Another member; with unicast, everybody knows everybody, as with multicast."""
        given: dict[str, object] = {
            "transport": self.kind,
            "ipv6": self.ipv6,
            "interface": "lo",
            "group_id": self.group_id,
        }
        member = open_transport(TransportSettings(**{**given, **changed}))  # type: ignore[arg-type]
        self.members.append(member)
        for one in self.members:
            one.peers = [other.address for other in self.members]
        return member

    def close(self) -> None:
        for member in self.members:
            member.close()


@contextmanager
def closing(way: Way) -> Iterator[Way]:
    try:
        yield way
    finally:
        way.close()


def collect(member: Transport, count: int) -> list[tuple[bytes, Address]]:
    """Receive until there are this many datagrams; fails after a deadline."""
    got: list[tuple[bytes, Address]] = []
    give_up_s = time.monotonic() + DEADLINE_S
    while len(got) < count:
        left_s = give_up_s - time.monotonic()
        assert left_s > 0, f"{len(got)} of {count} datagrams arrived"
        select.select(member.filenos(), [], [], left_s)
        got += member.receive()
    return got


def payloads(got: list[tuple[bytes, Address]]) -> list[bytes]:
    return [datagram for datagram, _ in got]


def wait_ready(member: Transport) -> None:
    """Until there is something on each of its sockets; fails after a deadline.

    On loopback what was sent has nearly always arrived when the call that sent it returns; but not
    on a machine whose network is so busy that the kernel puts it off.
    """
    give_up_s = time.monotonic() + DEADLINE_S
    for fileno in member.filenos():
        left_s = max(0.0, give_up_s - time.monotonic())
        assert select.select([fileno], [], [], left_s)[0], "nothing arrived"


def quiet(member: Transport) -> bool:
    """Nothing waits."""
    return not select.select(member.filenos(), [], [], 0)[0] and member.receive() == []


class NarrowSocket:
    """Sends through a real socket, but answers with an error whenever the script says so."""

    def __init__(self, real: socket.socket, script: list[int]) -> None:
        self.real = real
        self.script = script  # one entry per call: 0, or the number of an error

    def _next(self) -> None:
        number = self.script.pop(0) if self.script else 0
        if number:
            raise OSError(number, os.strerror(number))

    def send(self, datagram: bytes) -> int:
        self._next()
        return self.real.send(datagram)

    def sendto(self, datagram: bytes, target: SocketAddress) -> int:
        self._next()
        return self.real.sendto(datagram, target)

    def sendmsg(
        self, run: list[bytes], ancillary: Ancillary, flags: int, target: SocketAddress | None
    ) -> int:
        self._next()
        return self.real.sendmsg(run, ancillary, flags, target)


def narrow(member: Transport, script: list[int]) -> None:
    """Put the script between a member and its sockets."""
    member._sending = NarrowSocket(member._sending, script)  # type: ignore[assignment]
    for to, sock in member._connected.items():
        member._connected[to] = NarrowSocket(sock, script)  # type: ignore[assignment]


FULL = [errno.EAGAIN, errno.ENOBUFS]
