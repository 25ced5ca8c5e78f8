"""Notes: how members find each other and say how they are. Notes of others go in, notes come out.

Notes are JSON under the seal, in datagrams of their own. Hellos count only from lives that have
proved to be there now (`door`); a note of any other life is at most answered, by one that is no
larger. What a change among the members means for this one is left to the session.
"""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.live.config import GroupConfig
from semcast.live.meeting.asker_ids import asker_ids
from semcast.live.meeting.closed_roster import ClosedRoster
from semcast.live.meeting.door import KEY_BYTES, Came, Door
from semcast.live.meeting.gossip_roster import GossipRoster
from semcast.live.meeting.open_roster import OpenRoster
from semcast.live.meeting.roster import Roster, is_life
from semcast.live.sockets.address import Address
from semcast.live.sockets.datagrams import Transport
from semcast.protocol.machine import Machine
from semcast.settings.table import GROUP_SIZE_MAX, SUITES
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.header import HEADER_BYTES, TAG_BYTES, decode_header
from semcast.wire.keys import Keyring, Unsealed, group_id
from semcast.wire.limits import IP_UDP_BYTES
from semcast.wire.newcomers import Newcomers
from semcast.wire.note import NOTE_BYTES_MAX, encode_note
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

# How often hellos go out: while members look for each other, and afterwards.
SEEKING_NS: Final = 50_000_000
HELLO_NS: Final = 500_000_000
# All hear each hello. So each speaks the less often, the more there are: so long for each of them,
# when there is no news, while members look for each other, and when there is news.
_HELLO_EACH_NS: Final = 20_000_000
_SEEKING_EACH_NS: Final = 8_000_000
_NEWS_EACH_NS: Final = 3_000_000
# Where all hear what is said to everybody, so few rows are said again in each hello.
_ROWS_AGAIN: Final = 4
# News goes out at once, but not sooner than this after the last hello.
NEWS_NS: Final = 5_000_000
# Of the datagrams that seem to be replays, one in this time is checked, so that forgeries cost
# little.
CHECK_NS: Final = 1_000_000
# Where a datagram's source stands in its header; see wire/header.py.
SOURCE_FROM: Final = 12
SOURCE_TO: Final = 28
# What is around a note in a datagram, IP and UDP included.
_AROUND_BYTES: Final = IP_UDP_BYTES + HEADER_BYTES + TAG_BYTES + FRAME_HEAD_BYTES
# Hellos go to at most so many addresses that a user named and from which nobody has answered yet.
_SEEDS_MAX: Final = 256

# What a session does with a note of some kind.
Handler = Callable[[Mapping[str, Any], Came], None]


