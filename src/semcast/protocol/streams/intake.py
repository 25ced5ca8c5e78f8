"""The intake: messages of others in any order in; what waits for the application, in order, out.

Each source has an `Inbound`, which knows what is missing. Here is what they have in common: the
order in which messages wait for the application, the messages that are kept for others, and what
becomes of both as more is agreed. What is missing is noted in a `Repair` for each source, which
`requests` asks for. What is here is told to the detection. Nothing is kept of a stream that has
ended once the application has taken what waits of it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.order import Order
from semcast.protocol.part import Part
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.queue.verdict import Verdict
from semcast.protocol.stability.detection import Agreed, Detection
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.endings import Endings
from semcast.protocol.streams.inbound import Inbound
from semcast.protocol.streams.own_room import OwnRoom
from semcast.protocol.streams.repair import Repair, report_answers
from semcast.wire.families.repair import COVERED, FRAGMENT, Covered, Fragment
from semcast.wire.fragment import Reassembler
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message
from semcast.wire.sources import Sources

_FULL: Final = Verdict.FULL


@final
class Intake(Part):
    """One member's part of every stream."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        order: Order,
        retained: PurgingBuffer,
        guard: SafeUpTo | None,
        answers: Answers,
        asking: Asking,
        detection: Detection,
        endings: Endings,
        sources: Sources,
        random: Randomness,
        observer: Observer | None,
    ) -> None:
        self._config: Final = config
        self._me: Final = me
        self.view = view
        # Whom to ask: everybody else who is not gone.
        self.others = view.others(me)
        self._order: Final = order
        self._retained: Final = retained
        self._guard: Final = guard
        self._answers: Final = answers
        self._asking: Final = asking
        self._detection: Final = detection
        self.endings: Final = endings
        self._sources: Final = sources
        self._random: Final = random
        self._observer: Final = observer
        self._fragments: Final = Reassembler(config.limits)
        self.inbounds: Final[dict[Source, Inbound]] = {}
        self.room: Final = OwnRoom(config, me, view, order.waiting, retained, self.inbounds)
        # INV-STALLED: all streams of which more is known than was handed on, for lack of room or
        # because something is missing; and perhaps some that have gone on since.
        self._stalled: Final[dict[Source, Inbound]] = {}
        self.repairs: Final[dict[Source, Repair]] = {}
        # Of these nothing is handed on yet: it may be what the application had before (`doubts`).
        self.doubtful: Final[set[Source]] = set()
        if config.deliver_own:
            # What this member multicast is in `retained` for others, whatever becomes of it here.
            self.inbounds[me] = Inbound(me, config, len(view.members), None, keep=False, own=True)

    def kinds(self) -> tuple[int, ...]:
        return (FRAGMENT, COVERED)

    def install(self, view: View, now_ns: i64) -> None:  # noqa: ARG002
        self.view = view
        self.others = view.others(self._me)
        self._order.install(view)
        for inbound in self._stalled.values():
            self._note_waiting(inbound)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        if isinstance(frame, Fragment):
            self._on_fragment(frame, now_ns)
        else:
            assert isinstance(frame, Covered)
            self._on_covered(frame, now_ns)

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
        source = inbound.source
        end = at
        count: i64 = len(messages)
        seq = inbound.next
        size_bytes: i64 = 0
        while end < count and messages[end].seq == seq and messages[end].source is source:
            seq += 1
            size_bytes += len(messages[end].body)
            end += 1
        run = self._accept(messages, at, end, inbound.keep) if end > at else 0
        if run > 0:
            inbound.next += run
            self._detection.count_bytes(size_bytes)
            inbound.came(run)
            inbound.advanced()
        return run

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
        self._answers.note_early_purges(inbound.purged)
        repair = self.repairs.get(source)
        if repair is not None and len(repair) > 0:
            came = repair.arrived(messages[first].seq, messages[at - 1].seq)
            report_answers(self._asking, came, now_ns)
        return at

    def _hand_on(self, inbound: Inbound, now_ns: i64) -> None:
        """Hand on what is in order and has room; ask for what is missing."""
        before = inbound.next
        waits = self._waits_for_former(inbound, now_ns)
        while not waits:
            seq = inbound.next
            cover = inbound.pass_covered()
            if cover is not None:
                self._order.pass_over(inbound.source, seq)
                if self._observer is not None:
                    self._observer.progress("skip", inbound.source, int(seq), cover[0], cover[1])
                continue
            message = inbound.head()
            if message is None or self._accept([message], 0, 1, inbound.keep) == 0:
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
        self._note_waiting(inbound)
        if len(inbound.holes) > 0 and inbound.head() is None:
            self.want(inbound, now_ns)

    def _note_waiting(self, inbound: Inbound) -> None:
        """Of a life that is over, what waits for room counts: others may not have it."""
        if self.view.is_over(inbound.source) and inbound.head() is not None:
            self._detection.knows(inbound.source, inbound.in_order())

    def want(self, inbound: Inbound, now_ns: i64) -> None:
        """Ask soon for what is missing, as far as whoever is asked can take it."""
        repair = self._repair(inbound)
        source = inbound.source
        most = self._asking.size(source, self.view.holds(source), self.others)
        if len(repair) < most:
            repair.want(inbound.holes, inbound.end, inbound.run, most, now_ns)

    def _waits_for_former(self, inbound: Inbound, now_ns: i64) -> bool:
        """Whether messages of a former life of the same sender are here and still lack room: what
        is older about a key must not come after what is newer.
        """
        if self.doubtful and inbound.source in self.doubtful:
            return True
        former = inbound.former
        # INV-STALLED: whoever lacks room is there.
        while former is not None and self._stalled:
            if former.head() is not None:
                self._hand_on(former, now_ns)
                if former.head() is not None:
                    return True
            former = former.former
        return False

    def _accept(self, messages: list[Message], at: i64, end: i64, keep: bool) -> i64:
        """Let messages of one source, in a row, wait for the application and, in S-RM, keep them
        for others; both or neither. Says how many, from the first on.
        """
        if self.room.narrow(keep):
            end = min(end, at + 1)
        if keep:
            end = at + self._retained.room_for_run(messages, at, end)
            if self._retained.recorded:
                self._answers.note_purges(self._retained, self._observer)
        count = self._order.admit(messages, at, end)
        if keep:
            end = at + count
            while at < end:
                stored = self._retained.insert(messages[at])
                assert stored is not _FULL, "there was room for it"
                at += 1
            if self._retained.recorded:
                self._answers.note_purges(self._retained, self._observer)
        return count

    def _advanced(self, inbound: Inbound, seq: i64, now_ns: i64) -> None:
        repair = self.repairs.get(inbound.source)
        if repair is not None:
            report_answers(self._asking, repair.passed(inbound.next), now_ns)
        if inbound.source != self._me:
            self._detection.has(inbound.source, seq, now_ns)

    def _on_fragment(self, fragment: Fragment, now_ns: i64) -> None:
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

    def _on_covered(self, covered: Covered, now_ns: i64) -> None:
        """Somebody who has purged messages says what covers them."""
        inbound = self._inbound(covered.source)
        if inbound is None:
            return
        for seq, by_source, by_seq in covered.covers:
            if inbound.cover(seq, by_source, by_seq):
                report_answers(self._asking, self._repair(inbound).arrived(seq, seq), now_ns)
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
        """The application takes what waits for it, in its order."""
        taken = self._order.take(messages_max)
        if taken:
            self.has_room(now_ns)
        return taken

    def take_one(self, now_ns: i64) -> Message | None:
        """The same for one message, if there is one."""
        message = self._order.take_one()
        if message is not None:
            self.has_room(now_ns)
        return message

    def has_room(self, now_ns: i64) -> None:
        """There is room again for whoever waits for it."""
        if self._stalled:
            for inbound in list(self._stalled.values()):
                self._hand_on(inbound, now_ns)
        if len(self.endings) > 0:
            self.endings.forget(self.inbounds)

    # -- what is agreed ----------------------------------------------------------------------------

    def agreed(self, agreed: Agreed, now_ns: i64) -> None:
        """Do what follows from what detection has found."""
        for source in agreed.joined:
            self._join(source, now_ns)
        for heard in agreed.heard:
            self.heard_of(heard.source, heard.newest, now_ns)
            if heard.source in self.repairs:
                self._asking.has(heard.holder, heard.source, heard.has)
        for source in agreed.stable:
            self._on_more(source, self._detection.stable(source), True, now_ns)
        for source in agreed.safe:
            self._on_more(source, self._detection.safe(source), False, now_ns)
        for source in agreed.ended:
            self._on_ended(source, now_ns)
        for source in agreed.missed:
            self.endings.missed(source)  # all was stable before this member had a vote
            self._tell_progress("join", source, ENDED)

    def _on_more(self, source: Source, seq: i64, stable: bool, now_ns: i64) -> None:
        """More of a source survives crashes: purge what it covers. All have it: release it."""
        self._tell_progress("stable" if stable else "safe", source, seq)
        inbound = self.inbounds.get(source)
        self._safe_up_to(source, seq, inbound)
        if stable:
            self._retained.release(source, seq)
            self._answers.stable(source, seq)
        if inbound is not None:
            # Room in the window of this source, or something to pass over: go on.
            self._hand_on(inbound, now_ns)

    def _safe_up_to(self, source: Source, safe: i64, inbound: Inbound | None) -> None:
        if self._guard is not None and self._guard.advance(source, safe):
            self._retained.covers_released(source)
            self._answers.note_purges(self._retained, self._observer)
            if inbound is not None:
                inbound.covers_released()
                self._answers.note_early_purges(inbound.purged)

    def _join(self, source: Source, now_ns: i64) -> None:
        """A member that came back begins a stream at the stable point."""
        inbound = self._inbound(source)
        if inbound is None or source == self._me:
            return
        stable = self._detection.stable(source)
        if self.endings.begin(inbound, stable):
            self.repairs.pop(source, None)  # nobody has what was asked for
            self._order.begin(source, stable + 1)
        if inbound.next > 1:
            self._detection.has(source, inbound.next - 1, now_ns)
        self._tell_progress("join", source, inbound.next)
        self._hand_on(inbound, now_ns)

    def _on_ended(self, source: Source, now_ns: i64) -> None:
        """All have what anybody has of a source: keep nothing of it for others, ask for nothing."""
        inbound = self.inbounds.get(source)
        if inbound is not None:
            last = inbound.next - 1
            if self._config.keeps and last > 0:
                self._tell_progress("stable", source, last)
            self.endings.give_up(source, inbound)
            self._hand_on(inbound, now_ns)
        self.repairs.pop(source, None)
        self._fragments.forget(source)
        self.endings.end(source, inbound)
        self.endings.forget(self.inbounds)

    # -- small parts -------------------------------------------------------------------------------

    def _inbound(self, source: Source) -> Inbound | None:
        """The stream of a source, unless it is not of this group or must not be joined yet."""
        inbound = self.inbounds.get(source)
        if inbound is not None:
            return inbound
        # Own messages that come back are not delivered here.
        if source == self._me or not self._detection.follows(source):
            return None
        source = self._sources.intern(source)
        config, members = self._config, len(self.view.members)
        inbound = Inbound(source, config, members, self._guard, config.keeps)
        self.endings.take_up(self.inbounds, inbound)
        self.inbounds[source] = inbound
        return inbound

    def _repair(self, inbound: Inbound) -> Repair:
        if inbound.source not in self.repairs:
            self.repairs[inbound.source] = Repair(self._config.nak_delay_ns, self._random)
        return self.repairs[inbound.source]

    def _tell_progress(self, event: str, source: Source, seq: i64) -> None:
        if self._observer is not None:
            self._observer.progress(event, source, int(seq), None, 0)
