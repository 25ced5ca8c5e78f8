"""Datagrams through sockets that are open already: lists of bytes in, lists of bytes out.

Nothing here blocks, or raises an error for what a network does: what the kernel has no room for is
left to the caller, and what it refuses is counted and dropped, as if the network had lost it.
Transports do not look into datagrams. A member's own multicasts come back to it unless it asks not
to get them. Transports are not thread-safe: the caller holds a lock.
"""

import errno
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

from semcast.errors import TransportError
from semcast.live.sockets import closed_ports, offload
from semcast.live.sockets.address import (
    BOOK_MAX,
    Address,
    SocketAddress,
    address_of,
    socket_address,
)

RECEIVE_BYTES_MAX: Final = 65_536  # no datagram and no batch of them is longer
CACHED_BYTES: Final = 256 << 10
SMALL_BYTES: Final = 4096
# What a datagram takes of a socket's room besides its own bytes.
_AROUND_BYTES: Final = 1024
_FULL: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.ENOMEM})
# An error that came back for an earlier datagram (ICMP: of a port, a route or a size) is reported
# once, instead of sending this one. So each gets a second try, and only its error counts.
_TRIES: Final = 2
_HEADER_BYTES: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}

# A socket, and where to send to; None where it is connected.
Target = tuple[socket.socket, SocketAddress | None]


