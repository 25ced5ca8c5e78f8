"""One member in the real world, without its threads: datagrams go in, and datagrams come out.

A session owns the transport, the seals, the roster and, once the group is complete, the member. It
only translates between the member and the network, as the simulated world does. Callers hold a
lock; the session starts no thread, reads no clock and never blocks. What members say to each other
besides messages is in `notes`. Only lives that have proved to be there now count (`door`).
"""

import random
from collections import deque
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any, Final

from semcast.errors import GroupClosedError, RemoteProtocolError
from semcast.ids import EVERYBODY, Source
from semcast.live.config import GroupConfig
from semcast.live.meeting.closed_roster import ClosedRoster
from semcast.live.meeting.door import Came, later_life
from semcast.live.meeting.notes import SOURCE_FROM, SOURCE_TO, NoteExchange
from semcast.live.meeting.roster import is_life
from semcast.live.sockets.address import Address
from semcast.live.sockets.datagrams import Transport
from semcast.protocol.interest import Interest
from semcast.protocol.machine import MachineMaker
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.wire.keys import Keyring
from semcast.wire.message import Message
from semcast.wire.note import decode_note, is_note
from semcast.wire.opener import REPLAYS

# So many notes wait until messages were dealt with; more of them are read at once.
_NOTES_MAX: Final = 64
# Why datagrams do not open that were sealed with another secret, or by another version.
_OTHERWISE: Final = ("key", "tag", "suite", "version")
# A datagram that the socket had no room for is tried again after so long.
RETRY_NS: Final = 1_000_000
# Messages are taken from the member in small portions, so that those for which the socket has no
# room can still be purged.
_DATAGRAMS_PER_CALL: Final = 16
_DATAGRAMS_PER_TURN: Final = 64


