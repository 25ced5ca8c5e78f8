"""A member of a group, sans-IO: everything it does, and all that a world touches.

Facts and a time go in (`multicast`, `receive`, `take`, `on_timer`); datagrams come out of
`datagrams`, and `next_deadline_ns` says when to call `on_timer`. No clock, no socket, no randomness
of its own: the same code runs simulated and live.

    multicast ─► Sender ─► retained ─────────────────────► datagrams ─►
                              ▲  purge what a safe message covers; release what is stable
    receive ─► Inbound (one per source: order, gaps) ─► delivery ─► take
                   │                                      purge at once
                   └─► Repair: requests ─► datagrams ─►
    votes: two StabilityTrackers, for stability (all members) and safety (f+1), told by gossip or,
           as the configuration says, in rounds of one of STAB's protocols

S-RM (reliability "group") keeps every message at every member until it is stable, and answers
requests for anybody's messages. S-SM ("sender") keeps only a member's own. [SRM §4, §5.3]
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError, WindowFullError
from semcast.ids import SEQ_MAX, RandomStream, Source
from semcast.obsolescence.tagger import Replaces, Tagger
from semcast.protocol.answers import Answers
from semcast.protocol.buffer import PurgingBuffer, Verdict
from semcast.protocol.config import MemberConfig
from semcast.protocol.covers import CoverLog
from semcast.protocol.flow import Pacer
from semcast.protocol.guard import SafeUpTo
from semcast.protocol.in_place import newest_skipped
from semcast.protocol.join_gate import JoinGate
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import EVERYBODY, ROWS_MAX, Outbox, Outgoing
from semcast.protocol.purged import Purged
from semcast.protocol.receiver import Inbound
from semcast.protocol.repair import Repair, RequestWindow, ranges_of
from semcast.protocol.rides import Rides
from semcast.protocol.sender import Sender
from semcast.protocol.stability.gossip import page_of
from semcast.protocol.stability.gossiping import Gossiping
from semcast.protocol.stability.tracker import RoundPages, Rounds, StabilityTracker
from semcast.wire.decode import Decoder
from semcast.wire.fragment import Reassembler
from semcast.wire.frames import Covered, Fragment, Nak, Round, Vector
from semcast.wire.message import Message

NEVER: Final = SEQ_MAX
_FULL: Final = Verdict.FULL
# Room for a key beside a payload.
_KEY_BYTES: Final = 255


@final
class Member:
    """One member. See the module's docstring; `docs/design/member.md` has the whole story."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        members: list[int],
        random: RandomStream,
        observer: Observer | None = None,
        joining: bool = False,
    ) -> None:
        """`members`: the sender ids of the whole group; `joining`: it runs already, without me."""
        if me.sender not in members or len(set(members)) != len(members):
            raise ConfigError(f"members {members} must name {me.sender} and nobody twice")
        if config.group_reliable and config.f >= len(members):
            raise ConfigError(f"f is {config.f}, but the group has only {len(members)} members")
        members = sorted(members)
        index = members.index(me.sender)
        self.config: Final = config
        self.me: Final = me
        self._members: Final = members
        self._others: list[int] = [sender for sender in members if sender != me.sender]
        self._random: Final = random
        self._observer: Final = observer
        # Safety matters only where others keep messages that we may purge.
        self._guard: Final = (
            SafeUpTo() if config.group_reliable and config.purging and config.f > 0 else None
        )
        # What covers messages that are gone, only for `cover_of`.
        self._covers: Final = (
            CoverLog(8 * max(config.delivery_messages, config.window_messages))
            if config.track_covers
            else None
        )
        delivery_config = config.delivery_config()
        self._in_place: Final = delivery_config.in_place
        self._delivery: Final = PurgingBuffer(
            delivery_config, "delivery", record=observer is not None, covers=self._covers
        )
        self._retained: Final = PurgingBuffer(
            config.retained_config(len(members)), "retransmit", self._guard, record=True
        )
        self._sender: Final = Sender(me, Tagger(config.k), self._retained, config.limits)
        # Votes travel by gossip or in rounds; never by both.
        self._gossiping: Gossiping | None = None
        self._rounds: Rounds | None = None
        self._stability: StabilityTracker
        self._safety: StabilityTracker
        if config.gossips:
            self._gossiping = Gossiping(config, members, index)
            self._stability, self._safety = self._gossiping.stability, self._gossiping.safety
        else:
            life = int(me.incarnation) if joining else 0
            self._rounds = detection_by_rounds(config, members, index, life)
            self._stability, self._safety = self._rounds.stability, self._rounds.safety
        self._gate: Final = JoinGate(joining, config.join_delay_ns)
        self._rides: Final = Rides(me, config.limits, config.stability_ride_ns)
        self._inbounds: Final[dict[Source, Inbound]] = {}
        # INV-STALLED: all streams of which more is known than was handed on, for lack of room or
        # because something is missing; and perhaps some that have gone on since.
        self._stalled: Final[dict[Source, Inbound]] = {}
        self._repairs: Final[dict[Source, Repair]] = {}
        self._window: Final = RequestWindow(4 * config.nak_delay_ns, config.window_messages)
        self._answers: Final = Answers(
            8 * config.window_messages, config.nak_delay_ns, self._covers
        )
        self._incarnations: Final[dict[int, int]] = {int(me.sender): int(me.incarnation)}
        self._decoder: Final = Decoder()
        self._fragments: Final = Reassembler(config.limits)
        self._outbox: Final = Outbox(me, config.limits)
        self._pacer: Final = Pacer(config.bandwidth_bytes_s)
        self._packed_ns: i64 = 0
        self._blocked = False
        # Room has appeared while datagrams were made: somebody may wait for it.
        self._wake_ns: i64 = NEVER
        self._index: Final = {sender: at for at, sender in enumerate(members)}
        if config.deliver_own:
            # What this member multicast is in `retained` for others, whatever becomes of it here.
            self._inbounds[me] = Inbound(me, config, None, keep=False, own=True)

    # -- the application ---------------------------------------------------------------------------

    def can_multicast(self, payload_bytes: i64 = 0) -> bool:
        """Whether a message of this size that replaces nothing would be accepted now."""
        return self._retained.room_for(self.me, payload_bytes + _KEY_BYTES) and (
            not self.config.deliver_own or self._room_for_own(payload_bytes)
        )

    def multicast_many(
        self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64, now_ns: i64
    ) -> int:
        """Send these from `start` on, in order, while there is room; says how many were accepted.

        `replaces` has one entry for each, or is None: nothing replaces anything. Anything but a
        full window raises; what came before it was accepted (`sent` tells).
        """
        accepted: i64 = 0
        try:
            for at in range(start, len(payloads)):
                self.multicast(payloads[at], None if replaces is None else replaces[at], now_ns)
                accepted += 1
        except WindowFullError:
            pass
        return accepted

    @property
    def blocked(self) -> bool:
        """Whether the last message offered found no room."""
        return self._blocked

    def all_stable(self) -> bool:
        """Whether everybody has everything that this member multicast."""
        return self._stability.agreed(self.me) >= self._sender.seq

    @property
    def sent(self) -> int:
        """The number of the last message that this member multicast."""
        return self._sender.seq

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Send to the whole group; if there is no room, WindowFullError, and nothing changed."""
        try:
            if self.config.deliver_own and not self._room_for_own(len(payload)):
                waiting = self._inbounds[self.me].waiting
                raise WindowFullError(
                    f"{waiting} own messages wait for this member's application to take them; "
                    "take them, or set deliver_own to false",
                    waiting,
                    self.config.window_messages,
                )
            message = self._sender.multicast(payload, replaces, now_ns)
        except WindowFullError:
            if not self._blocked and self._observer is not None:
                self._observer.progress("block", self.me, int(self._sender.seq), None, 0)
            self._blocked = True
            self._tell_soon(now_ns)
            raise
        if self._blocked:
            self._blocked = False
            if self._observer is not None:
                self._observer.progress("unblock", self.me, int(message.seq), None, 0)
        if self._observer is not None:
            self._observer.message("multicast", message, "", None)
        self._count_bytes(message)
        if self._retained.recorded:
            self._note_retained_purges()
        if self.config.deliver_own:
            self._on_messages([message], now_ns)
        return message

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        """The application takes what waits for it, oldest first; this is delivery."""
        taken = self._delivery.take_many(messages_max)
        self._tell_skipped(taken)
        if self._observer is not None:
            for message in taken:
                self._observer.message("deliver", message, "", None)
        if taken and self._stalled:
            self._hand_on_all(now_ns)
        return taken

    def take_one(self, now_ns: i64) -> Message | None:
        """The same for one message, if there is one."""
        message = self._delivery.take()
        if message is None:
            return None
        if self._in_place:
            newest_skipped(message)
        else:
            inbound = self._inbounds[message.source]
            if message.seq > inbound.taken + 1:
                message.skipped = range(inbound.taken + 1, message.seq)
            inbound.taken = message.seq
        if self._observer is not None:
            self._observer.message("deliver", message, "", None)
        if self._stalled:
            self._hand_on_all(now_ns)
        return message

    def _hand_on_all(self, now_ns: i64) -> None:
        """There is room again for whoever waits for it."""
        for inbound in list(self._stalled.values()):
            self._hand_on(inbound, now_ns)

    def _tell_skipped(self, taken: list[Message]) -> None:
        """Each message says which ones the application did not get; see `Message.skipped`."""
        if self._in_place:
            for message in taken:
                newest_skipped(message)
            return
        # Messages come in runs of one source, so the stream of the last one is often right.
        inbound: Inbound | None = None
        for message in taken:
            if inbound is None or message.source is not inbound.source:
                inbound = self._inbounds[message.source]
            if message.seq > inbound.taken + 1:
                message.skipped = range(inbound.taken + 1, message.seq)
            inbound.taken = message.seq

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """What covers a message that was skipped, if that is still remembered; for applications.

        Known are those purged here for others' sake or passed over as covered, until they are
        stable; and with `track_covers` those purged while they waited for the application too, and
        all of them until thousands came after them. A cover may be covered itself: ask again.
        """
        known = None if self._covers is None else self._covers.cover(source, seq)
        return known or self._answers.cover(source, seq)

    def name(self, source: Source, name: str) -> None:
        """Messages of this source say that name as their sender's."""
        self._decoder.intern(source).name = name

    def oldest(self) -> Message | None:
        """The message that has waited longest for the application, which stays."""
        return self._delivery.peek()

    def deliverable(self) -> int:
        """How many messages wait for the application."""
        return len(self._delivery)

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """The opened frames of one datagram from `source`."""
        newest = self._incarnations.get(int(source.sender))
        if source.sender == self.me.sender or (newest is not None and source.incarnation < newest):
            return
        if newest is None or source.incarnation > newest:
            if source.sender not in self._members:
                return
            self._incarnations[int(source.sender)] = int(source.incarnation)
        decoded = self._decoder.decode(frames, self._decoder.intern(source))
        if decoded.messages:
            self._on_messages(decoded.messages, now_ns)
        for control in decoded.control:
            if isinstance(control, Vector):
                self._on_vector(control, now_ns)
            elif isinstance(control, Nak):
                self._on_nak(control, source, now_ns)
            elif isinstance(control, Covered):
                self._on_covered(control, now_ns)
            elif isinstance(control, Round):
                self._on_round(control, source, now_ns)
            else:
                self._on_fragment(control, now_ns)

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        """What to send now, with about so many datagrams of new messages at the most.

        Call after every other call, and again while `unsent`: what is not packed yet may still be
        purged, so take no more than the network does.
        """
        if self._sender.unsent:
            self._pack(now_ns, data_max)
        if self._rounds is not None:
            self._rounds.poll(now_ns)
            if self._take_from_rounds(self._rounds, now_ns) and self._blocked:
                self._wake_ns = now_ns
            self._tell_rounds(self._rounds, now_ns)
        return self._outbox.take()

    @property
    def unsent(self) -> bool:
        """Whether messages wait to be sent, and may be sent now."""
        return self._sender.unsent and (
            self.config.bandwidth_bytes_s == 0 or self._pacer.ready(self._packed_ns)
        )

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        soonest = self._wake_ns
        if self._gossiping is not None:
            soonest = self._gossiping.telling.next_ns
        elif self._rounds is not None:
            soonest = min(soonest, self._rounds.next_deadline_ns(), self._rides.next_deadline_ns())
        for repair in self._repairs.values():
            due = repair.next_deadline_ns()
            if due >= 0 and due < soonest:
                soonest = due
        if self._sender.unsent and self._pacer.next_ns() < soonest:
            soonest = self._pacer.next_ns()
        return soonest

    def on_timer(self, now_ns: i64) -> None:
        """Whatever is due by now."""
        for source, repair in self._repairs.items():
            due = repair.next_deadline_ns()
            if due >= 0 and due <= now_ns:
                self._ask(source, repair, now_ns)
        if self._gossiping is not None:
            if now_ns >= self._gossiping.telling.next_ns:
                self._gossip(self._gossiping, now_ns)
        elif self._rounds is not None:
            self._wake_ns = NEVER
            self._rounds.on_timer(now_ns)
            self._take_from_rounds(self._rounds, now_ns)

    def remove(self, sender: int, now_ns: i64) -> None:
        """That member is gone for good: do not wait for its votes, do not ask it for anything."""
        if sender not in self._others:
            return
        self._others.remove(sender)
        at = self._members.index(sender)
        if self._gossiping is not None:
            self._agreed(self._gossiping.stability.remove(at), False, now_ns)
            self._agreed(self._gossiping.safety.remove(at), True, now_ns)
        elif self._rounds is not None:
            self._rounds.remove(at, now_ns)
            self._take_from_rounds(self._rounds, now_ns)

    def restore(self, sender: int) -> None:
        """A removed member is back, in another life: its votes count again from here on.

        It must not begin before all others have said this of it: else they could agree that
        something is stable which it still has to get.
        """
        if sender in self._others or sender not in self._index or sender == self.me.sender:
            return
        self._others.append(sender)
        self._others.sort()
        if self._gossiping is not None:
            self._gossiping.stability.restore(self._index[sender])
            self._gossiping.safety.restore(self._index[sender])
        elif self._rounds is not None:
            self._rounds.restore(self._index[sender])

    def stats(self) -> dict[str, int]:
        """Counters and gauges, for people and tests."""
        delivery, retained = self._delivery.counts, self._retained.counts
        return {
            "multicast": int(self._sender.seq),
            "delivery_held": len(self._delivery),
            "retained_held": len(self._retained),
            "early_held": sum(inbound.waiting for inbound in self._inbounds.values()),
            "purged_delivery": sum(delivery.values()),
            "purged_retransmit": sum(retained.values()),
            "request_window": int(self._window.size),
        }

    # -- messages ----------------------------------------------------------------------------------

    def _on_messages(self, messages: list[Message], now_ns: i64) -> None:
        """Messages of one datagram, mostly runs of one source for which there is room."""
        at: i64 = 0
        while at < len(messages):
            inbound = self._inbound(messages[at].source)
            if inbound is None:
                at += 1
                continue
            run = self._accept_run(inbound, messages, at) if inbound.waiting == 0 else 0
            if run > 0:
                at += run
                self._advanced(inbound, inbound.next - 1, now_ns)
                if inbound.newest < inbound.next:
                    continue
            else:
                message = messages[at]
                at += 1
                inbound.add(message)
                self._note_early_purges(inbound)
                if inbound.has(message.seq):
                    self._repair(inbound).arrived(message.seq, now_ns)
            self._hand_on(inbound, now_ns)

    def _accept_run(self, inbound: Inbound, messages: list[Message], at: i64) -> i64:
        """Accept what continues the stream from `at` on, while there is room; says how many."""
        first = at
        count: i64 = len(messages)
        while at < count:
            message = messages[at]
            if (
                message.seq != inbound.next
                or message.source is not inbound.source
                or not self._accept(message, inbound.keep)
            ):
                break
            inbound.next += 1
            at += 1
            self._count_bytes(message)
        inbound.heard_of(inbound.next - 1)
        return at - first

    def _hand_on(self, inbound: Inbound, now_ns: i64) -> None:
        """Hand on what is in order and has room; ask for what is missing."""
        before = inbound.next
        while True:
            seq = inbound.next
            cover = inbound.pass_covered()
            if cover is not None:
                if self._observer is not None:
                    self._observer.progress("skip", inbound.source, int(seq), cover[0], cover[1])
                continue
            message = inbound.head()
            if message is None or not self._accept(message, inbound.keep):
                break
            inbound.handed_on()
        if inbound.next != before:
            self._advanced(inbound, inbound.next - 1, now_ns)
        # A message that is here and finds no room is not missing; with it, room is all that lacks.
        if inbound.newest < inbound.next:
            self._stalled.pop(inbound.source, None)
            return
        self._stalled[inbound.source] = inbound
        if inbound.head() is None:
            repair = self._repair(inbound)
            if len(repair) < self._window.size:
                repair.want(inbound.missing(self._window.size), now_ns)

    def _accept(self, message: Message, keep: bool) -> bool:
        """Queue a message for delivery and, in S-RM, keep it for others; both or neither."""
        if keep and not self._retained.room_for(message.source, len(message.body)):
            return False
        verdict = self._delivery.insert(message)
        if verdict is _FULL:
            return False
        if self._observer is not None:
            self._observer.message("receive", message, "", None)
            for purged in self._delivery.drain_purged():
                self._tell_purged(purged)
        if keep:
            stored = self._retained.insert(message)
            assert stored is not _FULL, "there was room for it"
            if self._retained.recorded:
                self._note_retained_purges()
        return True

    def _advanced(self, inbound: Inbound, seq: i64, now_ns: i64) -> None:
        repair = self._repairs.get(inbound.source)
        if repair is not None:
            repair.passed(inbound.next)
        if inbound.source != self.me:
            self._has(inbound.source, seq, now_ns)

    def _has(self, source: Source, seq: i64, now_ns: i64) -> None:
        """We have a source's messages up to `seq`: something to tell others soon."""
        more = self._stability.has(source, seq)
        if self._guard is not None:
            self._safety.has(source, seq)
        if self._gossiping is not None:
            self._gossiping.telling.news(more, now_ns)

    def _count_bytes(self, message: Message) -> None:
        """Others are told at once when many bytes have come."""
        if self._gossiping is not None and self._gossiping.telling.untold_max > 0:
            self._gossiping.telling.untold_bytes += len(message.body)

    def _on_fragment(self, fragment: Fragment, now_ns: i64) -> None:
        inbound = self._inbound(fragment.source)
        if inbound is None or inbound.has(fragment.seq):
            return
        inbound.heard_of(fragment.seq)
        message = self._fragments.add(fragment)
        if message is not None:
            self._on_messages([message], now_ns)
        else:
            self._hand_on(inbound, now_ns)

    def _on_covered(self, covered: Covered, now_ns: i64) -> None:
        inbound = self._inbound(covered.source)
        if inbound is None:
            return
        for seq, by_source, by_seq in covered.covers:
            if inbound.cover(seq, by_source, by_seq):
                self._repair(inbound).arrived(seq, now_ns)
                self._answers.note_cover(covered.source, seq, by_source, by_seq)
        self._hand_on(inbound, now_ns)

    # -- repair ------------------------------------------------------------------------------------

    def _ask(self, source: Source, repair: Repair, now_ns: i64) -> None:
        inbound = self._inbounds[source]
        seqs, tries = repair.due(now_ns)
        seqs = [seq for seq in seqs if not inbound.has(seq)]
        target = self._target(source, tries)
        if target < 0:
            return
        # What was dropped here for lack of room is nobody else's loss: the answer need not be
        # multicast.
        for private in (False, True):
            ranges = ranges_of([s for s in seqs if (s <= inbound.overflowed) == private])
            for at in range(0, len(ranges), ROWS_MAX):
                some = ranges[at : at + ROWS_MAX]
                self._outbox.nak(EVERYBODY, Nak(source, target, private, some))
        if self._observer is not None:
            for seq in seqs:
                self._observer.progress("nak", source, seq, None, 0)
        repair.want(inbound.missing(self._window.size), now_ns)

    def _target(self, source: Source, tries: int) -> int:
        """Whom to ask: first the sender itself; then, in S-RM, anybody else may have it."""
        sender = int(source.sender)
        alive = sender in self._others and self._incarnations.get(sender) == source.incarnation
        if alive and (tries == 0 or not self.config.group_reliable):
            return sender
        if not self.config.group_reliable or not self._others:
            return -1
        return self._others[self._random.randrange(len(self._others))]

    def _on_nak(self, nak: Nak, asker: Source, now_ns: i64) -> None:
        if nak.target != self.me.sender:
            repair = self._repairs.get(nak.source)
            if repair is not None:
                for first, last in nak.ranges:
                    repair.asked_by_another(first, last, now_ns)
            return
        covers: list[tuple[int, Source, int]] = []
        to = int(asker.sender) if nak.private else EVERYBODY
        left = self.config.window_messages
        for first, last in nak.ranges:
            for seq in range(first, min(last, first + left - 1) + 1):
                self._answer(nak.source, seq, to, covers, now_ns)
            left -= min(left, last - first + 1)
        for at in range(0, len(covers), ROWS_MAX):
            some = covers[at : at + ROWS_MAX]
            self._outbox.covered(int(asker.sender), Covered(nak.source, some))

    def _answer(
        self,
        source: Source,
        seq: i64,
        to: int,
        covers: list[tuple[int, Source, int]],
        now_ns: i64,
    ) -> None:
        """Send it again, or say what covers it; if neither is known, somebody else may."""
        message = self._retained.get(source, seq)
        if message is not None:
            if self._answers.may_resend(source, seq, now_ns):
                self._outbox.message(to, message)
                if self._observer is not None:
                    self._observer.message("retransmit", message, "", None)
            return
        inbound = self._inbounds.get(source)
        dealt_with = (
            seq <= self._sender.seq
            if source == self.me
            else (inbound is not None and seq < inbound.next)
        )
        if not dealt_with or seq <= self._stability.agreed(source):
            return
        # It was here and is not stable, so it was purged: it is covered.
        # A cover that was forgotten is told as the message itself: covered, by what is not known.
        by_source, by_seq = self._answers.cover(source, seq) or (source, int(seq))
        covers.append((int(seq), by_source, by_seq))

    # -- votes -------------------------------------------------------------------------------------

    def _on_vector(self, vector: Vector, now_ns: i64) -> None:
        gossiping = self._gossiping
        if gossiping is None:
            return
        tracker = gossiping.safety if vector.safety else gossiping.stability
        for row in vector.rows:
            if row.agreed < tracker.agreed(row.source):
                gossiping.telling.somebody_is_behind(now_ns)
            self._heard_of(row.source, row.newest, now_ns)
        self._agreed(tracker.on_vector(vector), vector.safety, now_ns)
        if not vector.safety:
            self._tell_soon(now_ns)
        if vector.rows and not vector.safety:
            at = self._index.get(int(vector.rows[0].source.sender))
            if at is not None and self._gate.gossip(page_of(at), vector.round, now_ns):
                self._join(page_of(at))

    def _heard_of(self, source: Source, newest: i64, now_ns: i64) -> None:
        """If somebody has heard of more than we have, the last message was lost (SRM §5.3)."""
        inbound = self._inbound(source)
        if inbound is not None and newest > inbound.newest and source != self.me:
            inbound.heard_of(newest)
            self._hand_on(inbound, now_ns)

    def _tell_soon(self, now_ns: i64) -> None:
        """Somebody waits for votes: in a small group, tell at once if there is news."""
        if self._rounds is not None:
            self._rounds.stability.urge(now_ns)
        elif self._gossiping is not None:
            telling = self._gossiping.telling
            if telling.untold > 0 and len(self._others) <= self.config.gossip_fanout:
                telling.next_ns = now_ns

    def _agreed(self, grown: list[Source], safety: bool, now_ns: i64) -> None:
        """More is stable, or safe: release it, or purge what it covers."""
        for source in grown:
            agreed = self._safety.agreed(source) if safety else self._stability.agreed(source)
            if self._observer is not None:
                event = "safe" if safety else "stable"
                self._observer.progress(event, source, int(agreed), None, 0)
            inbound = self._inbounds.get(source)
            if self._guard is not None and self._guard.advance(source, agreed):
                self._retained.covers_released(source)
                self._note_retained_purges()
                if inbound is not None:
                    inbound.covers_released()
                    self._note_early_purges(inbound)
            if not safety:
                self._retained.release(source, agreed)
                self._answers.stable(source, agreed)
            if inbound is not None:
                # Room in the window of this source, or something to pass over: go on.
                self._hand_on(inbound, now_ns)

    def _gossip(self, gossiping: Gossiping, now_ns: i64) -> None:
        """Tell a few others who has what; less and less often when there is nothing to tell."""
        gossiping.telling.begin()
        self._agreed(gossiping.stability.on_period(), False, now_ns)
        self._agreed(gossiping.safety.on_period(), True, now_ns)
        gossiping.telling.done(gossiping.stability.all_agreed(), now_ns)
        vectors = gossiping.stability.vectors()
        if self._guard is not None and self._retained.held >= self.config.safety_rest_messages:
            vectors += gossiping.safety.vectors()
        for to in self._peers():
            for vector in vectors:
                self._outbox.vector(to, vector)

    def _on_round(self, told: Round, source: Source, now_ns: i64) -> None:
        at = self._index.get(int(source.sender))
        if self._rounds is not None and at is not None:
            self._rounds.on_round(told, at, now_ns)
            self._take_from_rounds(self._rounds, now_ns)

    def _take_from_rounds(self, rounds: Rounds, now_ns: i64) -> bool:
        """Do what rounds have come to, and what follows. Says whether that was anything."""
        rounds.safety.resting = (
            self._guard is None or self._retained.held < self.config.safety_rest_messages
        )
        anything = False
        while self._take_from_pages(rounds, rounds.stability, False, now_ns) or (
            self._take_from_pages(rounds, rounds.safety, True, now_ns)
        ):
            anything = True
        return anything

    def _take_from_pages(
        self, rounds: Rounds, pages: RoundPages, safety: bool, now_ns: i64
    ) -> bool:
        if not (pages.grown or pages.news or pages.joined_pages):
            return False
        news, pages.news = pages.news, []
        grown, pages.grown = pages.grown, []
        joined, pages.joined_pages = pages.joined_pages, []
        for page in joined:
            if self._gate.open(page):
                rounds.joined(page)
                self._join(page)
        for source, newest in news:
            self._heard_of(source, newest, now_ns)
        self._agreed(grown, safety, now_ns)
        return True

    def _tell_rounds(self, rounds: Rounds, now_ns: i64) -> None:
        for to, told in self._rides.overdue(now_ns):
            self._outbox.round(to, told)
        for to, told in rounds.take_out():
            if not self._rides.wait(to, told, now_ns):
                self._outbox.round(to, told)

    def _peers(self) -> list[int]:
        """Some other members, at random."""
        if len(self._others) <= self.config.gossip_fanout:
            return [EVERYBODY] if self._others else []
        left = list(self._others)
        return [
            left.pop(self._random.randrange(len(left))) for _ in range(self.config.gossip_fanout)
        ]

    def _join(self, page: int) -> None:
        """A restarted member begins every stream of a page at the stable point."""
        for source in self._stability.sources(page):
            inbound = self._inbound(source)
            agreed = self._stability.agreed(source)
            if inbound is None or source == self.me:
                continue
            if agreed >= inbound.next:
                inbound.jump(agreed + 1)
                self._stability.has(source, agreed)
                self._safety.has(source, agreed)
            if self._observer is not None:
                self._observer.progress("join", source, int(inbound.next), None, 0)

    # -- small parts -------------------------------------------------------------------------------

    def _inbound(self, source: Source) -> Inbound | None:
        """The stream of a source, unless it is not of this group or must not be joined yet."""
        inbound = self._inbounds.get(source)
        if inbound is not None:
            return inbound
        at = self._index.get(int(source.sender))
        if at is None or self._gate.closed(page_of(at)):
            return None
        if source == self.me:
            # Own messages that come back and are not delivered here.
            return None
        inbound = Inbound(source, self.config, self._guard, self.config.group_reliable)
        self._inbounds[source] = inbound
        return inbound

    def _repair(self, inbound: Inbound) -> Repair:
        repair = self._repairs.get(inbound.source)
        if repair is None:
            repair = Repair(self._window, self.config.nak_delay_ns, self._random)
            self._repairs[inbound.source] = repair
        return repair

    def _room_for_own(self, payload_bytes: i64) -> bool:
        return not self.config.deliver_own or self._inbounds[self.me].room_for(
            payload_bytes + _KEY_BYTES
        )

    def _pack(self, now_ns: i64, data_max: i64) -> None:
        self._packed_ns = now_ns
        if self.config.bandwidth_bytes_s == 0:
            for frames in self._sender.frames_to_send(data_max):
                self._outbox.datagram(EVERYBODY, self._rides.board(frames))
        else:
            while self._sender.unsent and self._pacer.ready(now_ns):
                for frames in self._sender.frames_to_send(1):
                    frames = self._rides.board(frames)
                    self._pacer.spend(len(frames), now_ns)
                    self._outbox.datagram(EVERYBODY, frames)
        if self._sender.passed_over:
            self._tell_passed_over()
        # Only what has left: others would ask for what they hear of.
        self._has(self.me, self._sender.packed, now_ns)

    def _tell_passed_over(self) -> None:
        """What was purged before it was sent is nowhere: say so, before anybody asks for it."""
        covers = []
        for seq in self._sender.passed_over:
            by_source, by_seq = self._answers.cover(self.me, seq) or (self.me, seq)
            covers.append((seq, by_source, by_seq))
        self._sender.passed_over.clear()
        for at in range(0, len(covers), ROWS_MAX):
            self._outbox.covered(EVERYBODY, Covered(self.me, covers[at : at + ROWS_MAX]))

    def _note_retained_purges(self) -> None:
        for purged in self._retained.drain_purged():
            cover = purged.cover
            assert cover is not None, "only covered messages leave"
            message = purged.message
            self._answers.note_cover(message.source, message.seq, cover.source, cover.seq)
            self._tell_purged(purged)

    def _note_early_purges(self, inbound: Inbound) -> None:
        for message, cover in inbound.purged:
            self._answers.note_cover(message.source, message.seq, cover.source, cover.seq)
        inbound.purged.clear()

    def _tell_purged(self, purged: Purged) -> None:
        if self._observer is not None:
            self._observer.message("purge", purged.message, purged.place, purged.cover)


def detection_by_rounds(config: MemberConfig, members: list[int], index: int, life: int) -> Rounds:
    """What needs arrays is imported only where it is used."""
    from semcast.protocol.stability.detection import RoundDetection

    return RoundDetection(config, members, index, life)
