"""A member of a group, sans-IO: everything it does, and all that a world touches.

Facts and a time go in (`multicast`, `receive`, `take`, `on_timer`); datagrams come out of
`datagrams`, and `next_deadline_ns` says when to call `on_timer`. No clock, no socket, no randomness
of its own: the same code runs simulated and live.

    multicast ─► Sender ─► retained ─────────────────────► datagrams ─►
                              ▲  purge what a safe message covers; release what is stable
    receive ─► Intake (one Inbound per source: order, gaps) ─► delivery ─► take
                   │                                              purge at once
                   ├─► Requests: what is missing, and answers ─► datagrams ─►
                   └─► Voting: what is here; back comes what is stable (all members) and safe (f+1)

S-RM (reliability "group") keeps every message at every member until it is stable, and answers
requests for anybody's messages. S-SM ("sender") keeps only a member's own. [SRM §4, §5.3]
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError, GroupClosedError, WindowFullError
from semcast.ids import SEQ_MAX, RandomStream, Source
from semcast.obsolescence.tagger import Replaces, Tagger
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Figures
from semcast.protocol.membership.departure import Departure
from semcast.protocol.membership.join_gate import JoinGate
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import EVERYBODY, ROWS_MAX, Outbox, Outgoing
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.stability.gossip.gossiping import Gossiping
from semcast.protocol.stability.gossip.tracker import page_of
from semcast.protocol.stability.tracker import RoundPages, Rounds
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.pacer import Pacer
from semcast.protocol.streams.requests import Requests
from semcast.protocol.streams.sender import Sender
from semcast.protocol.voting import NEVER, Voting
from semcast.wire.decode import Decoder
from semcast.wire.families.measures import Echo, MeasureFrame, Times, Tree
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.rounds import Round
from semcast.wire.families.votes import Vector
from semcast.wire.message import Message

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
        self.config: Final = config
        self.me: Final = me
        self._index: Final = {sender: at for at, sender in enumerate(members)}
        self._observer: Final = observer
        # Safety matters only where others keep messages that we may purge.
        guard = SafeUpTo() if config.group_reliable and config.purging and config.f > 0 else None
        self._guarded: Final = guard is not None
        # What covers messages that are gone, only for `cover_of`.
        self._covers: Final = (
            CoverLog(8 * max(config.delivery_messages, config.window_messages))
            if config.track_covers
            else None
        )
        self._delivery: Final = PurgingBuffer(
            config.delivery_config(), "delivery", record=observer is not None, covers=self._covers
        )
        self._retained: Final = PurgingBuffer(
            config.retained_config(len(members)), "retransmit", guard, record=True
        )
        self._sender: Final = Sender(me, Tagger(config.k), self._retained, config.limits)
        self._answers: Final = Answers(
            8 * config.window_messages, config.nak_delay_ns, self._covers
        )
        self._asking: Final = Asking(
            [sender for sender in members if sender != me.sender],
            4 * config.nak_delay_ns,
            config.group_reliable,
            random,
        )
        self._gate: Final = JoinGate(joining, config.join_delay_ns)
        self._incarnations: Final[dict[int, int]] = {int(me.sender): int(me.incarnation)}
        self._decoder: Final = Decoder()
        self._outbox: Final = Outbox(me, config.limits)
        self._pacer: Final = Pacer(config.bandwidth_bytes_s)
        self._packed_ns: i64 = 0
        self._blocked = False
        # Not None: this member leaves.
        self._departure: Departure | None = None
        self._figures: Final = Figures()
        self._voting: Final = Voting(config, me, members, random, self._guarded, joining)
        self._streams: Final = Intake(
            config,
            me,
            self._index,
            self._delivery,
            self._retained,
            guard,
            self._answers,
            self._asking,
            self._gate,
            self._voting,
            self._incarnations,
            random,
            observer,
        )
        self._requests: Final = Requests(
            config,
            self._sender,
            self._retained,
            self._answers,
            self._asking,
            self._streams,
            self._voting,
            self._outbox,
            observer,
            self._figures,
        )

    # -- the application ---------------------------------------------------------------------------

    def can_multicast(self, payload_bytes: i64 = 0) -> bool:
        """Whether to try a message of this size that replaces nothing: it would be accepted now,
        or never, because this member leaves.
        """
        if self._departure is not None:
            return True
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

    def blocked_ns(self, now_ns: i64) -> int:
        """For how long altogether messages found no room."""
        return self._figures.blocked_ns(now_ns)

    def all_stable(self) -> bool:
        """Whether everybody has everything that this member multicast."""
        return self._voting.agreed(self.me, False) >= self._sender.seq

    @property
    def sent(self) -> int:
        """The number of the last message that this member multicast."""
        return self._sender.seq

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Send to the whole group; if there is no room, WindowFullError, and nothing changed."""
        if self._departure is not None:
            raise GroupClosedError("this member is leaving; join again to send more")
        try:
            if self.config.deliver_own and not self._room_for_own(len(payload)):
                waiting = self._streams.inbounds[self.me].waiting
                raise WindowFullError(
                    f"{waiting} own messages wait for this member's application to take them; "
                    "take them, or set deliver_own to false",
                    waiting,
                    self.config.window_messages,
                )
            message = self._sender.multicast(payload, replaces, now_ns)
        except WindowFullError:
            if not self._blocked:
                self._blocked = True
                self._figures.blocked(now_ns)
                if self._observer is not None:
                    self._observer.progress("block", self.me, int(self._sender.seq), None, 0)
            self._voting.no_room(now_ns)
            raise
        if self._blocked:
            self._blocked = False
            self._figures.unblocked(now_ns)
            self._voting.room()
            if self._observer is not None:
                self._observer.progress("unblock", self.me, int(message.seq), None, 0)
        if self._observer is not None:
            self._observer.message("multicast", message, "", None)
        self._voting.count_bytes(len(message.body))
        if self._retained.recorded:
            self._streams.note_retained_purges()
        if self.config.deliver_own:
            self._streams.on_messages([message], now_ns)
        return message

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        """The application takes what waits for it, oldest first; this is delivery."""
        if self._departure is not None:
            return self._departure.take(messages_max, now_ns)
        return self._streams.take(messages_max, now_ns)

    def take_one(self, now_ns: i64) -> Message | None:
        """The same for one message, if there is one."""
        if self._departure is not None:
            taken = self._departure.take(1, now_ns)
            return taken[0] if taken else None
        return self._streams.take_one(now_ns)

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """What covers a message that was skipped, if that is still remembered; for applications.

        Known are those purged here for others' sake or passed over as covered, until they are
        stable; and with `track_covers` those purged while they waited for the application too, and
        all of them until thousands came after them. A cover may be covered itself: ask again.
        """
        known = None if self._covers is None else self._covers.cover(source, seq)
        return known or self._answers.cover(source, seq)

    def name(self, sender: int, name: str) -> None:
        """Messages of this member say that name as their sender's, whichever life they are of."""
        self._decoder.sources.name(sender, name)

    def oldest(self) -> Message | None:
        """The message that has waited longest for the application, which stays."""
        return self._delivery.peek()

    def age_ns(self, message: Message, now_ns: i64) -> int:
        """How old a message is that waits here, whatever its sender's clock says."""
        return self._streams.inbounds[message.source].transit.age_ns(message.sent_ns, now_ns)

    def deliverable(self) -> int:
        """How many messages wait for the application; of a member that leaves, one or none."""
        if self._departure is not None:
            return 1 if self._departure.deliverable() else 0
        return len(self._delivery)

    # -- leaving -----------------------------------------------------------------------------------

    def begin_leaving(self, now_ns: i64) -> None:
        """Send nothing more, and find out whether this member may go; see `departure`."""
        if self._departure is None:
            self._departure = Departure(
                self.config,
                self._index,
                self._sender,
                self._streams,
                self._delivery,
                self._voting,
                now_ns,
            )

    @property
    def leaving(self) -> bool:
        """Whether it has begun to leave."""
        return self._departure is not None

    def settled(self, silent: list[int]) -> bool:
        """Whether all others have what this member sent and, in S-RM, what it took. `silent` are
        members that nothing is heard of.
        """
        assert self._departure is not None, "it has begun to leave"
        return self._departure.settled(silent)

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        """Whether it is settled, and has all that it can get of what it had heard of."""
        assert self._departure is not None, "it has begun to leave"
        return self._departure.may_leave(silent, now_ns)

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """The opened frames of one datagram from `source`."""
        newest = self._incarnations.get(int(source.sender))
        if source.sender == self.me.sender or (newest is not None and source.incarnation < newest):
            return
        if newest is None or source.incarnation > newest:
            if int(source.sender) not in self._index:
                return
            self._incarnations[int(source.sender)] = int(source.incarnation)
            self._asking.restarted(int(source.sender))
        self._asking.heard(int(source.sender), now_ns)
        decoded = self._decoder.decode(frames, self._decoder.sources.intern(source))
        if decoded.messages:
            self._streams.on_messages(decoded.messages, now_ns)
        for control in decoded.control:
            if isinstance(control, Vector):
                self._on_vector(control, source, now_ns)
            elif isinstance(control, Nak):
                self._requests.on_nak(control, source, now_ns)
            elif isinstance(control, Covered):
                self._streams.on_covered(control, now_ns)
            elif isinstance(control, Round):
                self._on_round(control, source, now_ns)
            elif isinstance(control, Fragment):
                self._streams.on_fragment(control, now_ns)
            elif isinstance(control, (Echo, Times, Tree)):
                self._on_measure(control, source, now_ns)

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        """What to send now, with about so many datagrams of new messages at the most.

        Call after every other call, and again while `unsent`: what is not packed yet may still be
        purged, so take no more than the network does.
        """
        if self._sender.unsent:
            # What others asked for is older than what is new, and they wait for it.
            self._outbox.close()
            self._pack(now_ns, data_max)
        rounds = self._voting.rounds
        if rounds is not None:
            rounds.poll(now_ns)
            if self._take_from_rounds(rounds, now_ns) and self._blocked:
                self._voting.wake_ns = now_ns
            self._voting.tell_rounds(rounds, self._outbox, now_ns)
        return self._outbox.take()

    @property
    def unsent(self) -> bool:
        """Whether messages wait to be sent, and may be sent now."""
        return self._sender.unsent and (
            self.config.bandwidth_bytes_s == 0 or self._pacer.ready(self._packed_ns)
        )

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        soonest = self._requests.next_deadline_ns(self._voting.next_deadline_ns())
        if self._sender.unsent and self._pacer.next_ns() < soonest:
            soonest = self._pacer.next_ns()
        if self._departure is not None and self._departure.look_ns < soonest:
            soonest = self._departure.look_ns
        return soonest

    def on_timer(self, now_ns: i64) -> None:
        """Whatever is due by now."""
        self._requests.on_timer(now_ns)
        gossiping, rounds = self._voting.gossiping, self._voting.rounds
        if gossiping is not None:
            if now_ns >= gossiping.telling.due_ns():
                self._gossip(gossiping, now_ns)
        elif rounds is not None:
            self._voting.wake_ns = NEVER
            rounds.on_timer(now_ns)
            self._take_from_rounds(rounds, now_ns)

    def remove(self, sender: int, now_ns: i64) -> None:
        """That member is gone for good: do not wait for its votes, do not ask it for anything."""
        voting = self._voting
        if sender not in voting.others:
            return
        voting.others.remove(sender)
        at = self._index[sender]
        if voting.gossiping is not None:
            self._streams.agreed(voting.gossiping.stability.remove(at), False, now_ns)
            self._streams.agreed(voting.gossiping.safety.remove(at), True, now_ns)
        elif voting.rounds is not None:
            voting.rounds.remove(at, now_ns)
            self._take_from_rounds(voting.rounds, now_ns)

    def restore(self, sender: int) -> None:
        """A removed member is back, in another life: its votes count again from here on.

        It must not begin before all others have said this of it: else they could agree that
        something is stable which it still has to get.
        """
        voting = self._voting
        if sender in voting.others or sender not in self._index or sender == self.me.sender:
            return
        voting.others.append(sender)
        voting.others.sort()
        if voting.gossiping is not None:
            voting.gossiping.stability.restore(self._index[sender])
            voting.gossiping.safety.restore(self._index[sender])
        elif voting.rounds is not None:
            voting.rounds.restore(self._index[sender])

    def stats(self) -> dict[str, int]:
        """Counters and gauges, for people and tests."""
        delivery, retained = self._delivery.counts, self._retained.counts
        found = {
            "multicast": int(self._sender.seq),
            "delivery_held": len(self._delivery),
            "retained_held": len(self._retained),
            "early_held": sum(inbound.waiting for inbound in self._streams.inbounds.values()),
            "purged_delivery": sum(delivery.values()),
            "purged_retransmit": sum(retained.values()),
            "request_window": self._asking.window_max(),
            "naks_sent": int(self._figures.naks_sent),
            "naks_received": int(self._figures.naks_received),
            "retransmitted": int(self._figures.retransmitted),
            "blocked_times": int(self._figures.blocked_times),
        }
        if self._voting.rounds is not None:
            found |= self._voting.rounds.figures()
        return found

    # -- votes -------------------------------------------------------------------------------------

    def _on_vector(self, vector: Vector, teller: Source, now_ns: i64) -> None:
        gossiping = self._voting.gossiping
        if gossiping is None:
            return
        tracker = gossiping.safety if vector.safety else gossiping.stability
        for row in vector.rows:
            if row.agreed < tracker.agreed(row.source):
                gossiping.telling.somebody_is_behind(now_ns)
            self._streams.heard_of(row.source, row.newest, now_ns)
            if row.source in self._streams.repairs:
                # Whoever tells has voted in the round, so it has no less than the lowest.
                self._asking.has(int(teller.sender), row.source, row.lowest)
        waits_for_us = vector.waits and gossiping.stability.lacks_vote(vector)
        self._streams.agreed(tracker.on_vector(vector), vector.safety, now_ns)
        if waits_for_us:
            self._voting.somebody_waits(now_ns)
        if not vector.safety:
            self._voting.tell_soon(now_ns)
        if vector.rows and not vector.safety:
            at = self._index.get(int(vector.rows[0].source.sender))
            if at is not None and self._gate.gossip(page_of(at), vector.round, now_ns):
                self._streams.join(page_of(at))

    def _gossip(self, gossiping: Gossiping, now_ns: i64) -> None:
        gossiping.telling.begin()
        if self._departure is not None and self._departure.excused != 0:
            gossiping.stability.renew(self._departure.excused)
        self._streams.agreed(gossiping.stability.on_period(), False, now_ns)
        self._streams.agreed(gossiping.safety.on_period(), True, now_ns)
        self._voting.gossip(
            gossiping, not self._safety_rests(), self._blocked, self._outbox, now_ns
        )

    def _safety_rests(self) -> bool:
        """Whether it does not matter now what is safe: little is kept that could be purged."""
        return not self._guarded or self._retained.held < self.config.safety_rest_messages

    def _on_round(self, told: Round, source: Source, now_ns: i64) -> None:
        at = self._index.get(int(source.sender))
        rounds = self._voting.rounds
        if rounds is not None and at is not None:
            rounds.on_round(told, at, now_ns)
            self._take_from_rounds(rounds, now_ns)

    def _on_measure(self, frame: MeasureFrame, source: Source, now_ns: i64) -> None:
        at = self._index.get(int(source.sender))
        rounds = self._voting.rounds
        if rounds is not None and at is not None:
            rounds.on_measure(frame, at, now_ns)
            self._take_from_rounds(rounds, now_ns)

    def _take_from_rounds(self, rounds: Rounds, now_ns: i64) -> bool:
        """Do what rounds have come to, and what follows. Says whether that was anything."""
        rounds.safety.resting = self._safety_rests()
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
                self._streams.join(page)
        for source, newest in news:
            self._streams.heard_of(source, newest, now_ns)
        self._streams.agreed(grown, safety, now_ns)
        return True

    # -- own messages ------------------------------------------------------------------------------

    def _room_for_own(self, payload_bytes: i64) -> bool:
        return self._streams.room_for_own(payload_bytes + _KEY_BYTES)

    def _pack(self, now_ns: i64, data_max: i64) -> None:
        self._packed_ns = now_ns
        if self.config.bandwidth_bytes_s == 0:
            for frames in self._sender.frames_to_send(data_max):
                self._outbox.datagram(EVERYBODY, self._voting.rides.board(frames))
        else:
            while self._sender.unsent and self._pacer.ready(now_ns):
                for frames in self._sender.frames_to_send(1):
                    frames = self._voting.rides.board(frames)
                    self._pacer.spend(len(frames), now_ns)
                    self._outbox.datagram(EVERYBODY, frames)
        if self._sender.passed_over:
            self._tell_passed_over()
        # Only what has left: others would ask for what they hear of.
        self._voting.has(self.me, self._sender.packed, now_ns)

    def _tell_passed_over(self) -> None:
        """What was purged before it was sent is nowhere: say so, before anybody asks for it."""
        covers = []
        for seq in self._sender.passed_over:
            by_source, by_seq = self._answers.cover(self.me, seq) or (self.me, seq)
            covers.append((seq, by_source, by_seq))
        self._sender.passed_over.clear()
        for at in range(0, len(covers), ROWS_MAX):
            self._outbox.frame(EVERYBODY, Covered(self.me, covers[at : at + ROWS_MAX]))
