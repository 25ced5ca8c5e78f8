"""Sites: a configuration goes in; the machine of one life of a site comes out.

This is the only place that knows which protocol a federation has.
"""

import random
from collections.abc import Mapping
from typing import Final

from semcast.ids import Source
from semcast.live.config import GroupConfig
from semcast.live.federation_settings import as_sites, federation_config
from semcast.live.meeting.roster import member_id
from semcast.live.sockets.datagrams import Transport
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.config import Charter, Seat
from semcast.protocol.propagation.federated import Federated
from semcast.protocol.propagation.site import Site, as_site
from semcast.protocol.propagation.store import Store

TWO_PHASE: Final = "two-phase"


def new_site(
    config: GroupConfig,
    transport: Transport,
    me: Source,
    groups: tuple[str, ...],
    stream: random.Random,
    observer: Observer | None,
    store: Store | None,
    charter: Charter | None,
) -> Federated:
    """A site that is in no graph yet; or one whose groups are those of a charter for ever."""
    room_bytes = transport.receive_buffer_bytes // 2
    limits = config.member_config(1, transport.path_mtu_bytes, room_bytes)
    federation = federation_config(config)
    if config.protocol == TWO_PHASE:
        # It is there to compare with, so most processes need not load it.
        from semcast.protocol.propagation.two_phase.site import TwoPhaseSite

        name = config.name
        return TwoPhaseSite(limits, me, name, groups, stream, observer, federation, charter)
    return Site(limits, me, config.name, groups, stream, observer, federation, charter, store)


def undone(site: Federated) -> int:
    """How many messages the application of a site that came back has to undo, if that is news."""
    found = as_site(site)
    rollback = None if found is None else found.take_rollback()
    return 0 if rollback is None else len(rollback.undo)


def charter_of(config: GroupConfig, lives: Mapping[int, int]) -> Charter | None:
    """The sites that are awaited, in the lives that have proved to be there; None while some have
    not.
    """
    seats = []
    for name, groups in as_sites(config.sites):
        life = lives.get(member_id(name))
        if life is None:
            return None
        seats.append(Seat(member_id(name), life, name, tuple(sorted(groups))))
    return Charter(tuple(sorted(seats, key=lambda seat: seat.sender)))