@dataclass(frozen=True)
class Opened:
    """What a way of opening hands to its transport."""

    sending: socket.socket  # sends what `connected` does not, and receives unicast
    receiving: tuple[socket.socket, ...]
    family: socket.AddressFamily
    path_mtu_bytes: int
    receive_buffer_bytes: int
    warnings: tuple[str, ...]
    # By address, a socket that sends only there, from the address of `sending`, which gets answers.
    connected: Mapping[Address, socket.socket] = field(default_factory=dict)
    # Closes the sockets if some are shared with other groups; without it, all are closed.
    close: Callable[[], None] | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport(ABC):
    """One member's way to the others."""

    # All bytes that have come, with what datagrams take of a socket's room besides their own.
    came_bytes: int = 0

    def __init__(self, opened: Opened, multicast: bool) -> None:
        self.multicast = multicast
        self.address: Address = address_of(opened.sending.getsockname())
        self.path_mtu_bytes = opened.path_mtu_bytes
        self.receive_buffer_bytes = opened.receive_buffer_bytes
        self.warnings = opened.warnings
        self.peers: list[Address] = []
        # Whether runs of datagrams go out in one call; turned off for good if the kernel refuses.
        self.segmenting = offload.can_segment(opened.sending)
        self.counters: dict[str, int] = dict.fromkeys(
            (
                "datagrams_in", "datagrams_out", "bytes_in", "bytes_out", "send_calls",
                "receive_calls", "send_full", "send_errors", "send_too_large", "receive_errors",
            ),
            0,
        )  # fmt: skip
        self._family = opened.family
        self._segment_bytes_max = opened.path_mtu_bytes - _HEADER_BYTES[opened.family]
        self._sockets = (opened.sending, *opened.receiving)
        self._sending = opened.sending
        self._connected = dict(opened.connected)
        self._every = (*self._sockets, *self._connected.values())
        self._close = opened.close
        for sock in self._every:
            sock.setblocking(False)
        # Two orders, used in turn, so that a flood on one socket does not starve the other.
        self._now = tuple((sock.fileno(), sock.recvmsg) for sock in self._sockets)
        self._next = self._now[::-1]
        # How many addresses are remembered; one more, and all are forgotten.
        self.book_max = BOOK_MAX
        self._targets: dict[Address, Target] = {}
        # Whether something could not be sent since the routes were last looked up.
        self._astray = False
        self._sources: dict[SocketAddress, Address] = {}
        self._segment_request: tuple[int, offload.Ancillary] = (0, [])

    def filenos(self) -> tuple[int, ...]:
        """What to wait on for reading."""
        return tuple(sock.fileno() for sock in self._sockets)

    @abstractmethod
    def send_all(self, datagrams: list[bytes]) -> int:
        """Send to the whole group. Returns how many the kernel took, from the first on."""

    def look_again(self) -> None:  # noqa: B027
        """If sending has failed, look for the interface again. This takes longer than to send, so
        it is called now and then.
        """

    def ignore_own(self) -> None:  # noqa: B027
        """Have the kernel drop this transport's own multicasts where it can."""

    def report_closed(self) -> None:
        """Have the kernel report where nobody listens, if it can. Then the owner has to call
        `take_closed` whenever the socket has something to report.
        """
        closed_ports.report_closed(self._sending)

    def take_closed(self, fileno: int) -> list[Address]:
        """Where nobody listens, by what the kernel reports on this socket. It may be forged."""
        found: list[Address] = []
        for sock in self._sockets:
            if sock.fileno() == fileno:
                found += closed_ports.read_closed(sock)
        return found

    def close(self) -> None:
        if self._close is not None:
            self._close()
            return
        for sock in self._every:
            sock.close()

    # -- receiving ---------------------------------------------------------------------------------

    def receive(
        self, datagrams_max: int = 64, ready: Container[int] | None = None, calm: bool = False
    ) -> list[tuple[bytes, Address]]:
        """What waits, without blocking, of the sockets that are ready (file numbers), or of all.

        If it is `calm`, a small datagram is probably the only one, and asking for another takes as
        long as receiving it; so the rest, if there is any, is left for the next call. No more is
        read than fits a processor's cache, since it is read once more soon. The last system call
        may bring a whole batch, so the list can be longer than asked for by one batch less one.
        """
        got: list[tuple[bytes, Address]] = []
        calls = bytes_in = 0
        plain = self._family == socket.AF_INET
        self._now, self._next = self._next, self._now
        for fileno, recvmsg in self._now:
            if ready is not None and fileno not in ready:
                continue
            while len(got) < datagrams_max and bytes_in < CACHED_BYTES:
                try:
                    data, ancillary, _, source = recvmsg(RECEIVE_BYTES_MAX, offload.ANCILLARY_BYTES)
                except BlockingIOError:
                    break
                except OSError:
                    # Somebody's refusal that came back (ICMP), or the socket is closed. A call
                    # takes one such error from the socket; the next sees what is behind it.
                    self.counters["receive_errors"] += 1
                    break
                calls += 1
                bytes_in += len(data)
                if not plain:
                    source = self._sources.get(source) or self._learn(source)
                if ancillary:
                    got += offload.split(data, ancillary, source)
                    continue
                got.append((data, source))
                if calm and len(got) == 1 and len(data) < SMALL_BYTES:
                    break
        if calls:
            counters = self.counters
            counters["receive_calls"] += calls
            counters["datagrams_in"] += len(got)
            counters["bytes_in"] += bytes_in
            self.came_bytes += bytes_in + len(got) * _AROUND_BYTES
        return got

    def pass_on(self, to: "Transport", datagrams: list[tuple[bytes, Address]]) -> None:
        """Count these datagrams at another transport, which they were for."""
        bytes_in = 0
        for datagram, _ in datagrams:
            bytes_in += len(datagram)
        for counters, sign in ((self.counters, -1), (to.counters, 1)):
            counters["datagrams_in"] += sign * len(datagrams)
            counters["bytes_in"] += sign * bytes_in

    def _learn(self, source: SocketAddress) -> Address:
        if len(self._sources) >= self.book_max:
            self._sources.clear()
        address = self._sources[source] = address_of(source)
        return address

    # -- sending -----------------------------------------------------------------------------------

    def send(self, to: Address, datagrams: list[bytes]) -> int:
        """Send to one address. Returns how many the kernel took, from the first on. If these are
        fewer than given, its buffer is full, and the caller keeps the rest.
        """
        if len(datagrams) == 1:
            return self._send_run(to, datagrams)
        start = 0
        while start < len(datagrams):
            end = start + self._run_length(datagrams, start)
            start += self._send_run(to, datagrams[start:end])
            if start < end:
                break
        return start

    def _run_length(self, datagrams: list[bytes], start: int) -> int:
        if not self.segmenting:
            return 1
        return offload.run_length(datagrams, start, self._segment_bytes_max)

    def _send_run(self, to: Address, run: list[bytes]) -> int:
        target = self._targets.get(to) or self._target(to)
        if target is None:
            self.counters["send_errors"] += len(run)
            return len(run)
        if len(run) > 1:
            taken = self._send_batch(target, run)
            if taken is not None:
                return taken
        for at, datagram in enumerate(run):
            if not self._send_one(target, datagram):
                return at
        return len(run)

    def _send_batch(self, target: Target, run: list[bytes]) -> int | None:
        """Send all or none of a run in one call; None if it has to be tried one by one."""
        size = len(run[0])
        if self._segment_request[0] != size:
            self._segment_request = (size, offload.segment_request(size))
        counters = self.counters
        sock, address = target
        number = 0
        for _ in range(_TRIES):
            counters["send_calls"] += 1
            try:
                taken_bytes = sock.sendmsg(run, self._segment_request[1], 0, address)
            except OSError as error:
                number = error.errno or 0
                if number in _FULL:
                    counters["send_full"] += 1
                    return 0
            else:
                counters["datagrams_out"] += len(run)
                counters["bytes_out"] += taken_bytes
                return len(run)
        if number in offload.REFUSED:
            self.segmenting = False
        return None

    def _send_one(self, target: Target, datagram: bytes) -> bool:
        """Returns False if there is no room. A datagram that is refused is counted and dropped."""
        counters = self.counters
        sock, address = target
        number = 0
        for _ in range(_TRIES):
            counters["send_calls"] += 1
            try:
                if address is None:
                    sock.send(datagram)
                else:
                    sock.sendto(datagram, address)
            except OSError as error:
                number = error.errno or 0
                if number in _FULL:
                    counters["send_full"] += 1
                    return False
            else:
                counters["datagrams_out"] += 1
                counters["bytes_out"] += len(datagram)
                return True
        counters["send_errors"] += 1
        if number == errno.EMSGSIZE:
            counters["send_too_large"] += 1
        elif number != errno.ECONNREFUSED:
            self._forget_ways()
        return True

    def _target(self, to: Address) -> Target | None:
        """Look an address up, and remember it; None if a socket of our family cannot reach it."""
        if len(self._targets) >= self.book_max:
            self._targets.clear()
        connected = self._connected.get(to)
        try:
            target: Target = (
                (self._sending, socket_address(to, self._family))
                if connected is None
                else (connected, None)
            )
        except TransportError:
            return None
        self._targets[to] = target
        return target

    def _forget_ways(self) -> None:
        """An interface may have come back under another number, so look up every route anew."""
        self._astray = True
        self._targets.clear()
        self._connected.clear()
