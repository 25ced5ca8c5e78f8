"""The streams of all sources: messages of others in any order in; to the application in order, out.

Each source has an `Inbound`, which knows what is missing. Here is what they have in common: the
delivery buffer, in which messages wait for the application, the messages that are kept for others,
and what becomes of both as more is agreed. What is missing is noted in a `Repair` for each source;
asking for it is the business of `requests`. What is here is told to `voting`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import RandomStream, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.join_gate import JoinGate
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.queue.in_place import newest_skipped
from semcast.protocol.queue.purged import Purged
from semcast.protocol.queue.verdict import Verdict
from semcast.protocol.stability.gossip.tracker import page_of
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.inbound import Inbound
from semcast.protocol.streams.repair import Repair, Want
from semcast.protocol.voting import Voting
from semcast.wire.families.repair import Covered, Fragment
from semcast.wire.fragment import Reassembler
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL


@final
class Intake:
    """One member's part of every stream."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        index: dict[int, int],
        delivery: PurgingBuffer,
        retained: PurgingBuffer,
        guard: SafeUpTo | None,
        answers: Answers,
        asking: Asking,
        gate: JoinGate,
        voting: Voting,
        incarnations: dict[int, int],
        random: RandomStream,
        observer: Observer | None,
    ) -> None:
        """`index`: by sender id, which member it is. `incarnations`: likewise, its newest life."""
        self._config: Final = config
        self._me: Final = me
        self._index: Final = index
        self._delivery: Final = delivery
        self._in_place: Final = delivery.config.in_place
        self._retained: Final = retained
        self._guard: Final = guard
        self._answers: Final = answers
        self._asking: Final = asking
        self._incarnations: Final = incarnations
        self._gate: Final = gate
        self._voting: Final = voting
        self._random: Final = random
        self._observer: Final = observer
        self._fragments: Final = Reassembler(config.limits)
        self.inbounds: Final[dict[Source, Inbound]] = {}
        # INV-STALLED: all streams of which more is known than was handed on, for lack of room or
        # because something is missing; and perhaps some that have gone on since.
        self._stalled: Final[dict[Source, Inbound]] = {}
        self.repairs: Final[dict[Source, Repair]] = {}
        if config.deliver_own:
            # What this member multicast is in `retained` for others, whatever becomes of it here.
            self.inbounds[me] = Inbound(me, config, None, keep=False, own=True)

    # -- messages ----------------------------------------------------------------------------------

    def on_messages(self, messages: list[Message], now_ns: i64) -> None:
        """Messages of one datagram, mostly runs of one source for which there is room."""
        at: i64 = 0
        while at < len(messages):
            inbound = self._inbound(messages[at].source)
            if inbound is None:
                at += 1
                continue
            run: i64 = 0
            if not self._waits_for_former(inbound, now_ns):
                run = self._accept_run(inbound, messages, at)
            if run > 0:
                at += run
                inbound.transit.arrived(messages[at - 1].sent_ns, now_ns)
                self._advanced(inbound, inbound.next - 1, now_ns)
                if inbound.newest < inbound.next:
                    continue
            else:
                at = self._add_run(inbound, messages, at, now_ns)
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
            self._voting.count_bytes(len(message.body))
        if at > first:
            inbound.came(at - first)
            inbound.advanced()
        return at - first

    def _add_run(self, inbound: Inbound, messages: list[Message], at: i64, now_ns: i64) -> i64:
        """Keep messages in a row that cannot be handed on yet; says where they end."""
        first = at
        source = inbound.source
        at += 1
        while (
            at < len(messages)
            and messages[at].source is source
            and messages[at].seq == messages[at - 1].seq + 1
        ):
            at += 1
        inbound.came(at - first)
        inbound.transit.arrived(messages[at - 1].sent_ns, now_ns)
        inbound.add_run(messages, first, at)
        self._note_early_purges(inbound)
        repair = self.repairs.get(source)
        if repair is not None and len(repair) > 0:
            self._answered(repair.arrived(messages[first].seq, messages[at - 1].seq), now_ns)
        return at

    def _answered(self, wants: list[Want], now_ns: i64) -> None:
        for want in wants:
            waited_ns = now_ns - want.first_asked_ns
            self._asking.answered(want.target, waited_ns, want.tries == 1, now_ns)

    def _hand_on(self, inbound: Inbound, now_ns: i64) -> None:
        """Hand on what is in order and has room; ask for what is missing."""
        before = inbound.next
        waits = self._waits_for_former(inbound, now_ns)
        while not waits:
            seq = inbound.next
            cover = inbound.pass_covered()
            if cover is not None:
                self._delivery.pass_over(inbound.source, seq)
                if self._observer is not None:
                    self._observer.progress("skip", inbound.source, int(seq), cover[0], cover[1])
                continue
            message = inbound.head()
            if message is None or not self._accept(message, inbound.keep):
                break
            inbound.next += 1
        if inbound.next != before:
            inbound.handed_on()
            self._advanced(inbound, inbound.next - 1, now_ns)
        # A message that is here and finds no room is not missing; with it, room is all that lacks.
        if inbound.newest < inbound.next:
            self._stalled.pop(inbound.source, None)
            return
        self._stalled[inbound.source] = inbound
        if len(inbound.holes) > 0 and inbound.head() is None:
            self.want(inbound, now_ns)

    def want(self, inbound: Inbound, now_ns: i64) -> None:
        """Ask soon for what is missing, as far as whoever is asked can take it."""
        repair = self._repair(inbound)
        source, others = inbound.source, self._voting.others
        most = self._asking.size(source, self.alive(source), others)
        if len(repair) < most:
            repair.want(inbound.holes, inbound.end, inbound.run, most, now_ns)

    def alive(self, source: Source) -> bool:
        """Whether the sender is in that life still, as far as is known."""
        sender = int(source.sender)
        # Somebody who was never heard itself, but only heard of, is taken to be in that life.
        life = self._incarnations.get(sender, source.incarnation)
        return sender in self._voting.others and life == source.incarnation

    def _waits_for_former(self, inbound: Inbound, now_ns: i64) -> bool:
        """Whether messages of a former life of the same sender are here and still lack room: what
        is older about a key must not come after what is newer.
        """
        former = inbound.former
        # INV-STALLED: whoever lacks room is there.
        while former is not None and self._stalled:
            if former.head() is not None:
                self._hand_on(former, now_ns)
                if former.head() is not None:
                    return True
            former = former.former
        return False

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
                self.note_retained_purges()
        return True

    def _advanced(self, inbound: Inbound, seq: i64, now_ns: i64) -> None:
        repair = self.repairs.get(inbound.source)
        if repair is not None:
            self._answered(repair.passed(inbound.next), now_ns)
        if inbound.source != self._me:
            self._voting.has(inbound.source, seq, now_ns)

    def on_fragment(self, fragment: Fragment, now_ns: i64) -> None:
        """A part of a message that is larger than a datagram."""
        inbound = self._inbound(fragment.source)
        if inbound is None or inbound.has(fragment.seq):
            return
        inbound.heard_of(fragment.seq)
        message = self._fragments.add(fragment)
        if message is not None:
            self.on_messages([message], now_ns)
        else:
            self._hand_on(inbound, now_ns)

    def on_covered(self, covered: Covered, now_ns: i64) -> None:
        """Somebody who has purged messages says what covers them."""
        inbound = self._inbound(covered.source)
        if inbound is None:
            return
        for seq, by_source, by_seq in covered.covers:
            if inbound.cover(seq, by_source, by_seq):
                self._answered(self._repair(inbound).arrived(seq, seq), now_ns)
                self._answers.note_cover(covered.source, seq, by_source, by_seq)
        self._hand_on(inbound, now_ns)

    def heard_of(self, source: Source, newest: i64, now_ns: i64) -> None:
        """If somebody has heard of more than we have, the last message was lost (SRM §5.3)."""
        inbound = self._inbound(source)
        if inbound is not None and newest > inbound.newest and source != self._me:
            inbound.heard_of(newest)
            self._hand_on(inbound, now_ns)

    # -- the application ---------------------------------------------------------------------------

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
            inbound = self.inbounds[message.source]
            if message.seq > inbound.taken + 1:
                message.skipped = range(inbound.taken + 1, message.seq)
            inbound.taken = message.seq
        if self._observer is not None:
            self._observer.message("deliver", message, "", None)
        if self._stalled:
            self._hand_on_all(now_ns)
        return message

    def room_for_own(self, size_bytes: i64) -> bool:
        """Whether one more of this member's own messages could wait for its application."""
        return self.inbounds[self._me].room_for(size_bytes)

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
                inbound = self.inbounds[message.source]
            if message.seq > inbound.taken + 1:
                message.skipped = range(inbound.taken + 1, message.seq)
            inbound.taken = message.seq

    # -- what is agreed ----------------------------------------------------------------------------

    def agreed(self, grown: list[Source], safety: bool, now_ns: i64) -> None:
        """More is stable, or safe: release it, or purge what it covers."""
        for source in grown:
            agreed = self._voting.agreed(source, safety)
            if self._observer is not None:
                event = "safe" if safety else "stable"
                self._observer.progress(event, source, int(agreed), None, 0)
            inbound = self.inbounds.get(source)
            if self._guard is not None and self._guard.advance(source, agreed):
                self._retained.covers_released(source)
                self.note_retained_purges()
                if inbound is not None:
                    inbound.covers_released()
                    self._note_early_purges(inbound)
            if not safety:
                self._retained.release(source, agreed)
                self._answers.stable(source, agreed)
            if inbound is not None:
                # Room in the window of this source, or something to pass over: go on.
                self._hand_on(inbound, now_ns)

    def join(self, page: int) -> None:
        """A restarted member begins every stream of a page at the stable point."""
        stability, safety = self._voting.stability, self._voting.safety
        for source in stability.sources(page):
            inbound = self._inbound(source)
            agreed = stability.agreed(source)
            if inbound is None or source == self._me:
                continue
            if agreed >= inbound.next:
                inbound.jump(agreed + 1)
                stability.has(source, agreed)
                safety.has(source, agreed)
            if self._observer is not None:
                self._observer.progress("join", source, int(inbound.next), None, 0)

    # -- small parts -------------------------------------------------------------------------------

    def _inbound(self, source: Source) -> Inbound | None:
        """The stream of a source, unless it is not of this group or must not be joined yet."""
        inbound = self.inbounds.get(source)
        if inbound is not None:
            return inbound
        at = self._index.get(int(source.sender))
        if at is None or self._gate.closed(page_of(at)):
            return None
        if source == self._me:
            # Own messages that come back and are not delivered here.
            return None
        inbound = Inbound(source, self._config, self._guard, self._config.group_reliable)
        self._note_lives(inbound)
        self.inbounds[source] = inbound
        return inbound

    def _note_lives(self, inbound: Inbound) -> None:
        """A stream is new: its sender may have had others, in lives before this one or after it."""
        source = inbound.source
        lives = sorted([life for life in self.inbounds if life.sender == source.sender])
        for life in lives:
            if life < source:
                inbound.former = self.inbounds[life]
            else:
                self.inbounds[life].former = inbound
                break

    def _repair(self, inbound: Inbound) -> Repair:
        repair = self.repairs.get(inbound.source)
        if repair is None:
            repair = Repair(self._config.nak_delay_ns, self._random)
            self.repairs[inbound.source] = repair
        return repair

    def note_retained_purges(self) -> None:
        """Messages that were kept for others have been purged: remember what covers them."""
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
