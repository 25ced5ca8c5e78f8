"""The datagram transport of the live world: settings in, an open `Transport` out.

    with_multicast = open_transport(TransportSettings(group_id=7, interface="lo"))
    with_multicast.send_all([b"to everybody"])
    for datagram, source in with_multicast.receive(): ...

What a transport does is in `datagrams`; how it is opened in `multicast` and `unicast`.
"""

import os

from semcast.live.address import Address
from semcast.live.datagrams import Transport
from semcast.live.multicast import group_of, open_multicast
from semcast.live.probe import multicast_comes_back
from semcast.live.settings import TransportSettings
from semcast.live.unicast import open_unicast

__all__ = ["Address", "Transport", "TransportSettings", "open_transport"]


def open_transport(settings: TransportSettings) -> Transport:
    """Open sockets as configured; raises TransportError with one line about what is in the way."""
    if settings.kind == "multicast":
        return open_multicast(settings)
    if settings.kind == "unicast":
        return open_unicast(settings)
    group_of(settings)  # an address that makes no sense is a mistake, no reason to do without
    found = multicast_comes_back(settings, os.urandom(16))
    if found.ok:
        return open_multicast(settings)
    transport = open_unicast(settings)
    transport.warnings += (
        "each datagram goes to each peer by itself, because multicast does not work here "
        f"(`semcast doctor` says more): {found.told}",
    )
    return transport
