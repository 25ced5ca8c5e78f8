"""One member in the real world, without its threads: datagrams in, datagrams out, when told to.

A session owns the transport, the seals, the roster and, once the group is complete, the member. It
only translates: what a member wants is done as the simulated world does it. Whoever calls holds a
lock; the session starts no thread, reads no clock and never blocks.

Frames and hellos count only from lives that have proved to be there now (`door`); of all others a
note is at most answered, by one that is no larger.
"""

import json
import random
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

from semcast.errors import GroupClosedError, RemoteProtocolError
from semcast.ids import Source
from semcast.live.address import Address
from semcast.live.askers import asker_ids
from semcast.live.config import MEMBERS_MAX, SUITES, GroupConfig
from semcast.live.datagrams import Transport
from semcast.live.door import KEY_BYTES, Came, Door, later_life
from semcast.live.roster import Roster, is_life
from semcast.protocol.member import Member
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import EVERYBODY, Outgoing
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.header import HEADER_BYTES, TAG_BYTES, decode_header
from semcast.wire.keys import Keyring, Unsealed, group_id
from semcast.wire.limits import IP_UDP_BYTES
from semcast.wire.newcomers import Newcomers
from semcast.wire.note import NOTE_BYTES_MAX, decode_note, encode_note, is_note
from semcast.wire.seal import REPLAYS, Opener, Sealer

# How often hellos go out: while members look for each other, and afterwards.
SEEKING_NS: Final = 50_000_000
HELLO_NS: Final = 500_000_000
# News are told at once, but hellos with nothing else to say are at least so far apart.
NEWS_NS: Final = 5_000_000
# Of replays one in this time is looked at, to see whether it is genuine: forgeries cost little.
CHECK_NS: Final = 1_000_000
# Notes that wait for what is due; beyond these they are dealt with as they come.
_NOTES_MAX: Final = 64
# Datagrams that the socket had no room for wait so long until they are tried again.
RETRY_NS: Final = 1_000_000
# New messages are taken from the member in small portions: what the socket has no room for can
# then still be purged.
_DATAGRAMS_PER_CALL: Final = 16
_DATAGRAMS_PER_TURN: Final = 64
# Where a datagram's source stands in its header; see wire/header.py.
_SOURCE_FROM: Final = 12
_SOURCE_TO: Final = 28
# What is around a note in a datagram, IP and UDP included.
_AROUND_BYTES: Final = IP_UDP_BYTES + HEADER_BYTES + TAG_BYTES + FRAME_HEAD_BYTES
# Addresses that hellos are sent to although nobody answered from there yet: those a user named.
_SEEDS_MAX: Final = 256

# What a session does with a note of some kind.
Handler = Callable[[Mapping[str, Any], Came], None]


