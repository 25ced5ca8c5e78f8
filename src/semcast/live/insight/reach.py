"""Reach: which other machines a multicast comes to, and how large a datagram gets there.

Only another machine can find out: `Answerer` runs there for a while (`semcast doctor --answer`) and
answers, to the asker alone, with what it got. Questions go to the group's address, but to a port of
their own, so that a running group is not disturbed. They are not sealed and say nothing about the
group, and an answer is smaller than its question.
"""

import os
import select
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from semcast.errors import TransportError
from semcast.live.sockets.address import Address, address_of, family_of, group_port, socket_address
from semcast.live.sockets.interfaces import Interface
from semcast.live.sockets.multicast import group_of, interface_of, join_group, send_through
from semcast.live.sockets.opening import keep_whole
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.probe import bound
from semcast.wire.limits import IP_UDP_BYTES

# Groups meet at ports from 20,000 to 39,999, their questions 10,000 below.
_BELOW: Final = 10_000
_QUESTION: Final = b"semcast reach? "
_NONCE_BYTES: Final = 16
_SMALL_BYTES: Final = 100
# An answer: what the question began with, how large it was, and what time it is here.
_ANSWER: Final = struct.Struct("<15s16sHq")
_ANSWERS: Final = b"semcast reached"
# Questions and answers may be lost.
_TRIES: Final = 3
WAIT_S: Final = 0.3
HOSTS_MAX: Final = 1024


@dataclass
class Reached:
    """One machine that answered."""

    host: str
    took_us: float
    # The largest datagram that got there, IP and UDP included.
    carries_bytes: int = 0
    # How far its clock is ahead of ours, to half of the time that the answer took.
    ahead_ms: float = 0.0


@dataclass
class Reach:
    """Who answered, and what was the most that was asked."""

    asked_bytes: int
    machines: dict[str, Reached] = field(default_factory=dict)


def ask(settings: TransportSettings) -> Reach:
    """Ask everybody whom a multicast on the interface comes to. Raises TransportError."""
    group, interface = _place(settings)
    family = family_of(group[0])
    found = Reach(interface.carries_bytes)
    with bound((interface.host, 0), family) as sock:
        send_through(sock, interface, group, settings.ttl)
        keep_whole(sock, family)
        for _ in range(_TRIES):
            nonce = os.urandom(_NONCE_BYTES)
            for size in (_SMALL_BYTES, found.asked_bytes):
                question = (_QUESTION + nonce).ljust(size - IP_UDP_BYTES, b"\0")
                with suppress(OSError):  # too large for this machine itself, say
                    sock.sendto(question, socket_address(group, family))
            _gather(sock, nonce, found)
    return found


def _gather(sock: socket.socket, nonce: bytes, found: Reach) -> None:
    sent_ns, clock_ns = time.monotonic_ns(), time.time_ns()
    while (left_s := WAIT_S - (time.monotonic_ns() - sent_ns) / 1e9) > 0:
        if not select.select([sock], [], [], left_s)[0]:
            return
        try:
            heard, source = sock.recvfrom(_ANSWER.size + 1)
        except OSError:  # a refusal that came back
            continue
        took_ns = time.monotonic_ns() - sent_ns
        if len(heard) != _ANSWER.size or len(found.machines) >= HOSTS_MAX:
            continue
        begins, echoed, size, their_ns = _ANSWER.unpack(heard)
        if begins != _ANSWERS or echoed != nonce:
            continue
        host = address_of(source)[0]
        one = found.machines.setdefault(host, Reached(host, took_ns / 1e3))
        one.carries_bytes = max(one.carries_bytes, size + IP_UDP_BYTES)
        if took_ns / 1e3 <= one.took_us:
            one.took_us = took_ns / 1e3
            one.ahead_ms = (their_ns - clock_ns - took_ns // 2) / 1e6


class Answerer:
    """Answers questions on one machine, for as long as it is told to."""

    def __init__(self, settings: TransportSettings) -> None:
        """Raises TransportError if the group cannot be heard here."""
        self.group, self.interface = _place(settings)
        # How many questions, so far.
        self.answered = 0

    def run(self, seconds: float) -> None:
        """Until that time is over. Raises TransportError if it is refused."""
        until_s = time.monotonic() + seconds
        with bound(self.group, family_of(self.group[0]), shared=True) as sock:
            join_group(sock, self.interface, self.group[0])
            while (left_s := until_s - time.monotonic()) > 0:
                if select.select([sock], [], [], left_s)[0]:
                    self._answer(sock)

    def _answer(self, sock: socket.socket) -> None:
        try:
            heard, source = sock.recvfrom(1 << 16)
            begins = len(_QUESTION) + _NONCE_BYTES
            if heard.startswith(_QUESTION) and len(heard) >= max(begins, _ANSWER.size):
                nonce = heard[len(_QUESTION) : begins]
                sock.sendto(_ANSWER.pack(_ANSWERS, nonce, len(heard), time.time_ns()), source)
                self.answered += 1
        except OSError:
            return  # the asker is gone, or there is no way back to it


def _place(settings: TransportSettings) -> tuple[Address, Interface]:
    host, _ = group_of(settings)
    interface = interface_of(settings, host)
    if interface.mtu_bytes < _SMALL_BYTES:
        raise TransportError(f"{interface.name} carries {interface.mtu_bytes} bytes: too few")
    return (host, group_port(settings.group_id) - _BELOW), interface
