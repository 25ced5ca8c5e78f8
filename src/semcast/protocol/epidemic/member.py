"""A member that gossips, sans-IO: the three tiers of PSRM Figure 1, and an application on top.

    multicast ─┐                     ┌─► Delivery ─► take
    receive ───┴─► Inbox: new? ──────┤
                                     └─► Gossip: whom to? ─► PurgingLayer ─► Links ─► datagrams ─►
                                          top tier            middle          lower

A message that is new here goes to the application and, once, to a random set of others. If a link
is busy its copy waits in the purging layer, where what is obsolete goes first. Nothing is promised
of a single message but integrity; of those that nothing replaces almost all reach almost everybody,
as long as these alone do not overload the links (PSRM §4.1).

`targets` says who the others are; `parts` may have frames and timers of their own.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError, MessageTooLargeError
from semcast.ids import EVERYBODY, NEVER, SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.author import Author
from semcast.protocol.epidemic.batches import STAMP_BYTES, Batches
from semcast.protocol.epidemic.config import Composition, GossipConfig, Policy
from semcast.protocol.epidemic.copies import Spread
from semcast.protocol.epidemic.delivery import Delivery, delivery_config
from semcast.protocol.epidemic.gossip import Gossip
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.epidemic.layer import make_layer
from semcast.protocol.epidemic.link import Link
from semcast.protocol.epidemic.links import Links
from semcast.protocol.epidemic.message_part import MessagePart
from semcast.protocol.epidemic.naive import PeriodBuffer
from semcast.protocol.epidemic.targets import FullMembership, Targets
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.protocol.part import Part
from semcast.wire.decode import Decoder, decode_whole
from semcast.wire.encode import FrameWriter, encode_whole
from semcast.wire.families.epidemic import Rumour
from semcast.wire.frames import FRAME_HEAD_BYTES, SOURCE_BYTES
from semcast.wire.message import Message


@final
class EpidemicMember(Machine):
    """One member of a gossip group. See `docs/design/epidemic.md`."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        random: Randomness,
        observer: Observer | None = None,
        joining: bool = False,
        gossip: GossipConfig | None = None,
        targets: Targets | None = None,
        parts: tuple[Part, ...] = (),
    ) -> None:
        """`targets`: whom it knows; None: everybody in the view. `joining`: the group runs."""
        super().__init__(config, me)
        settings = GossipConfig() if gossip is None else gossip
        self.gossip: Final = settings
        self._view = view
        self._observer: Final = observer
        self.targets: Final[Targets] = (
            FullMembership(me, view, random) if targets is None else targets
        )
        naive = settings.composition is Composition.NAIVE
        self._tier: Final = Gossip(settings.fanout, settings.rounds, self.targets)
        self._layer: Final = make_layer(
            settings,
            Policy.RANDOM if naive else settings.policy,
            self.targets.links(),
            random,
            observer,
        )
        self._links: Final = Links(settings)
        self._period: Final = PeriodBuffer(settings, random, observer) if naive else None
        inbox = Inbox(settings, joining)
        self._inbox: Final = inbox
        self._delivery: Final = Delivery(
            delivery_config(config), 8 * config.delivery_messages, settings, inbox, observer
        )
        self._author: Final = Author(config, me)
        self._decoder: Final = Decoder()
        self._room: Final[i64] = config.limits.frames_bytes_max - STAMP_BYTES
        self._writer: Final = FrameWriter(me, self._room)
        self._batches: Final = Batches(me, config.limits, settings.copy_bytes)
        self._outbox: Final = Outbox(me, config.limits)
        self._parts: Final[list[Part]] = [self._links, self.targets, *parts]
        self._routes: Final = {kind: part for part in self._parts for kind in part.kinds()}
        # Those of them that learn of every message.
        self._message_parts: Final[list[MessagePart]] = []
        for part in self._parts:
            if isinstance(part, MessagePart) and part.follows():
                part.attach(self._inbox, self._delivery)
                self._message_parts.append(part)
        self._leaving = False
        # Whether something waits although its link would take it.
        self._more = False
        # A member without overlay and repair has nothing new to send if all that came are copies of
        # messages that it has; most are, so `datagrams` looks no further then.
        self._plain: Final = targets is None and not parts
        self._stirred = True
        # Copies that came, of which most are of messages that are here already; and that went.
        self._copies_received: i64 = 0
        self._copies_sent: i64 = 0
        # Messages that came and were not passed on because our datagrams are smaller.
        self._too_large: i64 = 0
        if observer is not None:
            observer.view(view)

    # -- the application ---------------------------------------------------------------------------

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """A message has to fit into one datagram: half of one is of no use to anybody."""
        if self._leaving:
            raise GroupClosedError("this member is leaving; join again to send more")
        self._stirred = True
        message = self._author.write(payload, replaces, now_ns)
        rumour = Rumour(self.me, message.seq, 0, encode_whole(message))
        # Others who pass it on have to say whose it is, and need room for that.
        over = FRAME_HEAD_BYTES + SOURCE_BYTES + rumour.size_bytes() - self._room
        if over > 0:
            self._author.take_back()
            raise MessageTooLargeError(len(payload), int(len(payload) - over))
        frames = self._frames(rumour)
        if self._observer is not None:
            self._observer.message("multicast", message, "", None)
        if self.config.deliver_own:
            self._deliver(message, now_ns)
        else:
            self._inbox.note(self.me, message.seq, now_ns)
        self._spread(Spread(message, 0, frames), self._tier.begin(), now_ns)
        for part in self._message_parts:
            part.on_message(message, 0, EVERYBODY, now_ns)
        return message

    def can_multicast(self, payload_bytes: i64 = 0) -> bool:  # noqa: ARG002
        """Always: what there is no room for is dropped, as the policy says, and counted."""
        return True

    @property
    def sent(self) -> int:
        return self._author.seq

    @property
    def blocked(self) -> bool:
        return False

    def blocked_ns(self, now_ns: i64) -> int:  # noqa: ARG002
        return 0

    def all_stable(self) -> bool:
        """Whether nothing waits to be sent; nobody knows who has got it."""
        return not self._held()

    def take_one(self, now_ns: i64) -> Message | None:  # noqa: ARG002
        return self._delivery.take()

    def deliverable(self) -> int:
        return self._delivery.held

    def oldest(self) -> Message | None:
        return self._delivery.peek()

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        return self._delivery.cover_of(source, seq)

    def take_silent(self) -> list[tuple[Source, list[int]]]:
        """Numbers that were given up since the last call, of sources of which nothing more came."""
        found = list(self._delivery.silent)
        self._delivery.silent.clear()
        return found

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        if source.sender == self.me.sender or not self.targets.accepts(source):
            return
        self.targets.heard(source, now_ns)
        decoded = self._decoder.decode(frames, self._decoder.sources.intern(source))
        for frame in decoded.control:
            if isinstance(frame, Rumour):
                self._copies_received += 1
                if self._inbox.is_new(frame.source, frame.seq):
                    self._stirred = True
                    self._infected(frame, source, now_ns)
                elif self._message_parts:
                    self._came_again(frame, source, now_ns)
            else:
                part = self._routes.get(int(frame.frame_kind()))
                if part is not None:
                    self._stirred = True
                    part.on_frame(frame, source, now_ns)

    def name(self, source: Source, name: str) -> None:
        """What people call a sender."""
        self._decoder.sources.intern(source).name = name

    def _infected(self, rumour: Rumour, source: Source, now_ns: i64) -> None:
        """A message came for the first time: deliver it, and pass it on."""
        if rumour.source.sender == self.me.sender:
            # A former life of this member multicast it, and its application had it.
            return
        limit = self.config.limits.message_bytes_max
        message = decode_whole(rumour.whole, rumour.source, rumour.seq, limit)
        self._deliver(message, now_ns)
        for part in self._message_parts:
            part.on_message(message, rumour.round, source.sender, now_ns)
        if not self._tier.relays(rumour.round):
            return
        again = Rumour(rumour.source, rumour.seq, rumour.round + 1, rumour.whole)
        frames = self._frames(again)
        if not frames:
            # It fitted where it came from, and does not into our smaller datagrams.
            self._too_large += 1
            return
        self._spread(Spread(message, again.round, frames), self._tier.relay(source.sender), now_ns)

    def _deliver(self, message: Message, now_ns: i64) -> None:
        """Let a message wait for the application, if that wants it."""
        if self.config.only is None or self.config.only.wants(message):
            self._delivery.insert(message, now_ns)
        else:
            self._delivery.pass_over(message, now_ns)

    def _came_again(self, rumour: Rumour, source: Source, now_ns: i64) -> None:
        for part in self._message_parts:
            part.on_copy(rumour.source, rumour.seq, rumour.round, source.sender, now_ns)

    def _frames(self, rumour: Rumour) -> bytes:
        """A frame as bytes, once for all targets; nothing if it does not fit."""
        return self._writer.take() if self._writer.add(rumour) else b""

    def _spread(self, spread: Spread, targets: list[int], now_ns: i64) -> None:
        """A message goes to its targets, in the naive composition when the period ends."""
        if self._period is None or not self._period.holds(spread, targets, now_ns):
            self._pass_on(spread, targets, now_ns)

    def _pass_on(self, spread: Spread, targets: list[int], now_ns: i64) -> None:
        """Send a message at once where links are idle, and when they are elsewhere."""
        links = self._links
        idle: list[Link] = []
        busy: list[int] = []
        for to in targets:
            link = links.link(to)
            if link.idle(now_ns):
                idle.append(link)
            else:
                busy.append(to)
                links.awaits(link)
        if self._layer.offer(spread, busy):
            for link in idle:
                self._send(spread, link, now_ns)

    def _send(self, spread: Spread, link: Link, now_ns: i64) -> None:
        """A copy goes now."""
        self._batches.add(link, spread.frames, now_ns)
        self._copies_sent += 1
        if self._observer is not None:
            self._observer.message("relay", spread.message, "", None)

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        if self._plain and not self._stirred and self._links.next_deadline_ns() > now_ns:
            return []
        self._stirred = False
        for sender in self.targets.take_gone():
            self._layer.forget(sender)
            self._links.forget(sender)
        self._more = False
        if self._links.free_ns() <= now_ns:
            self._serve(now_ns, data_max)
        for part in self._parts:
            part.pack(self._outbox, now_ns)
        found = self._batches.take()
        found.extend(self._outbox.take())
        return found

    def _serve(self, now_ns: i64, data_max: i64) -> None:
        """Give links that are due what waits for them."""
        for link in self._links.due(now_ns):
            to = link.to
            while link.free_ns <= now_ns and len(self._batches) < data_max:
                spread = self._layer.take(to)
                if spread is None:
                    break
                self._send(spread, link, now_ns)
            if self._layer.waits_for(to):
                self._links.awaits(link)
                self._more = self._more or link.free_ns <= now_ns

    @property
    def unsent(self) -> bool:
        return self._more

    def next_deadline_ns(self) -> int:
        soonest: i64 = NEVER if self._period is None else self._period.due_ns
        soonest = min(soonest, self._inbox.next_deadline_ns())
        for part in self._parts:
            soonest = min(soonest, part.next_deadline_ns())
        return soonest

    def on_timer(self, now_ns: i64) -> None:
        self._stirred = True
        if self._period is not None:
            for spread, targets in self._period.end(now_ns):
                self._pass_on(spread, targets, now_ns)
        self._delivery.expire(now_ns)
        for part in self._parts:
            part.on_timer(now_ns)

    # -- the group ---------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self._view

    def install(self, view: View, now_ns: i64) -> None:
        """From now on this view counts: what waits for those who are gone is dropped."""
        self._stirred = True
        for sender in self._view.present:
            if not view.is_present(sender):
                self._layer.forget(sender)
                self._links.forget(sender)
        self._view = view
        for part in self._parts:
            part.install(view, now_ns)
        self._layer.resize(self.targets.links())
        if self._observer is not None:
            self._observer.view(view)

    def remove(self, sender: int, now_ns: i64) -> None:
        if self._view.is_present(sender):
            self.install(self._view.without(sender), now_ns)

    def begin_leaving(self, now_ns: i64) -> None:  # noqa: ARG002
        self._leaving = True

    @property
    def leaving(self) -> bool:
        return self._leaving

    def settled(self, silent: list[int]) -> bool:  # noqa: ARG002
        """Whether all that it has to pass on was sent: more it cannot know."""
        return self._held() == 0

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:  # noqa: ARG002
        return self.settled(silent)

    def _held(self) -> i64:
        """What waits to be sent."""
        held: i64 = self._layer.held()
        return held if self._period is None else held + self._period.held

    def stats(self) -> dict[str, int]:
        delivery, counts = self._delivery, self._layer.counts
        return {
            "multicast": self._author.seq,
            "delivery_held": delivery.held,
            "retained_held": self._held(),
            "early_held": 0,
            "sources_held": len(self._inbox),
            "sources_forgotten": self._inbox.forgotten,
            "links": self._links.count(),
            "purged_delivery": delivery.purged,
            "purged_relay": counts.replaced,
            "late_relay": counts.late,
            "purged_gossip": 0 if self._period is None else self._period.purged,
            "dropped_relay": counts.dropped,
            "dropped_delivery": delivery.dropped,
            "skipped": delivery.skipped,
            "missed": delivery.missed + self._inbox.untold,
            "untold": delivery.untold + self._inbox.untold,
            "copies_received": self._copies_received,
            "copies_sent": self._copies_sent,
            "too_large": self._too_large,
        }