class Session:
    """One member's part in a group."""

    def __init__(
        self,
        config: GroupConfig,
        transport: Transport,
        seeds: list[Address],
        incarnation: int,
        stream: random.Random,
        observer: Callable[[Source], Observer | None] = lambda _: None,
    ) -> None:
        """`incarnation` is larger than that of any former life, as far as is known here."""
        self.config: Final = config
        self.transport: Final = transport
        self.keys: Final[Keyring | Unsealed] = config.keys()
        self.group_id: Final = group_id(config.group)
        self.roster: Final = Roster(config.name, incarnation, config.members, config.size)
        self._newcomers: Final = Newcomers()
        self.opener: Final = Opener(
            self.group_id, self.keys, proving=True, newcomers=self._newcomers
        )
        self.door: Final = Door(stream.randbytes(KEY_BYTES))
        self.member: Member | None = None
        # Told with every hello; the owner keeps it up to date.
        self.status: dict[str, float] = {}
        # How many callers wait until everybody has what was sent.
        self.drains = 0
        # By their "kind", what to do with notes. Whoever adds one says what a recording of it does:
        # see tests/live/test_replays.py.
        self.handlers: Final[dict[str, Handler]] = {
            "hello": self._on_hello,
            "prove": self._on_prove,
            "old": self._on_old,
        }
        # Why this member can go on no longer, if so.
        self.ended: Exception | None = None
        # Whether it was put out by others: then what came before may still be taken.
        self.may_take = False
        # Called when that comes to be so, by whoever holds the lock; must not block.
        self.on_ended: Callable[[], None] | None = None
        # Of a member that left: whether what it sent and took was safe at the others by then.
        self.settled = False
        # Says which members are silent; and called if this one leaves and is not settled.
        self.silent: Callable[[], list[int]] | None = None
        self.on_unsettled: Callable[[int], None] | None = None
        # Where to look for others, as this member was told when it began.
        self._seeds: Final = dict.fromkeys(seeds[:_SEEDS_MAX])
        self._stream: Final = stream
        self._observer: Final = observer
        self._removed: Final[set[int]] = set()
        self._expected: tuple[int, ...] = ()
        self._hello_ns = 0
        self._said_ns = -HELLO_NS
        self._answered_ns = 0
        self._checked_ns = 0
        # Messages go first: notes that came with them, and how they came.
        self._notes: list[tuple[bytes, Came]] = []
        # Datagrams that opened and made no sense; the opener counts those that did not open.
        self.refused_notes = 0
        # Frames of lives that have not proved to be there.
        self.refused_unproved = 0
        # Sealed datagrams that found no room, by destination; None is everybody.
        self._unsent: list[tuple[Address | None, list[bytes]]] = []
        self._retry_ns = -1
        self._begin(incarnation)

    def _begin(self, incarnation: int) -> None:
        self.me = Source(self.roster.me, incarnation)
        self.me.name = self.config.name
        self.roster.incarnation = incarnation
        self._sealer = Sealer(self.group_id, self.me, self.keys, SUITES[self.config.suite])
        sample = self._sealer.seal(b"")
        self._mine = sample[_SOURCE_FROM:_SOURCE_TO]
        self._expect()

    def _expect(self) -> None:
        """Tell the opener whom to expect, as soon as it is known who the members are."""
        members = self.roster.members
        if members and members is not self._expected:
            self._expected = members
            self._newcomers.expect(asker_ids() | frozenset(members))

    # -- in ----------------------------------------------------------------------------------------

    def on_readable(
        self, now_ns: int, ready: Container[int] | None = None, calm: bool = False
    ) -> int:
        """Take what waits in the sockets that are ready, or in all; says how many datagrams."""
        received = self.transport.receive(_DATAGRAMS_PER_TURN, ready, calm)
        self.take_in(received, now_ns)
        return len(received)

    def take_in(self, received: list[tuple[bytes, Address]], now_ns: int) -> None:
        """Take these datagrams, which came from these addresses."""
        opener, mine, proved = self.opener, self._mine, self.door.proved
        self._newcomers.refill(now_ns)
        for datagram, address in received:
            if datagram[_SOURCE_FROM:_SOURCE_TO] == mine:
                continue  # our own multicast has come back
            opened = opener.try_open(datagram)
            if opened is None:  # the opener has counted it
                if opener.why in REPLAYS:
                    self._on_replay(datagram, address, now_ns)
                continue
            try:
                frames, source = opened.frames, opened.header.source
                if is_note(frames):
                    came = Came(source, address, opened.header.packet, len(datagram), now_ns)
                    self._notes.append((decode_note(frames), came))
                    if self.member is None or len(self._notes) >= _NOTES_MAX:
                        # It may be what the messages behind it wait for.
                        self._read_notes(now_ns)
                elif proved.get(source.sender) != source.incarnation:
                    self.refused_unproved += 1
                elif self.member is not None and not self.may_take:
                    # To who was put out nobody sends again what it misses: nothing more comes in.
                    self.member.receive(frames, source, now_ns)
            except RemoteProtocolError:
                self.refused_notes += 1

    def _on_replay(self, datagram: bytes, address: Address, now_ns: int) -> None:
        """Somebody may not know that another of its name was here, or that its clock was set back
        since its former life: name both lives, once in a while, if the datagram is genuine.

        Whoever replays one names whom to bother as its sender, so the answer is no larger.
        """
        if now_ns - self._checked_ns < CHECK_NS or now_ns - self._answered_ns <= SEEKING_NS:
            return
        self._checked_ns = now_ns
        header = decode_header(datagram)
        knows = self.door.proved.get(header.source.sender, -1)
        if header.source.incarnation < knows and self.opener.authentic(datagram):
            self._answered_ns = now_ns
            old = {"kind": "old", "you": int(header.source.incarnation), "knows": knows}
            came = Came(header.source, address, header.packet, len(datagram), now_ns)
            self.answer(old, came)

    def on_timer(self, now_ns: int) -> None:
        """Whatever is due by now."""
        if self._notes:
            self._read_notes(now_ns)
        if self.member is not None and self.member.next_deadline_ns() <= now_ns:
            self.member.on_timer(now_ns)
        if now_ns >= self._hello_ns:
            self.say_hello(now_ns)
        if self.member is None and self.roster.complete:
            # There is nobody to wait for: a group of one, or all others have left.
            self._complete(now_ns)

    def next_deadline_ns(self) -> int:
        """When to call `on_timer` and `flush` at the latest."""
        if self._notes:
            return 0
        soonest = self._hello_ns
        if self.member is not None:
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
        if self.member is None:
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

    # -- notes -------------------------------------------------------------------------------------

    def say_hello(self, now_ns: int) -> None:
        """Tell everybody that this member is there, and how it is doing."""
        seeking = self.member is None or not self.roster.complete
        self._hello_ns = now_ns + (SEEKING_NS if seeking else HELLO_NS)
        self._said_ns = now_ns
        datagram = self._hello()
        self.transport.look_again()
        self.transport.send_all([datagram])
        if seeking or not self.transport.multicast:
            known = (
                set(self.roster.addresses())
                if self.transport.multicast
                else set(self.transport.peers)
            )
            # Multicast has reached those who are newly there.
            there = [] if self.transport.multicast else self._newly_there()
            for seed in {**self._seeds, **dict.fromkeys(there)}:
                if seed not in known:
                    self.transport.send(seed, [datagram])

    def _newly_there(self) -> list[Address]:
        """Where members are that have proved to be there, and not yet said hello."""
        peers, members = self.roster.peers, self.roster.members
        return [
            self.door.place_of(sender)
            for sender, life in self.door.proved.items()
            if (not members or sender in members)
            and (sender not in peers or peers[sender].incarnation != life)
        ]

    def _hello(self) -> bytes:
        room = self.transport.path_mtu_bytes - _AROUND_BYTES
        note = self.roster.hello(self.status, min(room, NOTE_BYTES_MAX))
        return self._sealer.seal(encode_note(note))

    def send_note(self, note: Mapping[str, Any], to: Address) -> None:
        """A note for somebody who has shown to be there; it may be lost, as any datagram."""
        self.transport.send(to, [self._sealed(note)])

    def answer(self, note: Mapping[str, Any], came: Came) -> int:
        """A note to where one came from, where perhaps nobody asked for it: it must not be larger
        than what came, and there are only so many. Says how many bytes were sent.
        """
        if not self.door.may_send(came.now_ns):
            return 0
        datagram = self._sealed(note)
        if len(datagram) > came.datagram_bytes:
            return 0
        self.transport.send(came.address, [datagram])
        return len(datagram)

    def _sealed(self, note: Mapping[str, Any]) -> bytes:
        return self._sealer.seal(encode_note(json.dumps(note, separators=(",", ":")).encode()))

    def _read_notes(self, now_ns: int) -> None:
        notes, self._notes = self._notes, []
        for note, came in notes:
            try:
                self._on_note(note, came)
            except RemoteProtocolError:
                self.refused_notes += 1
        if self.roster.news:
            self._hello_ns = min(self._hello_ns, max(now_ns, self._said_ns + NEWS_NS))

    def _on_note(self, note: bytes, came: Came) -> None:
        try:
            said = json.loads(note)
        except (ValueError, RecursionError):
            raise RemoteProtocolError("note that is not JSON") from None
        if not isinstance(said, dict) or not isinstance(said.get("kind"), str):
            raise RemoteProtocolError("note without a kind")
        handler = self.handlers.get(said["kind"])
        if handler is not None:
            handler(said, came)

    def _on_hello(self, said: Mapping[str, Any], came: Came) -> None:
        """Believe it if its sender's life is proved; else have that proved, and the address too."""
        if came.source.sender == self.roster.me and came.source.incarnation < self.me.incarnation:
            return  # of a former life of this member; if that were a process, others would tell it
        if not self.door.is_there(came):
            challenge = self.door.challenge(came)
            if challenge is not None:
                self.answer(challenge, came)
        if self.door.believes(came):
            self._believe(said, came)
        elif not self.roster.members or came.source.sender in self.roster.members:
            self.door.keep(said, came)

    def _on_prove(self, said: Mapping[str, Any], came: Came) -> None:
        """Somebody wants to know whether this member is there, or says that it is."""
        proves, answer = self.door.on_prove(said, came)
        if answer is not None:
            self.answer(answer, came)
        if not proves:
            return
        if came.source.sender == self.roster.me:
            # Another process has this name, and is there now.
            self._was_here(came.source.incarnation, came.now_ns)
        elif self._let_in(came):
            kept = self.door.kept(came.source.sender)
            if kept is not None:
                self._believe(*kept)

    def _let_in(self, came: Came) -> bool:
        """A life has proved to be there: whether it counts from here on, and was not known."""
        sender, life = came.source.sender, came.source.incarnation
        if self.door.proved.get(sender) != life:
            wanted = sender in self.roster.members or len(self.door.proved) < MEMBERS_MAX
            if not wanted or not is_life(life) or not self.opener.prove(came.source, came.packet):
                return False
            # It waits for a hello that names it.
            self.roster.news = True
        self.door.let_in(came)
        self.roster.moved(sender, life, came.address)
        self.transport.peers = self.roster.addresses()
        return True

    def _on_old(self, said: Mapping[str, Any], came: Came) -> None:
        """Somebody knows a later life of this member. It names this life, so it is no recording."""
        knows = said.get("knows")
        if not is_life(knows) or not is_life(said.get("you")):
            raise RemoteProtocolError("former life out of range")
        if said["you"] == self.me.incarnation:
            self._was_here(knows, came.now_ns)

    def _was_here(self, life: int, now_ns: int) -> None:
        self.roster.former_incarnation = max(self.roster.former_incarnation, life)
        self._on_roster(now_ns)

    def _believe(self, said: Mapping[str, Any], came: Came) -> None:
        """A hello that is fresh, of a life that is there."""
        source, now_ns = came.source, came.now_ns
        place = self.door.place_of(source.sender)
        new = self.roster.on_hello(said, source.sender, source.incarnation, place, now_ns)
        self._introduce(new, came)
        answers = self.roster.gone(source.sender) or self._is_stranger(source)
        if answers and now_ns - self._answered_ns > SEEKING_NS:
            # It was put out, or never counted, and may not have heard of it.
            self._answered_ns = now_ns
            self.transport.send(place, [self._hello()])
        self._on_roster(now_ns)

    def _is_stranger(self, source: Source) -> bool:
        """Whether this is somebody whom a complete group did not count and, as it has the secret,
        may tell so. Without multicast it would hear nothing of this group.
        """
        sealed = isinstance(self.keys, Keyring)
        return sealed and self.member is not None and source.sender in self.roster.strangers

    def _introduce(self, new: list[tuple[int, int, Address]], came: Came) -> None:
        """Somebody says who is where. See whether they are, in no more bytes than it was said in:
        whatever it names, nobody else is sent more because of one hello.
        """
        self._stream.shuffle(new)
        room = came.datagram_bytes
        for member, life, address in new:
            there = Came(Source(member, life), address, 0, room, came.now_ns)
            challenge = self.door.challenge(there)
            if challenge is not None:
                room -= self.answer(challenge, there)

    def _on_roster(self, now_ns: int) -> None:
        """The roster may have changed: begin, let go those that left."""
        roster = self.roster
        self._expect()
        self.transport.peers = roster.addresses()
        if self.member is None:
            if roster.former_incarnation >= self.me.incarnation:
                # The clock went back since the former life, or somebody has our name.
                life = later_life(roster.former_incarnation, self._stream.getrandbits(62))
                if not is_life(life):
                    self.end(f"{self.config.name!r} has used up its lives; join by another name")
                    return
                self._begin(life)
            if roster.complete:
                self._complete(now_ns)
            return
        if roster.evicted.get(roster.me, -1) >= self.me.incarnation:
            self.end(
                f"{self.config.name} was put out of group {self.config.group!r}: it stood in the "
                "way for longer than evict_after_s; join again",
                may_take=True,
            )
        if roster.former_incarnation > self.me.incarnation:
            self.end(
                f"another process has joined {self.config.group!r} as {self.config.name!r}; "
                "give each member a name of its own"
                + ("" if isinstance(self.keys, Keyring) else ", and a secret if it was a forger"),
                may_take=True,
            )
        self._remove_and_restore(now_ns)

    def _remove_and_restore(self, now_ns: int) -> None:
        assert self.member is not None
        for member in self.roster.members:
            if member == self.roster.me:
                continue
            if self.roster.gone(member) and member not in self._removed:
                self._removed.add(member)
                self.member.remove(member, now_ns)
            elif not self.roster.gone(member) and member in self._removed:
                self._removed.discard(member)
                self.member.restore(member)

    def _complete(self, now_ns: int) -> None:
        """All members are known and agree: the protocol begins."""
        roster = self.roster
        limits = self.config.member_config(
            len(roster.members),
            self.transport.path_mtu_bytes,
            self.transport.receive_buffer_bytes // 2,
            [roster.name_of(member) for member in roster.members],
        )
        self.member = Member(
            limits,
            self.me,
            list(roster.members),
            self._stream,
            self._observer(self.me),
            joining=roster.former_incarnation >= 0,
        )
        for one in roster.members:
            self.member.name(one, roster.name_of(one))
        self._remove_and_restore(now_ns)
        self.say_hello(now_ns)

    def evict(self, member: int, now_ns: int) -> None:
        """Put a member out of the group, for everybody."""
        peer = self.roster.peers.get(member)
        self.roster.evicted[member] = 0 if peer is None else peer.incarnation
        self._on_roster(now_ns)
        self.say_hello(now_ns)

    # -- the end -----------------------------------------------------------------------------------

    def end(self, why: str, may_take: bool = False) -> None:
        """Go on no longer; of several reasons the first is told. What waits may be taken until
        this member leaves or fails.
        """
        if self.ended is None:
            self.ended = GroupClosedError(why)
            self.may_take = may_take
            if self.on_ended is not None:
                self.on_ended()
        elif not may_take:
            self.may_take = False

    def may_leave(self, now_ns: int) -> bool:
        """Whether nothing is lost with this member; from the first question on it sends no more."""
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
        for _ in range(3):  # it may be lost; if all are, others wait until they give up
            self.say_hello(now_ns)

    def close(self) -> None:
        """Let go of the sockets."""
        self.transport.close()
