"""Joining: a configuration goes in; a running engine in a complete group comes out.

Joining opens the transport, looks up peers, waits until all members have found each other, and says
why if they have not. The engine does the leaving.
"""

import atexit
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from semcast.errors import ConfigError, GroupClosedError, OtherKindError, TransportError
from semcast.ids import Source
from semcast.live.config import GroupConfig
from semcast.live.hooks import Hooks
from semcast.live.host import hosting
from semcast.live.host.engine import Engine
from semcast.live.meeting.closed_roster import ClosedRoster
from semcast.live.meeting.door import new_life
from semcast.live.meeting.federation_session import FederationSession
from semcast.live.meeting.gossip_session import GossipSession
from semcast.live.meeting.open_session import OpenSession
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address, address_of
from semcast.live.sockets.transport import Transport, TransportSettings, open_transport
from semcast.protocol.interest import Interest
from semcast.protocol.observer import Observer
from semcast.settings import Place, at
from semcast.wire.keys import group_id
from semcast.wire.limits import Limits

log: Final = logging.getLogger("semcast")

# An error names no more members than this.
_NAMES_SHOWN_MAX: Final = 8


def start(
    config: GroupConfig,
    observer: Callable[[Source], Observer | None] = lambda _: None,
    hooks: Hooks | None = None,
    attach: Callable[[Session], None] = lambda _: None,
) -> Engine:
    """Open the network and begin to look for the others. `attach` gets the session before."""
    hooks = hooks or Hooks()
    if config.stability != "gossip" and find_spec("numpy") is None:
        raise ConfigError(
            f"stability={config.stability!r} needs numpy, which is not installed; "
            "pip install 'semcast[rounds]'"
        )
    # A group of one needs no peers, so it is as if it had some.
    has_peers = bool(config.peers) or config.group_size == 1
    host = hosting.claim()
    transport: Transport | None = None
    try:
        transport = open_transport(transport_settings(config), has_peers, host.ports)
        _check_tree(config, transport.path_mtu_bytes)
        seeds = resolve(config.peers, config.ipv6)
        for warning in transport.warnings:
            log.warning("%s", warning)
        # Later lives have larger numbers. If the clock was set back, others say so.
        life = new_life(time.time_ns(), secrets.randbits(62))
        stream = random.Random(secrets.randbits(256))
        interest = hooks.interest
        session = new_session(config, transport, seeds, life, stream, observer, interest)
        attach(session)
        transport.ignore_own()
        if config.is_open:
            transport.report_closed()
        engine = Engine(session, host, hooks)
    except BaseException:
        if transport is not None:
            transport.close()
        hosting.release(host)
        raise
    engine.start()
    return engine


def new_session(
    config: GroupConfig,
    transport: Transport,
    seeds: list[Address],
    life: int,
    stream: random.Random,
    observer: Callable[[Source], Observer | None] = lambda _: None,
    interest: Interest | None = None,
) -> Session:
    """A session of the kind that the group needs."""
    kind: type[Session] = OpenSession if config.is_open else Session
    if config.reliability == "gossip":
        kind = GossipSession
    elif config.reliability == "federation":
        kind = FederationSession
    return kind(config, transport, seeds, life, stream, observer, interest=interest)


def _check_tree(config: GroupConfig, path_mtu_bytes: int) -> None:
    """A measured tree has to fit a datagram, and how large those are is known only now."""
    if config.stability_tree == "measured":
        from semcast.protocol.stability.rounds.protocols import check_measured

        check_measured(config.group_size, Limits(path_mtu_bytes, config.message_bytes_max))


def wait_complete(engine: Engine) -> None:
    """Wait until all members are there; if they are not in time, leave and raise why."""
    config = engine.session.config
    try:
        complete = engine.wait_for(lambda: has_joined(engine.session), config.join_timeout_s)
    except BaseException:
        engine.stop()
        raise
    if not complete:
        error = incomplete(engine.session)
        engine.stop()
        raise error


def has_joined(session: Session) -> bool:
    """Whether the member is in. If it cannot get in any more, raises why."""
    if session.inside:
        return True
    if session.ended is not None:
        raise session.ended
    return False


