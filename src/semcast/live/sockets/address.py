"""Addresses: text and numbers go in; what sockets take and give comes out. No socket is opened.

An `Address` is a numeric host and a port. Link-local IPv6 hosts carry their interface, as in
`fe80::1%eth0`, because the number alone names a different machine on every link.
"""

import hashlib
import ipaddress
import socket
from typing import Final, TypeAlias

from semcast.errors import TransportError

Address: TypeAlias = tuple[str, int]
# What the socket calls take and give: (host, port), for IPv6 with flow and scope.
SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

GROUP_PORT_MIN: Final = 20_000
GROUP_PORTS: Final = 20_000
_SCOPE_MAX: Final = (1 << 31) - 1
# Names remembered per book; past that the book starts afresh, so forged sources fill nothing.
BOOK_MAX: Final = 4_096


def family_of(host: str) -> socket.AddressFamily:
    """The family of a numeric host; names are not looked up here, since that can block."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise TransportError(
            f"{host!r} is no IPv4 or IPv6 address; give it in numbers, "
            "as in 192.0.2.7 or fe80::1%eth0"
        ) from None
    return socket.AF_INET if version == 4 else socket.AF_INET6


def is_multicast(host: str) -> bool:
    return ipaddress.ip_address(host).is_multicast


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def group_host(group_id: int, ipv6: bool) -> str:
    """Where a group meets if nobody says otherwise: the same on every member, from its id.

    IPv4: 239.192.0.0/14, local to an organization (RFC 2365). IPv6: site-local, transient, with
    an id from the range for such (ff15::8000:0 and up, RFC 3307). Two groups may share an
    address; the id in each datagram keeps them apart.
    """
    drawn = _drawn(group_id)
    if ipv6:
        return str(ipaddress.IPv6Address((0xFF15 << 112) | 0x80000000 | drawn >> 32))
    return str(ipaddress.IPv4Address((239 << 24) | (192 << 16) | (drawn >> 32 & 0x3FFFF)))


def group_port(group_id: int) -> int:
    return GROUP_PORT_MIN + (_drawn(group_id) & 0xFFFFFFFF) % GROUP_PORTS


def _drawn(group_id: int) -> int:
    """63 bits that differ everywhere between groups, however small and near their ids are."""
    seed = b"semcast group address" + group_id.to_bytes(8, "little")
    return int.from_bytes(hashlib.sha256(seed).digest()[:8], "little") >> 1


def socket_address(address: Address, family: socket.AddressFamily) -> SocketAddress:
    """What the socket calls take, so that they have nothing to look up."""
    host, port = address
    if family_of(host) != family or not 0 <= port <= 65_535:
        raise TransportError(
            f"{host} port {port} cannot be reached from a socket of {_version(family)}; "
            "members of one group use one family"
        )
    if family == socket.AF_INET:
        return host, port
    bare, _, scope = host.partition("%")
    return bare, port, 0, _scope_index(scope) if scope else 0


def address_of(given: SocketAddress) -> Address:
    """The other way round: what a socket call gave."""
    host, port = given[0], given[1]
    if len(given) == 2 or given[3] == 0:
        return host, port
    try:
        scope = socket.if_indextoname(given[3])
    except OSError:  # the interface went away since
        scope = str(given[3])
    return f"{host.partition('%')[0]}%{scope}", port


def _scope_index(scope: str) -> int:
    try:
        if scope.isascii() and scope.isdecimal() and int(scope) <= _SCOPE_MAX:
            return int(scope)
        return socket.if_nametoindex(scope)
    except (OSError, ValueError):  # no such name, or no name at all
        raise TransportError(f"there is no interface {scope!r}; `ip link` lists them") from None


def _version(family: socket.AddressFamily) -> str:
    return "IPv4" if family == socket.AF_INET else "IPv6"
