"""Requests: what is missing here in, and what others miss; requests and answers out (SRM §5.3).

A missing message is asked for of its sender first and then, in S-RM, of anybody. Who is asked sends
it again, or says what covers it. When to ask is the business of `repair`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import RandomStream, Source
from semcast.protocol.answers import Answers
from semcast.protocol.buffer import PurgingBuffer
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Figures
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import EVERYBODY, ROWS_MAX, Outbox
from semcast.protocol.repair import Repair, ranges_of
from semcast.protocol.sender import Sender
from semcast.protocol.streams import Streams
from semcast.protocol.voting import Voting
from semcast.wire.frames import Covered, Nak


@final
class Requests:
    """What one member asks for and answers."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        retained: PurgingBuffer,
        answers: Answers,
        streams: Streams,
        voting: Voting,
        incarnations: dict[int, int],
        outbox: Outbox,
        random: RandomStream,
        observer: Observer | None,
        figures: Figures,
    ) -> None:
        """`incarnations`: by sender id, the newest life that was heard of."""
        self._config: Final = config
        self._sender: Final = sender
        self._me: Final = sender.source
        self._retained: Final = retained
        self._answers: Final = answers
        self._streams: Final = streams
        self._voting: Final = voting
        self._incarnations: Final = incarnations
        self._outbox: Final = outbox
        self._random: Final = random
        self._observer: Final = observer
        self._figures: Final = figures

    def next_deadline_ns(self, soonest_ns: i64) -> i64:
        """When there is something to ask for, if that is before `soonest_ns`."""
        for repair in self._streams.repairs.values():
            due = repair.next_deadline_ns()
            if due >= 0 and due < soonest_ns:
                soonest_ns = due
        return soonest_ns

    def on_timer(self, now_ns: i64) -> None:
        """Ask for what is due."""
        for source, repair in self._streams.repairs.items():
            due = repair.next_deadline_ns()
            if due >= 0 and due <= now_ns:
                self._ask(source, repair, now_ns)

    def _ask(self, source: Source, repair: Repair, now_ns: i64) -> None:
        inbound = self._streams.inbounds[source]
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
                self._figures.naks_sent += 1
        if self._observer is not None:
            for seq in seqs:
                self._observer.progress("nak", source, seq, None, 0)
        repair.want(inbound.missing(self._streams.window.size), now_ns)

    def _target(self, source: Source, tries: int) -> int:
        """Whom to ask: first the sender itself; then, in S-RM, anybody else may have it."""
        sender, others = int(source.sender), self._voting.others
        # Somebody who was never heard itself, but only heard of, is taken to be in that life.
        life = self._incarnations.get(sender, source.incarnation)
        alive = sender in others and life == source.incarnation
        if alive and (tries == 0 or not self._config.group_reliable):
            return sender
        if not self._config.group_reliable or not others:
            return -1
        return others[self._random.randrange(len(others))]

    def on_nak(self, nak: Nak, asker: Source, now_ns: i64) -> None:
        """Somebody asks; if not me, then what it asks for is on its way to me too."""
        if nak.target != self._me.sender:
            repair = self._streams.repairs.get(nak.source)
            if repair is not None:
                for first, last in nak.ranges:
                    repair.asked_by_another(first, last, now_ns)
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
                self._figures.retransmitted += 1
                if self._observer is not None:
                    self._observer.message("retransmit", message, "", None)
            return
        inbound = self._streams.inbounds.get(source)
        dealt_with = (
            seq <= self._sender.seq
            if source == self._me
            else (inbound is not None and seq < inbound.next)
        )
        if not dealt_with or seq <= self._voting.agreed(source, False):
            return
        # It was here and is not stable, so it was purged: it is covered.
        # A cover that was forgotten is told as the message itself: covered, by what is not known.
        by_source, by_seq = self._answers.cover(source, seq) or (source, int(seq))
        covers.append((int(seq), by_source, by_seq))
