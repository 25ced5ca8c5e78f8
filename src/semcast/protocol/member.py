"""A member of a group, sans-IO: the router between its parts. `machine` says how to drive it.

    multicast ─► Sender ─► retained ─────────────────────► datagrams ─►
                              ▲  purge what a safe message covers; release what is stable
    receive ─► Intake (one Inbound per source: gaps) ─► Order ─► take
                   │                                     purge at once
                   ├─► Requests: what is missing, and answers ─► datagrams ─►
                   └─► Detection: what is here; back comes what is stable (all) and safe (f+1)
    StaticViews: who is there, in which life; every part gets each view

Messages go straight through. A control frame goes to the part that its kind belongs to; one that
names another view than this member's goes to no part.

S-RM (reliability "group") keeps every message at every member until it is stable, and answers
requests for anybody's messages. S-SM ("sender") keeps only a member's own. [SRM §4, §5.3]
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError, LocalProtocolError, WindowFullError
from semcast.ids import SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.assembly import Assembly
from semcast.protocol.config import MemberConfig
from semcast.protocol.gauges import gauges
from semcast.protocol.machine import Machine
from semcast.protocol.membership.departure import Departure
from semcast.protocol.membership.new_lives import note_lives
from semcast.protocol.membership.resending import Held
from semcast.protocol.membership.transfer import Transfer
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.protocol.streams.accepting import KEY_BYTES
from semcast.wire.families.lives import Lives
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message


@final
class Member(Machine):
    """One member. See the module's docstring; `docs/design/member.md` has the whole story."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        random: Randomness,
        observer: Observer | None = None,
        joining: bool = False,
    ) -> None:
        """`view`: the first view, with `me` in it. `joining`: the group already runs without it."""
        super().__init__(config, me)
        made = Assembly(config, me, view, random, observer, joining)
        self._view = view
        self._observer: Final = observer
        # Messages go straight through these, without asking a part.
        self._covers: Final = made.covers
        self._waiting: Final = made.waiting
        self._retained: Final = made.retained
        self._sender: Final = made.sender
        self._answers: Final = made.answers
        self._asking: Final = made.asking
        self._decoder: Final = made.decoder
        self._outbox: Final = made.outbox
        self._figures: Final = made.figures
        self._order: Final = made.order
        self._packing: Final = made.packing
        self._intake: Final = made.intake
        self._views: Final = made.views
        self._detection: Final = made.detection
        self._readers: Final = made.readers
        self.transfer: Final = made.transfer
        self._accepting: Final = made.accepting
        self._resending: Final = made.resending
        self._parts: Final = made.parts
        self._routes: Final = {kind: part for part in self._parts for kind in part.kinds()}
        self._strangers_kinds: Final = {
            kind for part in self._parts for kind in part.strangers_kinds()
        }
        self._reads_only: Final = config.role == "reader"
        self._blocked = False
        # Set if `datagrams` found something agreed while there was no room: a sender may wait.
        self._wake_ns: i64 = SEQ_MAX
        # Not None if this member leaves.
        self._departure: Departure | None = None
        # Whether safety detection may rest while few messages are kept.
        self._safety_may_rest: Final = made.guarded and config.safety_rest_messages > 0
        self._begin(made.guarded)

    def _begin(self, guarded: bool) -> None:
        """Pass on the first facts, now that every part exists."""
        self._detection.rest_safety(not guarded)
        for sender, name in zip(self._view.members, self._view.names, strict=False):
            self._decoder.sources.name(sender, name)
        if self._observer is not None:
            self._observer.view(self._view)

    # -- the application ---------------------------------------------------------------------------

    def can_multicast(self, payload_bytes: i64 = 0) -> bool:
        if self._departure is not None or self._reads_only:
            return True
        if self._resending.waits:
            return False
        room = self._retained.room_for(self.me, payload_bytes + KEY_BYTES)
        if self._retained.recorded:
            self._answers.note_purges(self._retained, self._observer)
        return room and self._intake.room.lacking(payload_bytes + KEY_BYTES) is None

    @property
    def blocked(self) -> bool:
        return self._blocked

    def blocked_ns(self, now_ns: i64) -> int:
        return self._figures.blocked_ns(now_ns)

    def all_stable(self) -> bool:
        return self._detection.stable(self.me) >= self._sender.seq and not self._resending.waits

    @property
    def sent(self) -> int:
        return self._sender.seq

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        if self._departure is not None:
            raise GroupClosedError("this member is leaving; join again to send more")
        if self._reads_only:
            raise LocalProtocolError("a reader sends nothing; join as a member to send")
        try:
            if self._resending.waits:
                raise self._resending.no_room()
            message = self._accepting.accept(payload, replaces, now_ns)
        except WindowFullError:
            self._no_room(now_ns)
            raise
        if self._blocked:
            self._has_room(message, now_ns)
        return message

    def _no_room(self, now_ns: i64) -> None:
        if not self._blocked:
            self._blocked = True
            self._figures.blocked(now_ns)
            if self._observer is not None:
                self._observer.progress("block", self.me, int(self._sender.seq), None, 0)
        self._detection.no_room(now_ns)

    def _has_room(self, message: Message, now_ns: i64) -> None:
        self._blocked = False
        self._figures.unblocked(now_ns)
        self._detection.room()
        if self._observer is not None:
            self._observer.progress("unblock", self.me, int(message.seq), None, 0)

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        if self._departure is not None:
            return self._departure.take(messages_max, now_ns)
        return self._intake.take(messages_max, now_ns)

    def take_one(self, now_ns: i64) -> Message | None:
        if self._departure is not None:
            return next(iter(self._departure.take(1, now_ns)), None)
        return self._intake.take_one(now_ns)

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """Covers of messages that were purged from the retransmission buffer, or skipped, are known
        until these are stable. With `track_covers` those of messages purged while they waited for
        the application are known too, all until thousands more came. Covers may be covered: ask on.
        """
        known = None if self._covers is None else self._covers.cover(source, seq)
        return known or self._answers.cover(source, seq)

    def oldest(self) -> Message | None:
        return None if self.transfer.pending else self._waiting.peek()

    def age_ns(self, message: Message, now_ns: i64) -> int:
        return self._intake.inbounds[message.source].transit.age_ns(message.sent_ns, now_ns)

    def deliverable(self) -> int:
        if self._departure is not None:
            return 1 if self._departure.deliverable() else 0
        return self._order.deliverable()

    # -- leaving -----------------------------------------------------------------------------------

    def begin_leaving(self, now_ns: i64) -> None:
        """See `departure` for what it waits for."""
        if self._departure is None:
            self._departure = Departure(
                self.config, self._sender, self._intake, self._order, self._detection, now_ns
            )
            if self._readers is not None:
                self._readers.leave()

    @property
    def leaving(self) -> bool:
        return self._departure is not None

    def settled(self, silent: list[int]) -> bool:
        assert self._departure is not None, "it has begun to leave"
        return not self._resending.waits and self._departure.settled(silent)

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        assert self._departure is not None, "it has begun to leave"
        may = self._departure.may_leave(silent, now_ns) and not self._resending.waits
        if self._reads_only or may:
            self._views.leave(now_ns)
        return self._reads_only or may

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """Datagrams of a life that is over are ignored: other members might never get the same."""
        if not self._view.holds(source):
            self._views.reborn(source, now_ns)
            self._follow_views(now_ns)
        if source.sender == self.me.sender:
            return
        if not self._view.holds(source):
            self._receive_stranger(frames, source, now_ns)
            return
        self._views.heard(source, now_ns)
        self._asking.heard(int(source.sender), now_ns)
        decoded = self._decoder.decode(frames, self._decoder.sources.intern(source))
        if decoded.messages:
            self._intake.on_messages(decoded.messages, now_ns)
        if decoded.control:
            for frame in decoded.control:
                self._on_frame(frame, source, now_ns)
            self._learn(now_ns)

    def _receive_stranger(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """Of a source that the view does not hold, only what it asks to be let in with counts."""
        if not self._strangers_kinds:
            return
        decoded = self._decoder.decode(frames, source)
        let_in = False
        for frame in decoded.control:
            if int(frame.frame_kind()) in self._strangers_kinds:
                self._routes[int(frame.frame_kind())].on_frame(frame, source, now_ns)
                let_in = True
        if not let_in:
            self._views.outsider(source, decoded, now_ns)
        self._follow_views(now_ns)
        self._learn(now_ns)

    def _on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        spoken_of = frame.view_digest()
        if spoken_of >= 0:
            if spoken_of != self._view.digest:
                self._views.stranger(source, now_ns)
                return
            if frame.view_number() > self._view.number:
                self._views.heard_number(frame.view_number())
                self._follow_views(now_ns)
        part = self._routes.get(int(frame.frame_kind()))
        if part is not None:
            part.on_frame(frame, source, now_ns)
            if self._views.view is not self._view:
                self._follow_views(now_ns)
            elif isinstance(frame, Lives):
                # A member that says in which life it is waits for votes.
                self._detection.vote_soon(now_ns)

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        if self._resending.ready and self._resending.send(self._accepting, now_ns):
            self._wake_ns = now_ns
        if self._sender.unsent:
            self._packing.pack(now_ns, data_max)
            self._views.sent_to_all(now_ns)
        if self._learn(now_ns) and self._blocked:
            self._wake_ns = now_ns
        for part in self._parts:
            part.pack(self._outbox, now_ns)
        return self._outbox.take()

    @property
    def unsent(self) -> bool:
        return self._packing.ready

    def next_deadline_ns(self) -> int:
        soonest = self._wake_ns
        for part in self._parts:
            soonest = min(soonest, part.next_deadline_ns())
        if self._sender.unsent:
            soonest = min(soonest, self._packing.next_ns())
        if self._departure is not None and self._departure.look_ns < soonest:
            soonest = self._departure.look_ns
        return soonest

    def on_timer(self, now_ns: i64) -> None:
        self._wake_ns = SEQ_MAX
        for part in self._parts:
            part.on_timer(now_ns)
        self._follow_views(now_ns)
        self._learn(now_ns)

    # -- the group ---------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self._view

    def remove(self, sender: int, now_ns: i64) -> None:
        self._views.gone(sender, now_ns)
        self._follow_views(now_ns)
        self._learn(now_ns)

    def _follow_views(self, now_ns: i64) -> None:
        """If there is another view, install it in every part."""
        before, view = self._view, self._views.view
        if view is before:
            return
        self._view = view
        note_lives(before, view, self._asking, self._decoder.sources, self._intake.inbounds)
        if self._observer is not None:
            self._observer.view(view)
        for part in self._parts:
            part.install(view, now_ns)

    def _learn(self, now_ns: i64) -> bool:
        """Act on what detection has found. Returns whether it has found anything."""
        if self._safety_may_rest:
            resting = self._retained.held < self.config.safety_rest_messages
            self._detection.rest_safety(resting)
        anything = False
        while True:
            agreed = self._detection.poll(now_ns)
            if agreed is None:
                break
            anything = True
            self._intake.agreed(agreed, now_ns)
            for source in agreed.ended:
                self._views.source_ended(source, now_ns)
            self.transfer.agreed(agreed, now_ns)
            if agreed.joined and not self._detection.joining():
                self._views.joined()
        return anything

    @property
    def inside(self) -> bool:
        return self._views.inside() and not self._detection.joining()

    @property
    def out(self) -> bool:
        return self._views.is_out()

    def transfers(self) -> Transfer:
        return self.transfer

    def follow_up(self, former: Machine, now_ns: i64) -> None:
        transfer = former.transfers()
        since = {} if transfer is None else dict(transfer.taken())
        if transfer is not None:
            self.transfer.resume(transfer.had())
        if self.config.keeps:
            same = former.view.origin == self._view.origin
            self._resending.begin(former.unreceived(), since, same, now_ns)

    def resent(self) -> tuple[int, int]:
        again = self._resending
        return (0, 0) if again.waits else (again.resent, again.unsure)

    def take_gaps(self) -> list[tuple[Source, int, int]]:
        return self._intake.endings.take_gaps()

    def take_own(self) -> list[Message]:
        return self._order.take_held(self.me)

    def unreceived(self) -> list[Held]:
        taken = self.transfer.taken().get(self.me, 0)
        return self._resending.unreceived(self._retained.up_to(self.me, SEQ_MAX), taken)

    def met(self, source: Source, now_ns: i64) -> None:
        self._views.met(source, now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        self._views.refused(sender, now_ns)
        if self._readers is not None:
            self._readers.refused(sender, now_ns)

    @property
    def minority(self) -> bool:
        return self._views.is_minority()

    def goodbye(self, now_ns: i64) -> None:
        self._views.leave(now_ns)

    def was_put_out(self, source: Source) -> bool:
        return self._views.was_put_out(source)

    def suspects(self) -> list[int]:
        return self._views.suspects()

    def stats(self) -> dict[str, int]:
        held = gauges(self._waiting, self._retained, self._intake.inbounds)
        own = {"multicast": int(self._sender.seq), "request_window": self._asking.window_max()}
        found = held | own | self._figures.counted()
        if self._readers is not None:
            found["readers"] = len(self._readers)
        return found | self._detection.figures() | self.transfer.figures()
