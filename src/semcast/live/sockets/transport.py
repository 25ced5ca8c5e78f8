"""The datagram transport of the live world: settings in, an open `Transport` out.

    with_multicast = open_transport(TransportSettings(group_id=7, interface="lo"))
    with_multicast.send_all([b"to everybody"])
    for datagram, source in with_multicast.receive(): ...

What a transport does is in `datagrams`; how it is opened in `multicast` and `unicast`.
"""

import os
from dataclasses import dataclass
from typing import Final

from semcast.errors import TransportError
from semcast.live.sockets.address import Address
from semcast.live.sockets.datagrams import Transport
from semcast.live.sockets.multicast import group_of, interface_of, open_multicast
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.ports import Ports
from semcast.live.sockets.probe import multicast_comes_back
from semcast.live.sockets.unicast import open_unicast

__all__ = ["Address", "Choice", "Transport", "TransportSettings", "choose", "open_transport"]

# To who has none and may need them.
NEEDS_PEERS: Final = (
    "where there is no multicast, say where some members are (peers), or, at a member that "
    "the others' peers name, transport='unicast'"
)


@dataclass(frozen=True)
class Choice:
    """Which way datagrams are to go."""

    multicast: bool
    # Why nobody can be sure of multicast here, for people; empty if all is well.
    doubt: str = ""


def choose(settings: TransportSettings, has_peers: bool) -> Choice:
    """As configured; for "auto", multicast if it comes back to this machine, else unicast to peers.

    Without peers unicast would reach nobody, so there it is multicast after all. An address or an
    interface that makes no sense is a user's mistake, no reason to do without multicast: raises
    TransportError.
    """
    if settings.transport != "auto":
        return Choice(settings.transport == "multicast")
    group = group_of(settings)
    if settings.interface or settings.host not in ("", "0.0.0.0", "::"):
        interface_of(settings, group[0])
    found = multicast_comes_back(settings, os.urandom(16))
    return Choice(found.ok or not has_peers, "" if found.ok else found.told)


def open_transport(
    settings: TransportSettings, has_peers: bool = False, ports: Ports | None = None
) -> Transport:
    """Open sockets as configured; raises TransportError with one line about what is in the way.

    `has_peers`: somebody said where other members are, so that unicast can reach them. `ports` are
    those that groups of this process share.
    """
    choice = choose(settings, has_peers)
    if not choice.multicast:
        unicast = open_unicast(settings, ports)
        if choice.doubt:
            unicast.warnings += (
                "each datagram goes to each peer by itself, because multicast does not work here "
                f"(`semcast doctor` says more): {choice.doubt}",
            )
        return unicast
    try:
        multicast = open_multicast(settings, ports)
    except TransportError as error:
        if not choice.doubt:
            raise
        raise TransportError(f"{error}; {NEEDS_PEERS}") from None
    if choice.doubt:
        multicast.warnings += (f"{choice.doubt}; multicast is used all the same: {NEEDS_PEERS}",)
    return multicast