def incomplete(session: Session) -> GroupClosedError:
    """Why the group did not come together, and what to look at."""
    config = session.config
    roster = session.roster
    if isinstance(session, OpenSession | GossipSession):
        return GroupClosedError(session.why_not_in())
    if isinstance(roster, ClosedRoster) and roster.federation_there:
        return OtherKindError(
            f"{config.group!r} is a federation, says {roster.open_there}; use federate",
            "federation",
        )
    if isinstance(roster, ClosedRoster) and roster.open_there:
        return GroupClosedError(
            f"group {config.group!r} is open, says {roster.open_there}: processes come and go "
            "there; leave out members and size"
        )
    if isinstance(roster, ClosedRoster) and roster.elsewhere:
        return GroupClosedError(_uncounted(config, roster.elsewhere))
    refused = {reason: count for reason, count in session.opener.refused.items() if count}
    unproved = session.door.unproved() & set(session.roster.members)
    if refused.get("unknown", 0) > sum(refused.values()) // 2:
        hint = (
            f"; {refused['unknown']} datagrams of unknown senders were more than are looked at: "
            "does somebody flood this group?"
        )
    elif refused.keys() & {"key", "tag", "suite"}:
        hint = "; datagrams came that do not open: do all members have the same secret?"
    elif session.roster.strangers:
        others = ", ".join(session.roster.strangers.values())
        hint = f"; others are here that are not members: {others}"
    elif unproved:
        others = ", ".join(sorted(map(session.roster.name_of, unproved)))
        hint = (
            f"; hellos of {others} came, but nobody answered from there: do datagrams get through "
            "to them, or does somebody replay old ones?"
        )
    elif session.transport.multicast:
        hint = (
            "; `semcast doctor` tells whether multicast reaches this machine; where it does not, "
            "say where some members are (peers)"
        )
    else:
        hint = (
            "; are the addresses in peers= right, is UDP let through, is the secret the same "
            "everywhere, and do the others count this member (size, or members)?"
        )
    return GroupClosedError(
        f"group {config.group!r} is not complete after {config.join_timeout_s:g} s: "
        f"{session.roster.missing()}{hint}"
    )


def _uncounted(config: GroupConfig, elsewhere: Mapping[str, tuple[str, ...]]) -> str:
    """What to say to a newcomer if the others have formed the group without it."""
    # If the others do not agree, what most of them say counts.
    said = list(elsewhere.values())
    members = max(said, key=said.count)
    speakers = sorted(name for name, named in elsewhere.items() if named == members)
    return (
        f"group {config.group!r} seems to be complete without {config.name!r}, which was not let "
        f"in for {config.join_timeout_s:g} s: its {len(members)} members are "
        f"{_listed(sorted(members))}, say {_listed(speakers)}; members are counted from the start, "
        f"so raise size to {len(members) + 1}, or add {config.name!r} to members, at all of them, "
        "and start them again"
    )


def _listed(names: list[str]) -> str:
    shown = names[:_NAMES_SHOWN_MAX]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def transport_settings(config: GroupConfig) -> TransportSettings:
    """The settings of the transport."""
    given = {one.name: getattr(config, one.name) for one in at(Place.TRANSPORT)}
    return TransportSettings(group_id=group_id(config.group), **given)


def resolve(peers: Iterable[str], ipv6: bool) -> list[Address]:
    """The addresses of peers given as host:port or [host]:port; names may have several.

    Some that cannot be looked up are a warning, since others lead to the group; all are an error.
    """
    places = {peer: _place(peer) for peer in peers}  # mistakes first: looking up may take long
    found: list[Address] = []
    unknown: dict[str, str] = {}
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    for peer, (host, port) in places.items():
        try:
            answers = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:  # of names that no server is asked about, too
            reason = error.strerror if isinstance(error, OSError) else "no host has such a name"
            unknown[peer] = f"peer {peer!r} has no address: {reason}"
        else:
            found += [address_of(answer[4]) for answer in answers]  # type: ignore[arg-type]
    if unknown and not found:
        raise TransportError("; ".join(unknown.values()))
    for peer, text in unknown.items():
        extra = {"semcast": {"kind": "peer_unknown", "peer": peer}}
        log.warning("%s; going on with the other peers", text, extra=extra)
    return list(dict.fromkeys(found))


def _place(peer: str) -> tuple[str, int]:
    """The host and the port that a user gave."""
    host, _, port = peer.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
        raise ConfigError(f"peer {peer!r}; say host:port, for instance 10.0.0.7:7400")
    return host.strip("[]"), int(port)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=hosting.after_fork)
atexit.register(hosting.leave_all)
