"""UDP multicast: one datagram goes out, and every member gets it.

One socket, on a port of its own at the interface's address, sends and receives unicast. A second
one, bound to the group's address and port, receives what is sent to all. So the source of every
datagram is where its sender can be answered. A third one, where there can be one, sends to all from
the port of the first. It is connected, so that the kernel need not look up the route each time.
"""

import ctypes
import socket
import struct
from contextlib import suppress
from typing import Final

from semcast.errors import TransportError
from semcast.live.sockets.address import (
    Address,
    family_of,
    group_host,
    group_port,
    is_loopback,
    is_multicast,
    socket_address,
)
from semcast.live.sockets.datagrams import Opened, Transport
from semcast.live.sockets.echo import ignore_own
from semcast.live.sockets.interfaces import Interface, find_interface, without_multicast
from semcast.live.sockets.opening import Sockets, opening
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.ports import Ports
from semcast.live.sockets.refusal import IPV6_LOOPBACK_ADVICE, refused

_IP_MULTICAST_ALL, _IPV6_MULTICAST_ALL = 49, 29  # Linux


class MulticastTransport(Transport):
    def __init__(
        self, opened: Opened, group: Address, interface: Interface | None = None, ttl: int = 1
    ) -> None:
        """Without `interface`, the sockets stay as they are when the interface is made anew."""
        super().__init__(opened, multicast=True)
        self.group: Final = group
        self._ttl: Final = ttl
        self._interface = interface
        # Sockets in `_connected` are given up when a route is lost, and come back from here.
        self._straight: Final = dict(opened.connected)

    def send_all(self, datagrams: list[bytes]) -> int:
        return self.send(self.group, datagrams)

    def look_again(self) -> None:
        """Join the group again on an interface that was made anew, and so has another number. While
        no interface has our address, this has to be tried again.
        """
        if not self._astray or self._interface is None:
            return
        try:
            found = find_interface(self._interface.host, self._family, self.group[0])
            if found.index != self._interface.index:
                for sock in self._sockets[1:]:
                    leave_group(sock, self._interface, self.group[0])
                    join_group(sock, found, self.group[0])
                self._interface = found
            send_through(self._sending, found, self.group, self._ttl)
            for to, sock in self._straight.items():
                send_through(sock, found, self.group, self._ttl)
                sock.connect(socket_address(to, self._family))
        except (OSError, TransportError):
            return
        self._astray = False
        self._targets.clear()
        self._connected = dict(self._straight)

    def ignore_own(self) -> None:
        for sock in self._sockets[1:]:
            ignore_own(sock, self._sending)


def open_multicast(settings: TransportSettings, ports: Ports | None = None) -> MulticastTransport:
    group = group_of(settings)
    family = family_of(group[0])
    interface = interface_of(settings, group[0])
    with opening(settings, family, ports) as sockets:
        sending = sockets.port("multicast", (interface.host, 0), (interface.name, settings.ttl))
        send_through(sending, interface, group, settings.ttl)
        listening = sockets.bind(_heard_at(group, family), shared=True)
        join_group(listening, interface, group[0])
        opened = Opened(
            sending, (listening,), family, settings.path_mtu_bytes or interface.carries_bytes,
            sockets.receive_buffer_bytes, sockets.warnings + without_multicast(interface),
            _connected(sockets, interface, group, settings.ttl), sockets.close,
        )  # fmt: skip
        return MulticastTransport(opened, group, interface, settings.ttl)


def _connected(
    sockets: Sockets, interface: Interface, group: Address, ttl: int
) -> dict[Address, socket.socket]:
    """A socket for the group alone, if there can be one at the port's address."""
    twin = sockets.twin()
    if twin is None:
        return {}
    send_through(twin, interface, group, ttl)
    twin.connect(socket_address(group, twin.family))
    return {group: twin}


def group_of(settings: TransportSettings) -> Address:
    """Where the group meets: as configured, else derived from its id."""
    host = settings.group_address or group_host(settings.group_id, settings.uses_ipv6)
    family_of(host)
    if not is_multicast(host):
        raise TransportError(
            f"{host} is no multicast address; take one of 239.0.0.0/8 or ff15::/16, or none"
        )
    return host, settings.port or group_port(settings.group_id)


