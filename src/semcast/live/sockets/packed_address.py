"""Addresses in few bytes: where a member is, as gossip tells others. Addresses in, bytes out, and
back; whatever comes from outside and is no address gives None.

An IPv4 address takes 4 bytes and an IPv6 address 16, and a port 2. The interface of a link-local
IPv6 address means nothing elsewhere, so it is left out; whoever reads it takes their own.
"""

import ipaddress
from typing import Final

from semcast.live.sockets.address import Address

_PORT_BYTES: Final = 2
_SIZES: Final = (4 + _PORT_BYTES, 16 + _PORT_BYTES)


def packed(address: Address) -> bytes:
    """An address as bytes; none if it says not where somebody is."""
    host, port = address
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return b""
    if found.is_unspecified or found.is_multicast or not 0 < port <= 0xFFFF:
        return b""
    return found.packed + port.to_bytes(_PORT_BYTES, "big")


def unpacked(data: bytes, own: str = "") -> Address | None:
    """The address in these bytes, if there is one to which datagrams may go. `own`: this member's
    host, whose interface link-local addresses are on.
    """
    if len(data) not in _SIZES:
        return None
    host = ipaddress.ip_address(data[:-_PORT_BYTES])
    port = int.from_bytes(data[-_PORT_BYTES:], "big")
    if host.is_unspecified or host.is_multicast or port == 0:
        return None
    if host == ipaddress.IPv4Address("255.255.255.255"):
        return None
    scope = own.partition("%")[2]
    link_local = host.version == 6 and host.is_link_local
    return (f"{host}%{scope}" if link_local and scope else str(host), port)
