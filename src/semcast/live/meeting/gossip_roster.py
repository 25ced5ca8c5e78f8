"""The roster of a group that gossips: the few that this process has met, of a group of any size.

Its members are this one and its neighbours: a sample. Hellos are short and say nothing of others.
"""

from collections.abc import Mapping
from typing import Any, Final

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.live.meeting.free_roster import FreeRoster
from semcast.live.meeting.roster import (
    HELLO_BYTES_MAX,
    Peer,
    as_json,
    is_name,
    is_status,
    member_id,
)
from semcast.live.sockets.address import Address

# So many others are remembered; of more, those that were not heard of for longest are forgotten.
PEERS_MAX: Final = 256


class GossipRoster(FreeRoster):
    """Who was met."""

    def hello(self, status: Mapping[str, float], bytes_max: int = HELLO_BYTES_MAX) -> bytes:  # noqa: ARG002
        """What others need of it is the run that they are part of; the rest they may ask for."""
        self.news = False
        run = {name: value for name, value in status.items() if name == "run"}
        return as_json(
            {
                "kind": "hello", "name": self.name, "open": True, "gossip": True, "feed": False,
                "reads": False, "in": self.inside, "try": self.tries, "status": run,
            }
        )  # fmt: skip

    def on_hello(
        self, said: Mapping[str, Any], sender: int, incarnation: int, address: Address, now_ns: int
    ) -> list[tuple[int, int, Address]]:
        name, status = said.get("name"), said.get("status")
        if not is_name(name) or member_id(name) != sender or not is_status(status):
            raise RemoteProtocolError("hello with values out of range")
        peer = self.place(Source(sender, incarnation), address, now_ns)
        if peer is not None:
            peer.name, peer.status = name, status
        return []

    def place(self, source: Source, address: Address, now_ns: int) -> Peer | None:
        """A life is there. Returns what is known of it; None if it is over."""
        sender, life = int(source.sender), int(source.incarnation)
        peer = self.peers.get(sender)
        if peer is not None and peer.incarnation > life:
            return None
        if peer is None or peer.incarnation < life:
            name = "" if peer is None else peer.name
            peer = self.peers[sender] = Peer(sender, name, life, address, now_ns, life)
        peer.address, peer.heard_ns = address, now_ns
        return peer

    def spare(self, recent: Mapping[int, None]) -> list[int]:
        """Those to forget, if there are too many: no neighbours, and not among the most recent.
        `recent` has them in the order in which something last went to them or came from them.
        """
        over = len(self.peers) - PEERS_MAX
        if over <= 0:
            return []
        kept = set(self.members)
        order = [one for one in self.peers if one not in recent] + list(recent)
        return [one for one in order if one in self.peers and one not in kept][:over]

    def addresses(self) -> list[Address]:
        """Nothing goes to everybody."""
        return []
