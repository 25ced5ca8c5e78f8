"""Requests: what is missing here in, and what others miss; requests and answers out (SRM §5.3).

A missing message is asked for of its sender first and then, in S-RM, of anybody. Who is asked sends
it again, or says what covers it. When to ask is the business of `repair`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Figures
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import ROWS_MAX, Outbox
from semcast.protocol.part import Part
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.stability.detection import Detection
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import NOBODY, Asking
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.repair import Repair
from semcast.protocol.streams.sender import Sender
from semcast.wire.families.repair import NAK, Covered, Nak
from semcast.wire.frames import ControlFrame


@final
class Requests(Part):
    """What one member asks for and answers."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        retained: PurgingBuffer,
        answers: Answers,
        asking: Asking,
        intake: Intake,
        detection: Detection,
        outbox: Outbox,
        observer: Observer | None,
        figures: Figures,
    ) -> None:
        self._config: Final = config
        self._sender: Final = sender
        self._me: Final = sender.source
        self._retained: Final = retained
        self._answers: Final = answers
        self._asking: Final = asking
        self._intake: Final = intake
        self._detection: Final = detection
        self._outbox: Final = outbox
        self._observer: Final = observer
        self._figures: Final = figures

    def kinds(self) -> tuple[int, ...]:
        return (NAK,)

    def strangers_kinds(self) -> tuple[int, ...]:
        """Readers of a group are not in the view, and members answer them."""
        return (NAK,) if self._config.keeps else ()

    def install(self, view: View, now_ns: i64) -> None:
        """Whom to ask is for the intake and `asking` to know."""

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        assert isinstance(frame, Nak)
        self._on_nak(frame, source, now_ns)

    def next_deadline_ns(self) -> i64:
        """When there is something to ask for."""
        soonest_ns: i64 = SEQ_MAX
        for repair in self._intake.repairs.values():
            due = repair.next_deadline_ns()
            if due >= 0 and due < soonest_ns:
                soonest_ns = due
        return soonest_ns

    def on_timer(self, now_ns: i64) -> None:
        """Ask for what is due."""
        for source, repair in self._intake.repairs.items():
            due = repair.next_deadline_ns()
            if due >= 0 and due <= now_ns:
                self._ask(source, repair, now_ns)

    def _ask(self, source: Source, repair: Repair, now_ns: i64) -> None:
        inbound = self._intake.inbounds[source]
        view, others = self._intake.view, self._intake.others
        alive = view.holds(source)
        due = repair.due(now_ns)
        for want in due:
            if want.tries > 0:
                self._asking.timed_out(want.target, want.asked_ns, now_ns)
        # Whom, and whether the answer is for this member alone: what was dropped here for lack of
        # room is nobody else's loss, so that the answer need not be multicast.
        asked: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        for want in due:
            target = self._asking.target(source, want.last, want.tries, alive, others)
            repair.asked(want, target, self._asking.rto_ns(target), now_ns)
            if target != NOBODY:
                private = want.last <= inbound.overflowed
                ranges = asked.setdefault((target, private), [])
                ranges.append((int(want.first), int(want.last)))
        repair.look_again()
        for (target, private), ranges in asked.items():
            for at in range(0, len(ranges), ROWS_MAX):
                some = ranges[at : at + ROWS_MAX]
                self._outbox.frame(EVERYBODY, Nak(source, target, private, some))
                self._figures.naks_sent += 1
            if self._observer is not None:
                self._tell_asked(source, ranges)
        if asked:
            self._intake.want(inbound, now_ns)

    def _tell_asked(self, source: Source, ranges: list[tuple[int, int]]) -> None:
        assert self._observer is not None
        for first, last in ranges:
            for seq in range(first, last + 1):
                self._observer.progress("nak", source, seq, None, 0)

    def _on_nak(self, nak: Nak, asker: Source, now_ns: i64) -> None:
        """Somebody asks; if not me, then what it asks for is on its way to me too."""
        if nak.target != self._me.sender:
            repair = self._intake.repairs.get(nak.source)
            if repair is not None:
                rto_ns = self._asking.rto_ns(int(nak.target))
                for first, last in nak.ranges:
                    repair.asked_by_another(first, last, rto_ns, now_ns)
            return
        self._figures.naks_received += 1
        covers: list[tuple[int, Source, int]] = []
        to = int(asker.sender) if nak.private else EVERYBODY
        left = self._config.window_messages
        for first, last in nak.ranges:
            for seq in range(first, min(last, first + left - 1) + 1):
                self._answer(nak.source, seq, to, covers, now_ns)
            left -= min(left, last - first + 1)
        for at in range(0, len(covers), ROWS_MAX):
            some = covers[at : at + ROWS_MAX]
            self._outbox.frame(int(asker.sender), Covered(nak.source, some))

    def _answer(
        self,
        source: Source,
        seq: i64,
        to: int,
        covers: list[tuple[int, Source, int]],
        now_ns: i64,
    ) -> None:
        """Send it again, or say what covers it; if neither is known, somebody else may."""
        inbound = self._intake.inbounds.get(source)
        message = self._retained.get(source, seq)
        if message is None and inbound is not None:
            # What waits here for an earlier one may be what others wait for: when a sender has
            # died, each has other holes, and nobody could go on before all were filled elsewhere.
            message = inbound.early(seq)
        if message is not None:
            if self._answers.may_resend(source, seq, now_ns):
                self._outbox.message(to, message)
                self._figures.retransmitted += 1
                if self._observer is not None:
                    self._observer.message("retransmit", message, "", None)
            return
        cover = self._answers.cover(source, seq)
        dealt_with = (
            seq <= self._sender.seq
            if source == self._me
            else (inbound is not None and seq < inbound.next)
        )
        if (cover is None and not dealt_with) or seq <= self._detection.stable(source):
            return
        # It was here and is not stable, so it was purged: it is covered.
        # A cover that was forgotten is told as the message itself: covered, by what is not known.
        by_source, by_seq = cover or (source, int(seq))
        covers.append((int(seq), by_source, by_seq))
