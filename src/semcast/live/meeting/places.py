"""Places: where the members of an open group are. Books of others go in, and books come out.

Whoever has let a newcomer in knows where it is, and says so to everybody; and it says to the
newcomer where everybody is. Who still does not know where somebody is asks.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.live.meeting.door import Came
from semcast.live.meeting.open_roster import OpenRoster
from semcast.live.meeting.roster import is_life
from semcast.live.meeting.session import Session
from semcast.protocol.outbox import Outgoing

# Who does not know where a member is asks somebody who may, so often at first.
_WHERE_NS: Final = 10_000_000
_WHERE_NS_MAX: Final = 1_000_000_000
_WHERE_MAX: Final = 32
# What a newcomer says to everybody goes to each of so many by itself.
_MET_MAX: Final = 4


class Places(Session):
    """The part of an open session that knows where everybody is."""

    def _prepare(self) -> None:
        self._open = cast(OpenRoster, self.roster)
        # When to ask where somebody is, and after how long to ask again.
        self._where_ns = NEVER
        self._where_pause_ns = _WHERE_NS
        self.handlers["book"] = self._on_book
        self.handlers["where"] = self._on_where

    def _seek_places(self, now_ns: int) -> None:
        """Ask soon, if it is not known of some members where they are."""
        if self._open.unknown():
            self._where_pause_ns = _WHERE_NS
            self._where_ns = now_ns + _WHERE_NS

    def _tell_places(self, new: list[int]) -> None:
        """Say where newcomers are to everybody, and where everybody is to them, if they have proved
        to this member that they are there.
        """
        met = [one for one in new if self.door.has_met(one)]
        if not met or not self._open.members:
            return
        for rows in self._open.book(met, self._note_room()):
            self.transport.send_all([self._sealed({"kind": "book", "rows": rows})])
        others = [one for one in self._open.members if one not in met]
        for rows in self._open.book(others, self._note_room()):
            datagram = self._sealed({"kind": "book", "rows": rows})
            for one in met:
                self.transport.send(self.door.place_of(one), [datagram])

    def _on_book(self, said: Mapping[str, Any], came: Came) -> None:
        if not self.door.believes(came):
            return
        found = self._open.on_book(said.get("rows"), came.now_ns)
        for sender in found:
            peer = self._open.peers[sender]
            self.door.place(Source(sender, peer.incarnation), peer.address)
        if found:
            self.transport.peers = self._open.addresses()

    def _ask_where(self, now_ns: int) -> None:
        """Ask somebody where the members are that this process has no address of."""
        unknown = self._open.unknown()
        if not unknown:
            self._where_ns = NEVER
            return
        self._where_ns = now_ns + self._where_pause_ns
        self._where_pause_ns = min(2 * self._where_pause_ns, _WHERE_NS_MAX)
        # A newcomer, who has no view yet, asks those that it has met.
        candidates = self._open.members or tuple(self.door.proved)
        known = [one for one in candidates if self.door.has_place(one)]
        if known:
            soon = self._where_pause_ns <= 4 * _WHERE_NS
            first = known[0] if soon else self._stream.choice(known)
            note = {"kind": "where", "ids": unknown[:_WHERE_MAX]}
            self.transport.send(self.door.place_of(first), [self._sealed(note)])

    def _on_where(self, said: Mapping[str, Any], came: Came) -> None:
        ids = said.get("ids")
        # An answer is not much larger than the question, and goes to a life that is there.
        if not self.door.believes(came) or not isinstance(ids, list):
            return
        asked = [one for one in ids[:_WHERE_MAX] if is_life(one)]
        for rows in self._open.book(asked, self._note_room()):
            self.transport.send(came.address, [self._sealed({"kind": "book", "rows": rows})])

    def _to_the_proved(self, datagrams: list[Outgoing]) -> list[Outgoing]:
        """What a newcomer says to everybody goes to those who have met it, if these are few: others
        would not believe it.
        """
        met = [one for one in self.door.proved if self.door.has_place(one)]
        if len(met) > _MET_MAX or not self.transport.multicast:
            return datagrams
        return [
            Outgoing(one, outgoing.frames)
            for outgoing in datagrams
            for one in (met if outgoing.to == EVERYBODY else [int(outgoing.to)])
        ]