class Session(NoteExchange):
    """One member's part in a group."""

    def __init__(
        self,
        config: GroupConfig,
        transport: Transport,
        seeds: list[Address],
        incarnation: int,
        stream: random.Random,
        observer: Callable[[Source], Observer | None] = lambda _: None,
        make: MachineMaker = Member,
        interest: Interest | None = None,
    ) -> None:
        """`incarnation` is larger than that of any former life, as far as is known here. `make`
        makes the member once the group is complete. `interest`: what its application wants.
        """
        super().__init__(config, transport, seeds, incarnation, stream)
        self._make: Final = make
        self._interest: Final = interest
        # Whether this process looks for the group while its application still has a former member.
        self.seeking = False
        # What the application has still to take of a former member's.
        self.leftover: deque[Message] = deque()
        # Whether its application wants to know what it has to undo, in a federation.
        self.wants_undo = True
        # How many callers wait until everybody has what was sent.
        self.drains = 0
        # Why this member cannot go on, once it cannot.
        self.ended: Exception | None = None
        # Whether others put it out: its application may still take what came before.
        self.may_take = False
        # Called when this member has ended, with the lock held; it must not block.
        self.on_ended: Callable[[], None] | None = None
        # Whether, when this member left, all others had what it sent and took.
        self.settled = False
        # Says which members are silent; and is called if this member leaves unsettled.
        self.silent: Callable[[], list[int]] | None = None
        self.on_unsettled: Callable[[int], None] | None = None
        # Called with what happened to this member: the kind of event, and a text.
        self.on_news: Callable[[str, str, int], None] | None = None
        # Called with the kind of an event, the member that it is about, a text and the time.
        self.on_neighbour: Callable[[str, str, str, int], None] | None = None
        # Called with the view before, if there was one, and the view that counts now.
        self.on_view: Callable[[View | None, View, int], None] | None = None
        self._observer: Final = observer
        self._removed: Final[set[int]] = set()
        # Frames of lives that have not proved to be there.
        self.refused_unproved = 0
        # How often the system said that nobody listens where a member was.
        self.ports_closed = 0
        # Sealed datagrams that found no room, by destination; None is everybody.
        self._unsent: list[tuple[Address | None, list[bytes]]] = []
        self._retry_ns = -1
        self._prepare()

    def _prepare(self) -> None:
        """Make what another kind of session needs besides."""

    def _early_frames(self, frames: bytes, source: Source, now_ns: int) -> None:
        """Frames came before there is a member."""

    def _on_unproved(self, frames: bytes, came: Came) -> None:
        """Frames came of a life that has not proved to be there."""

    def _on_otherwise(self, datagram: bytes, address: Address, now_ns: int) -> None:
        """A datagram came that was sealed with another secret, or by another version."""

    # -- in ----------------------------------------------------------------------------------------

    def on_readable(
        self, now_ns: int, ready: Container[int] | None = None, calm: bool = False
    ) -> int:
        """Take in what waits in the ready sockets, or in all. Returns how many datagrams came."""
        received = self.transport.receive(_DATAGRAMS_PER_TURN, ready, calm)
        self.take_in(received, now_ns)
        return len(received)

    def take_in(self, received: list[tuple[bytes, Address]], now_ns: int) -> None:
        """Take these datagrams, which came from these addresses."""
        opener, mine, proved = self.opener, self._mine, self.door.proved
        self._newcomers.refill(now_ns)
        for datagram, address in received:
            if datagram[SOURCE_FROM:SOURCE_TO] == mine:
                continue  # our own multicast has come back
            opened = opener.try_open(datagram)
            if opened is None:  # the opener has counted it
                if opener.why in REPLAYS:
                    self._on_replay(datagram, address, now_ns)
                elif opener.why in _OTHERWISE:
                    self._on_otherwise(datagram, address, now_ns)
                continue
            try:
                frames, source = opened.frames, opened.header.source
                if is_note(frames):
                    came = Came(source, address, opened.header.packet, len(datagram), now_ns)
                    self._notes.append((decode_note(frames), came))
                    if self.member is None or len(self._notes) >= _NOTES_MAX:
                        # The messages behind a note may wait for what it says.
                        self._read_notes(now_ns)
                elif proved.get(source.sender) != source.incarnation:
                    self.refused_unproved += 1
                    packet, size_bytes = opened.header.packet, len(datagram)
                    self._on_unproved(frames, Came(source, address, packet, size_bytes, now_ns))
                elif self.member is None or self.seeking:
                    self._early_frames(frames, source, now_ns)
                elif not self.may_take:
                    # Nobody repairs what a member that was put out misses, so it takes no more in.
                    self.member.receive(frames, source, now_ns)
            except RemoteProtocolError:
                self.refused_notes += 1

    def on_closed(self, addresses: list[Address], now_ns: int) -> None:
        """The system says that nobody listens any more at these addresses. That may be forged, so
        the member only has a reason to look after who was there.
        """
        if self.member is None or self.seeking:
            return
        for address in addresses:
            sender = self.door.who_is_at(address)
            if sender is not None and not self.may_take:
                self.ports_closed += 1
                self.member.refused(sender, now_ns)

    def on_timer(self, now_ns: int) -> None:
        """Do whatever is due by now."""
        if self._notes:
            self._read_notes(now_ns)
        running = self.member is not None and not self.seeking
        if self.member is not None and running and self.member.next_deadline_ns() <= now_ns:
            self.member.on_timer(now_ns)
        if now_ns >= self._hello_ns:
            self.say_hello(now_ns)
        if self.member is None and self.roster.complete:
            # In a group of one, or if all others have left, there is nobody to wait for.
            self._complete(now_ns)

    def next_deadline_ns(self) -> int:
        """When to call `on_timer` and `flush` at the latest."""
        if self._notes:
            return 0
        soonest = self._hello_ns
        if self.member is not None and not self.seeking:
            soonest = min(soonest, self.member.next_deadline_ns())
        if self._retry_ns >= 0:
            soonest = min(soonest, self._retry_ns)
        return soonest

    # -- out ---------------------------------------------------------------------------------------

    def flush(self, now_ns: int) -> None:
        """Send what the member wants sent, as far as the sockets have room."""
        if self._unsent:
            if now_ns < self._retry_ns:
                return
            waiting, self._unsent, self._retry_ns = self._unsent, [], -1
            for to, datagrams in waiting:
                self._send(to, datagrams, now_ns)
            if self._unsent:
                return
        if self.member is None or self.seeking:
            return
        while True:
            self._send_some(self.member.datagrams(now_ns, _DATAGRAMS_PER_CALL), now_ns)
            if self._unsent or not self.member.unsent:
                return

    def _send_some(self, datagrams: list[Outgoing], now_ns: int) -> None:
        sealer = self._sealer
        everybody: list[bytes] = []
        for outgoing in datagrams:
            if outgoing.to == EVERYBODY:
                everybody.append(sealer.seal(outgoing.frames))
                continue
            address = self.roster.address_of(outgoing.to)
            if address is not None:
                self._send(address, [sealer.seal(outgoing.frames)], now_ns)
        if everybody:
            self._send(None, everybody, now_ns)

    @property
    def inside(self) -> bool:
        """Whether this member is in: from now on it misses nothing."""
        return self.member is not None and self.member.inside

    def suspects(self) -> list[int] | None:
        """Who may be dead, as the protocol says; None if whoever says no hello for long is."""
        return None

    @property
    def watches(self) -> bool:
        """Whether to watch all others that are known, how they are doing."""
        return True

    def counters(self) -> dict[str, int]:
        """Counters and gauges of a kind of session, beside those that all have."""
        return {}

    def facts(self) -> dict[str, Any]:
        """What only members of this kind of group say of themselves, if somebody asks."""
        return {}

    @property
    def congested(self) -> bool:
        """Whether datagrams wait because the sockets are full."""
        return bool(self._unsent)

    def _send(self, to: Address | None, datagrams: list[bytes], now_ns: int) -> None:
        if to is None:
            taken = self.transport.send_all(datagrams)
        else:
            taken = self.transport.send(to, datagrams)
        if taken < len(datagrams):
            self._unsent.append((to, datagrams[taken:]))
            self._retry_ns = now_ns + RETRY_NS

    def to_undo(self) -> list[Message]:
        """What the application is to undo before it gets anything else."""
        return []

    def undid(self, messages: list[Message]) -> None:
        """The application has undone these."""

    # -- members -----------------------------------------------------------------------------------

    def _on_roster(self, now_ns: int) -> None:
        """The roster may have changed: begin if it is complete, and remove members that left."""
        roster = self.roster
        self._expect()
        self.transport.peers = roster.addresses()
        if self.member is None:
            # The clock may be set back since the former life, or another process has this name.
            if roster.former_incarnation >= self.me.incarnation and not self._begin_later():
                return
            if roster.complete:
                self._complete(now_ns)
            return
        if roster.evicted.get(roster.me, -1) >= self.me.incarnation:
            self._end_in_the_way()
        if roster.former_incarnation > self.me.incarnation:
            self._end_for_namesake()
        self._remove_gone(now_ns)

    def _begin_later(self) -> bool:
        """Take a life after the one that others know of; False if there is none, which ends it."""
        life = later_life(self.roster.former_incarnation, self._stream.getrandbits(62))
        return self._begin_life(life)

    def _begin_life(self, life: int) -> bool:
        """Begin that life; False if it is out of range, which ends it."""
        if not is_life(life):
            self.end(f"{self.config.name!r} has used up its lives; join by another name")
            return False
        self._begin(life)
        return True

    def _end_in_the_way(self) -> None:
        """The others have put this member out, as `evict_after_s` says."""
        self.end(
            f"{self.config.name} was put out of group {self.config.group!r}: it stood in the "
            "way for longer than evict_after_s; join again",
            may_take=True,
        )

    def _end_for_namesake(self) -> None:
        """Another process has this name, and is there."""
        forger = "" if isinstance(self.keys, Keyring) else ", and a secret if it was a forger"
        self.end(
            f"another process has joined {self.config.group!r} as {self.config.name!r}; "
            f"give each member a name of its own{forger}",
            may_take=True,
        )

    def _remove_gone(self, now_ns: int) -> None:
        assert self.member is not None
        for member in self.roster.members:
            if member == self.roster.me:
                continue
            if self.roster.gone(member) and member not in self._removed:
                self._removed.add(member)
                self.member.remove(member, now_ns)
            elif not self.roster.gone(member):
                # It is back, which the member learns from its first datagram in another life.
                self._removed.discard(member)

    def _complete(self, now_ns: int) -> None:
        """Begin the protocol, since all members are known and agree."""
        roster = self.roster
        assert isinstance(roster, ClosedRoster)
        names = [roster.name_of(member) for member in roster.members]
        mtu_bytes, room_bytes = self.transport.path_mtu_bytes, self.transport.receive_buffer_bytes
        limits = self.config.member_config(len(names), mtu_bytes, room_bytes // 2, names)
        limits = replace(limits, only=self._interest)
        view, observer, joins = roster.view(limits.f), self._observer(self.me), roster.was_here
        self.member = self._make(limits, self.me, view, self._stream, observer, joins)
        self._remove_gone(now_ns)
        self.say_hello(now_ns)

    def evict(self, member: int, now_ns: int) -> None:
        """Put a member out of the group, for everybody."""
        peer = self.roster.peers.get(member)
        self.roster.evicted[member] = 0 if peer is None else peer.incarnation
        self._on_roster(now_ns)
        self.say_hello(now_ns)

    # -- the end -----------------------------------------------------------------------------------

    def end(self, why: str, may_take: bool = False) -> None:
        """Go on no longer; of several reasons the first counts. If the application `may_take` what
        waits, it may do so until this member leaves or fails.
        """
        if self.ended is None:
            self.ended = GroupClosedError(why)
            self.may_take = may_take
            if self.on_ended is not None:
                self.on_ended()
        elif not may_take:
            self.may_take = False

    def may_leave(self, now_ns: int) -> bool:
        """Whether nothing is lost if this member leaves. Once asked, it sends no new messages."""
        if self.ended is not None:
            raise self.ended
        if self.member is None:
            return True
        self.member.begin_leaving(now_ns)
        return self.member.may_leave(self._silent(), now_ns)

    def _silent(self) -> list[int]:
        return [] if self.silent is None else self.silent()

    def _settle(self, now_ns: int) -> None:
        """See whether what this member sent and took is safe at the others, and say so if not."""
        if self.member is None:
            self.settled = True
            return
        self.member.begin_leaving(now_ns)
        self.settled = self.member.settled(self._silent())
        if not self.settled and self.on_unsettled is not None:
            self.on_unsettled(now_ns)

    def leave(self, now_ns: int) -> None:
        """Tell the others not to wait for this member any more. Nothing can be sent after it."""
        if self.ended is None:
            self._settle(now_ns)
        self.end(f"{self.config.name} has left {self.config.group!r}")
        self.flush(now_ns)
        self.roster.left[self.roster.me] = self.me.incarnation
        for _ in range(3):  # one may be lost; if all are, others wait until they give up
            self.say_hello(now_ns)

    def close(self) -> None:
        """Close the sockets."""
        self.transport.close()