def interface_of(settings: TransportSettings, towards: str) -> Interface:
    wanted = settings.interface
    if not wanted and settings.host not in ("", "0.0.0.0", "::"):
        family_of(settings.host)  # raises for a name, which would be taken for an interface's
        wanted = settings.host
    return find_interface(wanted, family_of(towards), towards)


def send_through(sock: socket.socket, interface: Interface, group: Address, ttl: int) -> None:
    """Have multicasts leave by this interface, come back to this machine, and go `ttl` hops."""
    try:
        if sock.family == socket.AF_INET:
            chosen = socket.inet_aton(interface.host)
            if interface.index != 0:
                chosen = struct.pack("=4s4si", bytes(4), chosen, interface.index)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, chosen)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
        _require_route(interface, group)
    except OSError as error:
        advice = IPV6_LOOPBACK_ADVICE if ":" in group[0] and is_loopback(interface.host) else ""
        doing = f"cannot multicast to {group[0]} on {interface.name}"
        raise refused(doing, error, advice) from None


def _require_route(interface: Interface, group: Address) -> None:
    """Look for the route now, with a socket of its own; otherwise only the first send fails."""
    family = family_of(group[0])
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        if family == socket.AF_INET6:
            asking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
        else:
            chosen = socket.inet_aton(interface.host)
            asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, chosen)
        asking.connect(socket_address(group, family))


def join_group(sock: socket.socket, interface: Interface, host: str) -> None:
    """Hear the group on this interface, and nothing that other sockets have joined."""
    joined = _membership(sock, interface, host)
    try:
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
            _hear_only_joined(sock, socket.IPPROTO_IP, _IP_MULTICAST_ALL)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, joined)
            _hear_only_joined(sock, socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL)
            _hear_only_interface(sock, interface.name)
    except OSError as error:
        raise refused(f"cannot join {host} on {interface.name}", error) from None


def leave_group(sock: socket.socket, interface: Interface, host: str) -> None:
    """Leave a group, also on an interface that is gone: a socket can be in 20 groups on Linux."""
    left = _membership(sock, interface, host)
    with suppress(OSError):
        if sock.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, left)
        else:
            _hear_any_interface(sock)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, left)


def _membership(sock: socket.socket, interface: Interface, host: str) -> bytes:
    """What the kernel is told to join or leave."""
    if sock.family == socket.AF_INET6:
        return socket.inet_pton(socket.AF_INET6, host) + struct.pack("=I", interface.index)
    joined = socket.inet_aton(host) + socket.inet_aton(interface.host)
    return joined + struct.pack("=i", interface.index) if interface.index else joined


def _hear_only_joined(sock: socket.socket, level: int, option: int) -> None:
    if not hasattr(socket, "AF_NETLINK"):
        return  # these numbers mean something else on other systems
    # IPv6 has it since 4.20; without it, binding to the group's address does most of the same.
    with suppress(OSError):
        sock.setsockopt(level, option, 0)


def _hear_only_interface(sock: socket.socket, name: str) -> None:
    """For IPv6, Linux compares the group's address only: two members of one machine that joined a
    group on two interfaces would both hear both. (Since Linux 5.7 this needs no privilege.)
    """
    if name and hasattr(socket, "SO_BINDTODEVICE"):
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())


def _hear_any_interface(sock: socket.socket) -> None:
    """Only a process with CAP_NET_RAW may bind a socket to another interface, but any process may
    disconnect one, and Linux then forgets its interface, too. Python does not offer that.
    """
    if hasattr(socket, "AF_NETLINK"):
        nobody = struct.pack("=H26x", socket.AF_UNSPEC)
        ctypes.CDLL(None).connect(sock.fileno(), nobody, len(nobody))


def _heard_at(group: Address, family: socket.AddressFamily) -> Address:
    """Unix binds a socket to a group's address, so that other groups on its port stay out."""
    if hasattr(socket, "AF_UNIX"):
        return group
    return ("0.0.0.0" if family == socket.AF_INET else "::"), group[1]
