"""Probes: settings go in; whether datagrams come back to this machine comes out.

A probe sends to the group's own address on the interface, but to a port of its own, so that a
running group is not disturbed. It finds out whether this machine may send and hear multicasts
there; what switches and routers between machines do, only another machine can find out (`reach`).
A datagram may be lost, and on a busy machine be late, so a probe is several of them.
"""

import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from semcast.errors import TransportError
from semcast.live.sockets import offload
from semcast.live.sockets.address import Address, address_of, family_of, socket_address
from semcast.live.sockets.interfaces import without_multicast
from semcast.live.sockets.multicast import group_of, interface_of, join_group, send_through
from semcast.live.sockets.opening import share
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.refusal import refused

# A probe is so many datagrams, one after the other, each of which is waited for so long.
PROBES: Final = 5
PROBE_NS_MAX: Final = 200_000_000
# So many datagrams of others are read meanwhile, so that a probe ends under a flood of them.
_STRANGE_MAX: Final = 1024
_MAGIC: Final = b"semcast probe "
_SEGMENT_BYTES: Final = 100


@dataclass(frozen=True)
class Found:
    """What a probe found, in words that start a sentence."""

    ok: bool
    told: str
    took_ns: int = 0


def multicast_comes_back(settings: TransportSettings, nonce: bytes) -> Found:
    """Send a probe to the group on the interface, and wait for it on a second socket."""
    try:
        group = group_of(settings)
        interface = interface_of(settings, group[0])
        family = family_of(group[0])
        with (
            bound((interface.host, 0), family) as sending,
            bound((group[0], 0), family, shared=True) as listening,
        ):
            heard_at = group[0], listening.getsockname()[1]
            send_through(sending, interface, heard_at, settings.ttl)
            join_group(listening, interface, group[0])
            what = f"multicast to {group[0]} on {interface.name}"
            found = _there_and_back(sending, listening, heard_at, nonce, what)
        reasons = () if found.ok else without_multicast(interface)
        return Found(found.ok, "; ".join([found.told, *reasons]), found.took_ns)
    except TransportError as error:
        return Found(False, str(error))


def unicast_comes_back(host: str, nonce: bytes) -> Found:
    """Send a probe from one socket at this address to another there."""
    family = family_of(host)
    try:
        with bound((host, 0), family) as sending, bound((host, 0), family) as listening:
            heard_at = address_of(listening.getsockname())
            return _there_and_back(sending, listening, heard_at, nonce, f"unicast to {host}")
    except TransportError as error:
        return Found(False, str(error))


def offload_works(host: str) -> tuple[bool, bool]:
    """Whether batches can be sent (GSO) and are received as such (GRO), tried at this address."""
    family = family_of(host)
    try:
        with bound((host, 0), family) as sending, bound((host, 0), family) as listening:
            if not offload.can_segment(sending) or not offload.ANCILLARY_BYTES:
                return False, False
            batches = offload.receive_batches(listening)
            target = socket_address(address_of(listening.getsockname()), family)
            try:
                sending.sendmsg(
                    [bytes(3 * _SEGMENT_BYTES)], offload.segment_request(_SEGMENT_BYTES), 0, target
                )
            except OSError:
                return False, batches
            if not select.select([listening], [], [], PROBE_NS_MAX / 1e9)[0]:
                return False, batches
            _, ancillary, _, _ = listening.recvmsg(4 * _SEGMENT_BYTES, offload.ANCILLARY_BYTES)
            return True, any(
                struct.unpack_from("=i", value)[0] == _SEGMENT_BYTES for _, _, value in ancillary
            )
    except TransportError:
        return False, False


def _there_and_back(
    sending: socket.socket, listening: socket.socket, to: Address, nonce: bytes, what: str
) -> Found:
    probe = _MAGIC + nonce
    started_ns = time.monotonic_ns()
    for _ in range(PROBES):
        try:
            sending.sendto(probe, socket_address(to, sending.family))
        except OSError as error:
            return Found(False, str(refused(f"cannot send {what}", error)))
        if _is_heard(listening, probe):
            took_ns = time.monotonic_ns() - started_ns
            return Found(True, f"{what} comes back after {took_ns / 1000:.0f} µs", took_ns)
    limit_ms = PROBES * PROBE_NS_MAX // 1_000_000
    return Found(False, f"{what} does not come back within {limit_ms} ms ({PROBES} probes)")


def _is_heard(listening: socket.socket, probe: bytes) -> bool:
    """Whether a probe comes in time, be it this one or one before it."""
    until_ns = time.monotonic_ns() + PROBE_NS_MAX
    for _ in range(_STRANGE_MAX):
        # If this process did not run for so long, what came meanwhile still counts as in time.
        left_s = max(0, until_ns - time.monotonic_ns()) / 1e9
        if not select.select([listening], [], [], left_s)[0]:
            return False
        try:
            if listening.recv(len(probe) + 1) == probe:
                return True
        except OSError:  # a refusal that came back
            continue
    return False


@contextmanager
def bound(
    address: Address, family: socket.AddressFamily, shared: bool = False
) -> Iterator[socket.socket]:
    """A socket there that never waits; TransportError if it is refused."""
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        raise refused("cannot open a socket", error) from None
    with sock:
        try:
            if shared:
                share(sock)
            sock.bind(socket_address(address, family))
        except OSError as error:
            raise refused(f"cannot bind {address[0]}", error) from None
        sock.setblocking(False)
        yield sock