class NoteExchange(ABC):
    """What one member says to the others about itself, and hears from them."""

    def __init__(
        self,
        config: GroupConfig,
        transport: Transport,
        seeds: list[Address],
        incarnation: int,
        stream: random.Random,
    ) -> None:
        """`incarnation` is larger than that of any former life, as far as is known here."""
        self.config: Final = config
        self.transport: Final = transport
        self.keys: Final[Keyring | Unsealed] = config.keys()
        self.group_id: Final = group_id(config.group)
        self.roster: Final[Roster] = _new_roster(config, incarnation)
        if transport.multicast and isinstance(self.roster, ClosedRoster):
            self.roster.rows_again = _ROWS_AGAIN
        self._newcomers: Final = Newcomers()
        self.opener: Final = Opener(
            self.group_id, self.keys, proving=True, newcomers=self._newcomers
        )
        self.door: Final = Door(stream.randbytes(KEY_BYTES))
        # The member, once the group is complete.
        self.member: Machine | None = None
        # What every hello says about this member; the owner keeps it up to date.
        self.status: dict[str, float] = {}
        # What to do with a note, by its "kind". If you add one, say in tests/live/test_replays.py
        # what a recording of it does.
        self.handlers: Final[dict[str, Handler]] = {
            "hello": self._on_hello,
            "prove": self._on_prove,
            "old": self._on_old,
        }
        # Datagrams that opened and made no sense; the opener counts those that did not open.
        self.refused_notes = 0
        # Notes that were read; the roster changes with these, and with views.
        self.notes_read = 0
        # The addresses at which this member began to look for others.
        self._seeds: Final = dict.fromkeys(seeds[:_SEEDS_MAX])
        self._stream: Final = stream
        self._expected: tuple[int, ...] = ()
        self._hello_ns = 0
        self._said_ns = -HELLO_NS
        self._answered_ns = 0
        self._checked_ns = 0
        # Notes that came with messages, and how; they are read after the messages.
        self._notes: list[tuple[bytes, Came]] = []
        self._begin(incarnation)

    def _begin(self, incarnation: int) -> None:
        self.me = Source(self.roster.me, incarnation)
        self.me.name = self.config.name
        self.roster.incarnation = incarnation
        self._sealer = Sealer(self.group_id, self.me, self.keys, SUITES[self.config.suite])
        sample = self._sealer.seal(b"")
        self._mine = sample[SOURCE_FROM:SOURCE_TO]
        self._expect()

    def _expect(self) -> None:
        """Let the opener know whom to expect, as soon as the members are known."""
        members = self.roster.members
        if members and members is not self._expected:
            self._expected = members
            self._newcomers.expect(asker_ids() | frozenset(members))

    @abstractmethod
    def _on_roster(self, now_ns: int) -> None:
        """The roster may have changed."""

    # -- out ---------------------------------------------------------------------------------------

    def say_hello(self, now_ns: int) -> None:
        """Say to everybody that this member is there, and how it is doing."""
        seeking = self.member is None or not self.roster.complete
        crowd_ns = len(self.roster.peers) * _SEEKING_EACH_NS
        pause_ns = max(SEEKING_NS, crowd_ns) if seeking else hello_pause_ns(self.roster)
        self._hello_ns = now_ns + pause_ns
        self._said_ns = now_ns
        datagram = self._hello()
        self.transport.look_again()
        self.transport.send_all([datagram])
        if seeking or not self.transport.multicast:
            if self.transport.multicast:
                # It has reached members that are newly there.
                known, there = set(self.roster.addresses()), list[Address]()
            else:
                known, there = set(self.transport.peers), self._newly_there()
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
        return self._sealer.seal(encode_note(self.roster.hello(self.status, self._note_room())))

    def _note_room(self) -> int:
        """How many bytes a note may have."""
        return min(self.transport.path_mtu_bytes - _AROUND_BYTES, NOTE_BYTES_MAX)

    def send_note(self, note: Mapping[str, Any], to: Address) -> None:
        """Send a note to somebody who has proved to be there; like any datagram, it may be lost."""
        self.transport.send(to, [self._sealed(note)])

    def answer(self, note: Mapping[str, Any], came: Came) -> int:
        """Send a note to where one came from. Perhaps nobody asked there, so it must not be larger
        than what came, and there are only so many a second. Returns how many bytes were sent.
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

    # -- in ----------------------------------------------------------------------------------------

    def _read_notes(self, now_ns: int) -> None:
        notes, self._notes = self._notes, []
        self.notes_read += len(notes)
        for note, came in notes:
            try:
                self._on_note(note, came)
            except RemoteProtocolError:
                self.refused_notes += 1
        if self.roster.news:
            pause_ns = max(NEWS_NS, len(self.roster.peers) * _NEWS_EACH_NS)
            self._hello_ns = min(self._hello_ns, max(now_ns, self._said_ns + pause_ns))

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
        """Believe a hello if its sender's life is proved there; if not, have both proved."""
        if came.source.sender == self.roster.me and came.source.incarnation < self.me.incarnation:
            return  # a former life of this member said it; were it still there, others would say so
        if not self.door.is_there(came):
            challenge = self.door.challenge(came)
            if challenge is not None:
                self.answer(challenge, came)
        if self.door.believes(came):
            self._believe(said, came)
        elif not self.roster.members or came.source.sender in self.roster.members:
            self.door.keep(said, came)

    def _on_prove(self, said: Mapping[str, Any], came: Came) -> None:
        """Answer a challenge, and let in a sender that answers ours."""
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
        """A life has proved to be there. Returns whether it counts from now on."""
        sender, life = came.source.sender, came.source.incarnation
        if self.door.proved.get(sender) != life:
            wanted = sender in self.roster.members or len(self.door.proved) < GROUP_SIZE_MAX
            if not wanted or not is_life(life) or not self.opener.prove(came.source, came.packet):
                return False
            # That member waits for a hello which names it.
            self.roster.news = True
        self.door.let_in(came)
        self.roster.moved(sender, life, came.address)
        self.transport.peers = self.roster.addresses()
        return True

    def _on_old(self, said: Mapping[str, Any], came: Came) -> None:
        """Another knows a later life of this member. It names this life, so it is no recording."""
        knows = said.get("knows")
        if not is_life(knows) or not is_life(said.get("you")):
            raise RemoteProtocolError("former life out of range")
        if said["you"] == self.me.incarnation:
            self._was_here(knows, came.now_ns)

    def _was_here(self, life: int, now_ns: int) -> None:
        self.roster.former_incarnation = max(self.roster.former_incarnation, life)
        self._on_roster(now_ns)

    def _believe(self, said: Mapping[str, Any], came: Came) -> None:
        """Take in a hello that is fresh, of a life that is there."""
        source, now_ns = came.source, came.now_ns
        known = self.door.has_place(source.sender)
        place = self.door.place_of(source.sender) if known else ("", 0)
        new = self.roster.on_hello(said, source.sender, source.incarnation, place, now_ns)
        self._introduce(new, came)
        answers = self.roster.gone(source.sender) or self._is_stranger(source)
        if answers and known and now_ns - self._answered_ns > SEEKING_NS:
            # Its sender was put out, or never counted, and may not know that.
            self._answered_ns = now_ns
            self.roster.news = True  # so that the hello says who is in the group
            self.transport.send(place, [self._hello()])
        self._on_roster(now_ns)

    def _is_stranger(self, source: Source) -> bool:
        """Whether a complete group did not count this source, and may say so, since it has the
        secret. Without multicast it would hear nothing of this group.
        """
        sealed = isinstance(self.keys, Keyring)
        return sealed and self.member is not None and source.sender in self.roster.strangers

    def _introduce(self, new: list[tuple[int, int, Address]], came: Came) -> None:
        """A hello says where others are. Challenge them there, in no more bytes than the hello had:
        whatever a hello names, it must not make this member send more than that to anybody.
        """
        self._stream.shuffle(new)
        room = came.datagram_bytes
        for member, life, address in new:
            there = Came(Source(member, life), address, 0, room, came.now_ns)
            challenge = self.door.challenge(there)
            if challenge is not None:
                room -= self.answer(challenge, there)

    def _on_replay(self, datagram: bytes, address: Address, now_ns: int) -> None:
        """A sender may not know that another process has its name, or that its clock was set back
        since its former life. If the datagram is genuine, name both lives to it, once in a while.

        Whoever replays one chooses where the answer goes, so the answer is no larger.
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


def hello_pause_ns(roster: Roster) -> int:
    """How often hellos go out when there is no news: less often in a large group, since each goes
    to all.
    """
    return max(HELLO_NS, len(roster.members) * _HELLO_EACH_NS)


def _new_roster(config: GroupConfig, incarnation: int) -> Roster:
    if config.reliability == "gossip":
        return GossipRoster(config.name, incarnation)
    if config.is_open:
        reads, feed = config.role == "reader", config.reliability == "sender"
        federation = config.reliability == "federation"
        return OpenRoster(config.name, incarnation, reads, feed, federation, config.stability)
    return ClosedRoster(config.name, incarnation, config.members, config.size)
