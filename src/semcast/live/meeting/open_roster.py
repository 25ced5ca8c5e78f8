"""The open roster: who is there of a group that anybody with the secret may join, and where.

Who is a member is decided by the protocol, in views; here is only what people call them, where they
are, and how they say they are doing. Hellos are short and say nothing of others. Where those are
whom a process has not met is told in books: rows of name, life and address.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.live.meeting.free_roster import FreeRoster
from semcast.live.meeting.roster import (
    HELLO_BYTES_MAX,
    Peer,
    as_json,
    is_address,
    is_life,
    is_name,
    is_status,
    member_id,
)
from semcast.live.sockets.address import Address
from semcast.protocol.membership.view import View
from semcast.settings.table import GROUP_SIZE_MAX

# A name, a life and an address.
Row = tuple[str, int, str, int]
# What is around the rows of a book, and around a row.
_BOOK_BYTES: Final = 32
# How votes travel unless a group says otherwise.
_GOSSIP: Final = "gossip"
# Somebody who is in no view, and not heard of for so long, is forgotten.
FORGET_NS: Final = 10_000_000_000


class OpenRoster(FreeRoster):
    """Who is known of an open group."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        reads: bool,
        feed: bool,
        federation: bool = False,
        stability: str = _GOSSIP,
    ) -> None:
        """`reads`: this process only receives. `feed`: each sender has readers of its own.
        `federation`: its members are the sites of one. `stability`: how members' votes travel.
        """
        super().__init__(name, incarnation)
        # Readers have no vote, and senders of a feed no need of one.
        self._stability: Final = _GOSSIP if reads or feed or federation else stability
        self._reads: Final = reads
        self._feed: Final = feed
        self._federation: Final = federation
        # Others whose address is asked for, as that of members is.
        self.wanted: Final[dict[int, None]] = {}
        # Of a federation: who began it, a life and its site; and whether those of its sites that
        # this one hears are too few to go on.
        self.begun: tuple[int, int] = (0, 0)
        self.minority = False

    # -- out ---------------------------------------------------------------------------------------

    def hello(self, status: Mapping[str, float], bytes_max: int = HELLO_BYTES_MAX) -> bytes:  # noqa: ARG002
        self.news = False
        return as_json(
            {
                "kind": "hello", "name": self.name, "open": True, "in": self.inside,
                "reads": self._reads, "feed": self._feed, "try": self.tries, "status": dict(status),
                **self._of_federation(), **self._of_stability(),
            }
        )  # fmt: skip

    def _of_stability(self) -> dict[str, str]:
        """How members' votes travel, unless it is as usual."""
        return {} if self._stability == _GOSSIP else {"stability": self._stability}

    def _of_federation(self) -> dict[str, Any]:
        """What only sites say: that they are, how many are together, and in which federation."""
        if not self._federation:
            return {}
        standing = {"sites": len(self.members), "begun": self.begun, "minority": self.minority}
        return {"federation": True, **standing}

    def book(self, senders: Iterable[int], bytes_max: int) -> list[list[Row]]:
        """Where these are, as far as that is known, in parts of at most so many bytes, or a row."""
        parts: list[list[Row]] = []
        room = 0
        for peer in (self.peers.get(sender) for sender in senders):
            if peer is None or peer.address[1] <= 0 or not peer.name:
                continue
            row: Row = (peer.name, peer.incarnation, *peer.address)
            size = len(as_json(row)) + 1
            if not parts or size > room:
                parts.append([])
                room = bytes_max - _BOOK_BYTES
            parts[-1].append(row)
            room -= size
        return parts

    def addresses(self) -> list[Address]:
        known = sorted(self.peers.values(), key=lambda peer: peer.id)
        return [peer.address for peer in known if peer.address[1] > 0 and not self.gone(peer.id)]

    def unknown(self) -> list[int]:
        """Members, and others that are wanted, that nobody has said the address of."""
        return [
            one
            for one in dict.fromkeys((*self.members, *self.wanted))
            if one != self.me and (one not in self.peers or self.peers[one].address[1] == 0)
        ]

    # -- in ----------------------------------------------------------------------------------------

    def is_of_kind(self, reliability: str, said: Mapping[str, Any]) -> bool:
        if not super().is_of_kind(reliability, said):
            return False
        other = str(said.get("stability", _GOSSIP))[:16]
        if reliability != "group" or self._reads or said.get("reads") is True:
            return True
        if other == self._stability:
            return True
        # Its votes would be counted by nobody, and nothing would ever be stable.
        who = repr(str(said.get("name"))[:64])
        self.other_kind = f"{who} has another stability; join with stability={other!r}"
        return False

    def on_hello(
        self, said: Mapping[str, Any], sender: int, incarnation: int, address: Address, now_ns: int
    ) -> list[tuple[int, int, Address]]:
        name, reads, status = said.get("name"), said.get("reads"), said.get("status")
        if not is_name(name) or member_id(name) != sender or not is_status(status):
            raise RemoteProtocolError("hello with values out of range")
        peer = self._peer(sender, name, incarnation)
        if peer is not None:
            peer.heard_ns = now_ns
            if address[1] > 0:
                peer.address = address
            peer.status, peer.reads = status, reads is True
        return []

    def on_book(self, rows: object, now_ns: int) -> list[int]:
        """Somebody in the group says where others are. Returns those that are new here."""
        if not isinstance(rows, list) or len(rows) > GROUP_SIZE_MAX:
            raise RemoteProtocolError("book that makes no sense")
        found = []
        for row in rows:
            if not isinstance(row, list) or len(row) != 4:
                raise RemoteProtocolError("row of a book that makes no sense")
            name, life, host, port = row
            if not is_name(name) or not is_life(life) or not is_address(host, port):
                raise RemoteProtocolError("row of a book with values out of range")
            sender = member_id(name)
            if sender == self.me:
                continue
            peer = self._peer(sender, name, life)
            if peer is not None and peer.incarnation == life and peer.address[1] == 0:
                peer.address, peer.heard_ns = (host, port), now_ns
                found.append(sender)
        return found

    def _peer(self, sender: int, name: str, life: int) -> Peer | None:
        """What is known of a life; None if it is over, or too many are known."""
        peer = self.peers.get(sender)
        if peer is not None and peer.incarnation > life:
            return None
        if peer is None or peer.incarnation < life:
            if peer is None and len(self.peers) >= GROUP_SIZE_MAX:
                return None
            # Whatever life it is, its name is the one that its number is made of.
            known = "" if peer is None else peer.name
            first = life if peer is None else peer.first_incarnation
            peer = self.peers[sender] = Peer(sender, name or known, life, ("", 0), 0, first)
        if name:
            peer.name = name
        return peer

    def place(self, source: Source, address: Address, now_ns: int) -> None:
        """A life has proved to be there, which may not have said its name yet."""
        peer = self._peer(int(source.sender), "", int(source.incarnation))
        if peer is not None:
            peer.address, peer.heard_ns = address, now_ns

    # -- views -------------------------------------------------------------------------------------

    def install(self, view: View, now_ns: int) -> None:
        """These are in the group now."""
        for sender in self.members:
            if not view.is_present(sender) and sender != self.me:
                peer = self.peers.get(sender)
                self.left[sender] = view.life(sender) if peer is None else peer.incarnation
        self.members = tuple(view.present)
        for at, sender in enumerate(view.members):
            if view.is_present(sender) and sender != self.me:
                peer = self._peer(sender, view.names[at], view.lives[at])
                if peer is not None:
                    peer.heard_ns = max(peer.heard_ns, now_ns)
                self.left.pop(sender, None)

    def forget(self, now_ns: int) -> list[int]:
        """Forget those who are in no view and not heard of; says who they are."""
        old_ns = now_ns - FORGET_NS
        found: list[int] = []
        if len(self.peers) < len(self.members):  # all of them are in the view
            return found
        members = set(self.members)
        for peer in list(self.peers.values()):
            if peer.id not in members and peer.heard_ns < old_ns:
                del self.peers[peer.id]
                self.left.pop(peer.id, None)
                self.evicted.pop(peer.id, None)
                found.append(peer.id)
        return found
