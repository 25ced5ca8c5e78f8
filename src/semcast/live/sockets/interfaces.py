"""Network interfaces: a name, an address or nothing goes in; which interface that is comes out.

We ask Linux through netlink and ioctl, which, unlike /sys, always answer for the network namespace
of the caller. Elsewhere an interface is named by its address, and its MTU is taken to be 1,500.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Final

from semcast.errors import TransportError
from semcast.live.sockets.address import Address, address_of, is_loopback, socket_address
from semcast.live.sockets.refusal import refused

ETHERNET_MTU_BYTES: Final = 1_500
LOOPBACK_MTU_BYTES: Final = 65_535  # an IP datagram cannot be longer
_SIOCGIFFLAGS, _SIOCGIFMTU = 0x8913, 0x8921
_IFF_UP, _IFF_LOOPBACK, _IFF_MULTICAST = 0x1, 0x8, 0x1000
_RTM_NEWADDR, _RTM_GETADDR, _NLMSG_ERROR, _NLMSG_DONE = 20, 22, 2, 3
_REQUEST_DUMP = 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TENTATIVE_OR_FAILED = 0x40 | 0x08  # IPv6 addresses that cannot be used, or not yet
_NETLINK_BYTES_MAX: Final = 65_536
# Nothing is ever sent to this port: connecting a UDP socket only asks for a route.
_DISCARD_PORT: Final = 9


@dataclass(frozen=True)
class Interface:
    """One interface, and the address on it that datagrams leave from."""

    name: str
    index: int  # 0: the system's choice
    host: str  # numeric; link-local ones with their interface
    mtu_bytes: int
    loopback: bool

    @property
    def carries_bytes(self) -> int:
        """The path MTU to begin with; beyond one's own network little carries more than 1,500."""
        most = LOOPBACK_MTU_BYTES if self.loopback else ETHERNET_MTU_BYTES
        return min(self.mtu_bytes, most)


def find_interface(wanted: str, family: socket.AddressFamily, towards: str) -> Interface:
    """The interface with this name or address; for "", the one on the route to `towards`."""
    if wanted == "":
        return _with_address(_source_towards(family, towards), family)
    if _is_numeric(wanted, family):
        return _with_address(wanted, family)
    return _with_name(wanted, family)


def smallest_mtu_bytes(family: socket.AddressFamily) -> int:
    """What every interface carries that leaves this machine; what loopback does if none leaves."""
    found = [_described(index, host) for index, host in addresses(family)]
    away = [one.carries_bytes for one in found if not one.loopback]
    if away:
        return min(away)
    return LOOPBACK_MTU_BYTES if found else ETHERNET_MTU_BYTES


def without_multicast(interface: Interface) -> tuple[str, ...]:
    """One line if this interface is not set up for multicast, as tunnels mostly are not. What it
    sends to a group may still come back to this machine, but hardly to another one.
    """
    flags = _flags(interface.name)
    if flags is None or flags & (_IFF_MULTICAST | _IFF_LOOPBACK):
        return ()
    name = interface.name
    return (
        f"interface {name} is not set up for multicast; choose another interface, or run: "
        f"ip link set {name} multicast on",
    )


def _with_name(name: str, family: socket.AddressFamily) -> Interface:
    try:
        index = socket.if_nametoindex(name)
    except (OSError, ValueError):
        known = ", ".join(known for _, known in socket.if_nameindex())
        raise TransportError(f"there is no interface {name!r}; this machine has {known}") from None
    flags = _flags(name)
    if flags is not None and not flags & _IFF_UP:
        raise TransportError(f"interface {name} is down; bring it up: ip link set {name} up")
    hosts = [host for at, host in addresses(family) if at == index]
    if not hosts:
        version = "IPv4" if family == socket.AF_INET else "IPv6"
        raise TransportError(
            f"interface {name} has no {version} address; give it one, or choose another interface"
        )
    # A link-local address means something on its own link only, so any other is better.
    return _described(index, min(hosts, key=lambda host: "%" in host))


def _with_address(host: str, family: socket.AddressFamily) -> Interface:
    known = addresses(family)
    for index, other in known:
        if other == host or other.partition("%")[0] == host:
            return _described(index, other)
    if is_loopback(host):  # all of 127.0.0.0/8 is there, one address is listed
        for index, other in known:
            if is_loopback(other):
                return _described(index, host)
    if known:
        have = ", ".join(other for _, other in known)
        raise TransportError(f"no interface of this machine has address {host}; it has {have}")
    mtu_bytes = LOOPBACK_MTU_BYTES if is_loopback(host) else ETHERNET_MTU_BYTES
    return Interface("", 0, host, mtu_bytes, is_loopback(host))


def _described(index: int, host: str) -> Interface:
    name = socket.if_indextoname(index)
    flags = _flags(name)
    loopback = is_loopback(host) if flags is None else bool(flags & _IFF_LOOPBACK)
    return Interface(name, index, host, _ask(name, _SIOCGIFMTU) or ETHERNET_MTU_BYTES, loopback)


def _is_numeric(text: str, family: socket.AddressFamily) -> bool:
    try:
        socket_address((text, 0), family)
    except TransportError:
        return False
    return True


def _source_towards(family: socket.AddressFamily, towards: str) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(socket_address((towards, _DISCARD_PORT), family))
        except OSError as error:
            raise refused(f"no interface leads to {towards}", error) from None
        return address_of(sock.getsockname())[0]


# -- what Linux tells ------------------------------------------------------------------------------


def _flags(name: str) -> int | None:
    found = _ask(name, _SIOCGIFFLAGS)
    return None if found is None else found & 0xFFFF


def _ask(name: str, question: int) -> int | None:
    if not hasattr(socket, "AF_NETLINK"):
        return None
    from fcntl import ioctl  # not everywhere, so only where it is needed

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = ioctl(sock.fileno(), question, struct.pack("16s24x", name.encode()[:15]))
        except OSError:
            return None
    return int(struct.unpack_from("=i", answer, 16)[0])


def addresses(family: socket.AddressFamily) -> list[tuple[int, str]]:
    """Every usable address of this machine with the index of its interface; none if not Linux."""
    if not hasattr(socket, "AF_NETLINK"):
        return []
    request = struct.pack("=IHHIIBBBBI", 24, _RTM_GETADDR, _REQUEST_DUMP, 1, 0, family, 0, 0, 0, 0)
    found: list[tuple[int, str]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(request)
        while True:
            answer = netlink.recv(_NETLINK_BYTES_MAX)
            at = 0
            while at + 16 <= len(answer):
                length, kind = struct.unpack_from("=IH", answer, at)
                if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < 16:
                    return found
                if kind == _RTM_NEWADDR:
                    found += _usable(answer[at + 16 : at + length], family)
                at += (length + 3) & ~3


def _usable(message: bytes, family: socket.AddressFamily) -> list[tuple[int, str]]:
    """The address in one answer. On links with two ends, IFA_LOCAL is ours and comes second."""
    _, _, flags, _, index = struct.unpack_from("=BBBBI", message)
    if family == socket.AF_INET6 and flags & _TENTATIVE_OR_FAILED:
        return []
    by_kind: dict[int, bytes] = {}
    at = 8
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            break
        by_kind[kind] = message[at + 4 : at + length]
        at += (length + 3) & ~3
    packed = by_kind.get(_IFA_LOCAL) or by_kind.get(_IFA_ADDRESS)
    if packed is None:
        return []
    host = socket.inet_ntop(family, packed)
    scoped: Address = (host, 0)
    if host.startswith("fe80:"):
        scoped = address_of((host, 0, 0, index))
    return [(index, scoped[0])]
