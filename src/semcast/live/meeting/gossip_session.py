"""One process's part in a group that gossips, without its threads: how it finds one other member.

Nobody knows everybody here. A newcomer says hello, by multicast or to the peers that a user named;
one who is in proves that it is there, and is asked for a few neighbours by the overlay
(`protocol/epidemic/overlay`). From then on a member learns of others by the entries that neighbours
exchange. An entry only says where somebody may be: before anything but a challenge goes there, and
before anything is believed that comes from there, both ends prove to be there (`door`). What waits
for that, and whom this process remembers, is bounded, so nothing here grows with the group.

Those who are in say hello by multicast now and then, and whoever hears one keeps quiet: newcomers,
and parts of the group that lost each other, find it by that.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from semcast.ids import EVERYBODY, Source
from semcast.live.gossip_settings import gossip_config, overlay_config, spreading
from semcast.live.meeting.crowd import Crowd
from semcast.live.meeting.door import Came
from semcast.live.meeting.gossip_roster import GossipRoster
from semcast.live.meeting.neighbours import Neighbours
from semcast.live.meeting.session import Session
from semcast.live.meeting.why_not import stay_out, why_nobody, why_not_alone
from semcast.live.sockets.address import Address
from semcast.live.sockets.packed_address import packed, unpacked
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull, PullConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outgoing
from semcast.wire.families.overlay import Entry

_MS: Final = 1_000_000
# Who has heard nobody for so long begins the group by itself.
_ALONE_NS: Final = 300 * _MS
# Whoever is in, or looks for longer, and was heard within this time will let this one in.
_WAIT_NS: Final = 1_500 * _MS
# Those who are in say hello so often together; one without neighbours does so by itself.
_PRESENCE_NS: Final = 2_000 * _MS
_LONELY_NS: Final = 500 * _MS
# Datagrams that do not open: their senders may be told so, by a hello within this time.
_OTHERWISE_NS: Final = 100 * _MS
# Of those who have enough neighbours, one in so many answers a newcomer's first hello.
_FEW: Final = 16
# What waits until its receiver has proved to be there, and what came of those who have not.
_HELD_MAX: Final = 64
_HELD_EACH: Final = 8


class GossipSession(Session):
    """A process in a group that gossips, or on its way into one."""

    def _prepare(self) -> None:
        self._gossip = cast(GossipRoster, self.roster)
        self.overlay: Overlay | None = None
        self._neighbours = Neighbours()
        self._crowd = Crowd()
        # When it began to look, and when somebody was last heard who will let it in.
        self._seek_ns = -1
        self._heard_ns = -_WAIT_NS
        # Frames for those who have to prove first that they are there; and of such, by life.
        self._held: OrderedDict[int, list[bytes]] = OrderedDict()
        self._early: OrderedDict[Source, tuple[bytes, int]] = OrderedDict()
        # To whom something went, or from whom something came, in order.
        self._recent: OrderedDict[int, None] = OrderedDict()
        # Frames for members that nobody can say the place of, or that did not answer in time.
        self.unreachable = 0

    # -- getting in --------------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        return self._gossip.inside and self.ended is None

    @property
    def watches(self) -> bool:
        """The overlay does, and of neighbours only."""
        return False

    def suspects(self) -> list[int] | None:
        return []

    def why_not_in(self) -> str:
        """Why this process is not in after all that time."""
        return why_not_alone(self, self._gossip.other_kind) or why_nobody(self)

    def _start(self, joining: bool, now_ns: int) -> None:
        """Be a member: somebody was found, or nobody is there."""
        entry = Entry(self.me, packed(self.transport.address))
        overlay = Overlay(entry, overlay_config(self.config), self._stream, now_ns)
        overlay.place_of = self._packed_place
        pull = Pull(self.me, PullConfig(), overlay, self._stream, now_ns)
        targets, parts = spreading(self.config, overlay, pull)
        mtu_bytes, room_bytes = self.transport.path_mtu_bytes, self.transport.receive_buffer_bytes
        config = self.config.member_config(1, mtu_bytes, room_bytes // 2)
        self.overlay = overlay
        self.member = EpidemicMember(
            replace(config, only=self._interest),
            self.me,
            View.alone(self.me, self.config.name, int(self.me.incarnation)),
            self._stream,
            self._observer(self.me),
            joining,
            gossip_config(self.config),
            targets,
            parts,
        )
        for peer in self._gossip.peers.values():
            self._name(Source(peer.id, peer.incarnation), peer.name)

    def _packed_place(self, sender: int) -> bytes:
        return packed(self.door.place_of(sender)) if self.door.has_place(sender) else b""

    def _name(self, source: Source, name: str) -> None:
        if isinstance(self.member, EpidemicMember) and name:
            self.member.name(source, name)

    def _follow(self, now_ns: int) -> None:
        """Act on what the overlay found out; begin alone if nobody is there."""
        if self.ended is not None:
            return
        if self._seek_ns < 0:
            self._seek_ns = now_ns
        overlay = self.overlay
        if overlay is None:
            if now_ns >= self._alone_ns():
                why_not = why_not_alone(self, self._gossip.other_kind)
                if why_not:
                    stay_out(self, self._gossip, why_not)
                else:
                    self._start(False, now_ns)
                    self._enter(now_ns)
            return
        happened = overlay.events()
        if happened:
            roster = self._gossip
            roster.members = tuple(sorted([roster.me, *overlay.neighbours()]))
            if overlay.neighbours() and not roster.inside:
                self._enter(now_ns)
            for told in self._neighbours.on_events(happened, roster):
                self._tell(told, now_ns)
        if isinstance(self.member, EpidemicMember):
            for told in self._neighbours.on_silent(self.member.take_silent()):
                self._tell(told, now_ns)

    def _enter(self, now_ns: int) -> None:
        self._gossip.inside = True
        self._gossip.members = self._gossip.members or (self._gossip.me,)
        self._crowd.begin()
        self.say_hello(now_ns)

    def _alone_ns(self) -> int:
        """When to begin alone, if nothing is heard until then."""
        return max(self._seek_ns + _ALONE_NS, self._heard_ns + _WAIT_NS)

    def _tell(self, told: tuple[str, str, str], now_ns: int) -> None:
        if self.on_neighbour is not None:
            self.on_neighbour(*told, now_ns)

    # -- turns -------------------------------------------------------------------------------------

    def take_in(self, received: list[tuple[bytes, Address]], now_ns: int) -> None:
        super().take_in(received, now_ns)
        self._follow(now_ns)

    def on_timer(self, now_ns: int) -> None:
        super().on_timer(now_ns)
        self._follow(now_ns)

    def next_deadline_ns(self) -> int:
        soonest = super().next_deadline_ns()
        if self.overlay is None and self.ended is None:
            soonest = min(soonest, self._alone_ns() if self._seek_ns >= 0 else 0)
        return soonest

    def on_closed(self, addresses: list[Address], now_ns: int) -> None:
        for address in addresses:
            sender = self.door.who_is_at(address)
            if sender is not None and self.overlay is not None:
                self.ports_closed += 1
                self.overlay.refused(sender, now_ns)

    # -- out ---------------------------------------------------------------------------------------

    def _send_some(self, datagrams: list[Outgoing], now_ns: int) -> None:
        for outgoing in datagrams:
            assert outgoing.to != EVERYBODY
            if self._is_proved(outgoing.to):
                self._recent[outgoing.to] = None
                self._recent.move_to_end(outgoing.to)
                sealed = self._sealer.seal(outgoing.frames)
                self._send(self.door.place_of(outgoing.to), [sealed], now_ns)
            else:
                self._hold(outgoing.to, outgoing.frames, now_ns)

    def _is_proved(self, sender: int) -> bool:
        """Whether the life that the overlay means has proved to be there, or a later one."""
        if not self.door.has_place(sender):
            return False
        entry = None if self.overlay is None else self.overlay.entry_of(sender)
        return entry is None or self.door.proved.get(sender, -1) >= entry.source.incarnation

    def _hold(self, sender: int, frames: bytes, now_ns: int) -> None:
        """Challenge a member that others told of; what is for it waits for its answer."""
        entry = None if self.overlay is None else self.overlay.entry_of(sender)
        place = None if entry is None else unpacked(entry.address, self.transport.address[0])
        if entry is None or place is None:
            self.unreachable += 1
            return
        waiting = self._held.setdefault(sender, [])
        self._held.move_to_end(sender)
        if len(waiting) < _HELD_EACH:
            waiting.append(frames)
        if len(self._held) > _HELD_MAX:
            self.unreachable += len(self._held.popitem(last=False)[1])
        there = Came(entry.source, place, 0, self.transport.path_mtu_bytes, now_ns)
        challenge = self.door.challenge(there)
        if challenge is not None:
            self.answer(challenge, there)

    # -- proofs ------------------------------------------------------------------------------------

    def _on_unproved(self, frames: bytes, came: Came) -> None:
        """A life speaks that has proved nothing, or was forgotten: ask it to. What it said counts
        if it was said after the proof, which it may have overtaken.
        """
        self._early[came.source] = (frames, came.packet)
        self._early.move_to_end(came.source)
        if len(self._early) > _HELD_MAX:
            self._early.popitem(last=False)
        challenge = self.door.challenge(came)
        if challenge is not None:
            self.answer(challenge, came)

    def _let_in(self, came: Came) -> bool:
        new = self.door.proved.get(came.source.sender) != came.source.incarnation
        if not super()._let_in(came):
            return False
        sender, now_ns = int(came.source.sender), came.now_ns
        self._gossip.news = False
        self._gossip.place(came.source, came.address, now_ns)
        self._recent[sender] = None
        self._recent.move_to_end(sender)
        if new:
            # So each knows what people call the other; a newcomer learns that this one is in.
            self.transport.send(came.address, [self._hello()])
        for frames in self._held.pop(sender, []):
            self._send(came.address, [self._sealer.seal(frames)], now_ns)
        early = self._early.pop(came.source, None)
        if early is not None and early[1] > came.packet and self.member is not None:
            self.member.receive(early[0], came.source, now_ns)
        self._forget()
        return True

    def _forget(self) -> None:
        """Forget those who were not heard of for longest and are no neighbours."""
        for sender in self._gossip.spare(self._recent):
            self.door.forget(sender)
            self.opener.forget(sender)
            self._recent.pop(sender, None)
            self._gossip.peers.pop(sender, None)

    def _on_otherwise(self, datagram: bytes, address: Address, now_ns: int) -> None:
        """A datagram of this group does not open: its sender has another secret or version. It sees
        that for itself when it gets one of ours.
        """
        if not self._gossip.inside:
            return
        if self.transport.multicast:
            self._speak_soon(now_ns)
        elif now_ns - self._answered_ns >= _OTHERWISE_NS:
            self._answered_ns = now_ns
            hello = self._hello()
            if len(hello) <= len(datagram) and self.door.may_send(now_ns):
                self.transport.send(address, [hello])

    def _speak_soon(self, now_ns: int) -> None:
        """Say hello soon, for somebody who looks for another group of this name, or cannot read
        what this one says; unless another member does so before.
        """
        if self._gossip.inside:
            soon_ns = now_ns + self._stream.randrange(_OTHERWISE_NS)
            self._hello_ns = min(self._hello_ns, max(soon_ns, self._said_ns + _OTHERWISE_NS))

    # -- hellos ------------------------------------------------------------------------------------

    def say_hello(self, now_ns: int) -> None:
        """Say that this process is there: often while it is not in; then now and then."""
        roster = self._gossip
        seeking = not roster.inside
        if seeking:
            pause_ns, roster.tries = self._crowd.spoke(False)
            self._hello_ns = now_ns + pause_ns
        else:
            self._rest(now_ns)
            roster.tries = 0
        self._said_ns = now_ns
        datagram = self._hello()
        self.transport.look_again()
        if self.transport.multicast:
            self.transport.send_all([datagram])
        seeds = list(self._seeds)
        if not seeking and seeds:
            seeds = [] if self.transport.multicast else [self._stream.choice(seeds)]
        for seed in seeds:
            self.transport.send(seed, [datagram])

    def _rest(self, now_ns: int) -> None:
        lonely = self.overlay is None or not self.overlay.neighbours()
        pause_ns = _LONELY_NS if lonely else _PRESENCE_NS
        self._hello_ns = now_ns + pause_ns + self._stream.randrange(pause_ns)

    def _expect(self) -> None:
        """Anybody may come."""

    def _on_hello(self, said: Mapping[str, Any], came: Came) -> None:
        if not self._gossip.is_of_kind("gossip", said):
            if said.get("in") is not True:
                self._speak_soon(came.now_ns)
        elif self._greets(said, came):
            super()._on_hello(said, came)

    def _greets(self, said: Mapping[str, Any], came: Came) -> bool:
        """Whether to talk with the sender of a hello; in a large group many hear it."""
        sender, life = int(came.source.sender), int(came.source.incarnation)
        if self.door.proved.get(sender) == life or sender == self.me.sender:
            return True
        there = said.get("in") is True
        if not self._gossip.inside:
            own = (int(self.me.incarnation), int(self.me.sender))
            if there or self._crowd.is_eldest(life, sender, own, came.now_ns):
                self._heard_ns = came.now_ns
            return there and len(self.door.proved) < _FEW
        if there:
            self._rest(came.now_ns)
            return True
        overlay = self.overlay
        full = overlay is not None and len(overlay.neighbours()) >= self.config.neighbours_max
        if not full or not self.transport.multicast:
            return True
        tries = said.get("try")
        tried = min(tries, _FEW) if isinstance(tries, int) and tries >= 0 else 0
        return self._stream.randrange(_FEW) < 1 << tried

    def _believe(self, said: Mapping[str, Any], came: Came) -> None:
        sender, now_ns = int(came.source.sender), came.now_ns
        place = self.door.place_of(sender)
        self._gossip.on_hello(said, sender, int(came.source.incarnation), place, now_ns)
        self._name(came.source, str(said.get("name")))
        if said.get("in") is True:
            if self.member is None:
                self._start(True, now_ns)
            assert self.overlay is not None
            self.overlay.enter(Entry(came.source, packed(place)), now_ns)
        elif self._gossip.inside:
            self.transport.send(place, [self._hello()])
        for told in self._neighbours.on_named(sender, self._gossip):
            self._tell(told, now_ns)
        self._on_roster(now_ns)

    def _on_roster(self, now_ns: int) -> None:  # noqa: ARG002
        """Another life of this process may be known."""
        roster = self._gossip
        if roster.former_incarnation < self.me.incarnation:
            return
        if roster.inside:
            self._end_for_namesake()
        elif self._begin_later():
            self.member = self.overlay = None

    def evict(self, member: int, now_ns: int) -> None:
        """Nobody puts anybody out of such a group."""

    def counters(self) -> dict[str, int]:
        found = {"unreachable": self.unreachable, "peers_known": len(self._gossip.peers)}
        if self.overlay is not None:
            stats = self.overlay.stats()
            found |= {"neighbours": stats["active"], "passive_view": stats["passive"]}
            found |= {"splits": stats["splits"], "overlay_frames": stats["sent_frames"]}
        return found

    # -- the end -----------------------------------------------------------------------------------

    def leave(self, now_ns: int) -> None:
        """Say goodbye to the neighbours. Nothing can be sent after it."""
        if self.ended is None:
            self._settle(now_ns)
        self.end(f"{self.config.name} has left {self.config.group!r}")
        self.flush(now_ns)
        if self.overlay is not None and self.member is not None:
            self.overlay.goodbye()
            farewell = self.member.datagrams(now_ns)
            for _ in range(3):  # one may be lost; if all are, neighbours find out by themselves
                self._send_some(farewell, now_ns)
