"""The receiving side of one source: messages in any order in, messages in order out.

A message is handed on when everything before it was handed on or is known to be covered. What
comes early, or finds no room, waits; what waits may be purged by what comes after it. This is where
FIFO order is kept: a message behind the ones handed on is never taken again, else SRM Figure 4
breaks its own FIFO Order. Knows nothing of timers or votes.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Transit
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import CoverGuard
from semcast.protocol.queue.verdict import Verdict
from semcast.protocol.streams.holes import Holes
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL


@final
class Inbound:
    """The stream of one source as it arrives here."""

    def __init__(
        self,
        source: Source,
        config: MemberConfig,
        members: int,
        guard: CoverGuard | None,
        keep: bool,
        own: bool = False,
    ) -> None:
        """`guard` says what may be used as a cover already, if others may ask for what waits.

        `keep`: what is handed on is kept for others too (S-RM, and the source is another member).
        `own`: the source is this member itself, so that nothing is ever lost on the way.
        """
        self.source: Final = source
        self.keep = keep
        self._own: Final = own
        # The stream of its sender's life before this one, if that is known here.
        self.former: Inbound | None = None
        # INV-NEXT: everything before it was handed on, or skipped because it is covered.
        self.next: i64 = 1
        # When the stream last began: all that had come (at first nothing), and what is before it.
        self.had: i64 = 0
        self.cut: i64 = -1
        # The newest message that is known to exist.
        self.newest: i64 = 0
        # INV-MISSING: of the messages from `next` to `newest`, those that neither wait here nor are
        # known to be covered. Of this member's own messages none is ever missing.
        self.holes: Final = Holes()
        # About how many messages a datagram of this source holds.
        self.run: i64 = 1
        self.transit: Final = Transit()
        self._early: Final = PurgingBuffer(
            config.early_config(members), "delivery", guard, record=True
        )
        # INV-COVERED: messages at or after `next` that are covered, and by what; the nearest ones.
        self._covered: Final[dict[int, tuple[Source, int]]] = {}
        self._covered_max: Final = 4 * config.window_messages
        # The last message that was dropped here for lack of room: others probably have those.
        self.overflowed: i64 = 0
        # Purged while waiting here, with the covers; the member takes note and clears it.
        self.purged: list[tuple[Message, Message]] = []

    @property
    def waiting(self) -> int:
        """How many messages wait for room or for an earlier one."""
        return len(self._early)

    def room_for(self, size_bytes: i64) -> bool:
        """Whether one more message of this size could wait here."""
        room = self._early.room_for(self.source, size_bytes)
        if self._early.recorded:
            self._note_purged()
        return room

    def heard_of(self, seq: i64) -> None:
        """Message `seq` exists."""
        if seq > self.newest:
            if not self._own and seq >= self.next:
                self.holes.add(max(self.newest + 1, self.next), seq)
            self.newest = seq

    def has(self, seq: i64) -> bool:
        """Whether this message need not be asked for."""
        return seq < self.next or (seq <= self.newest and not self.holes.has(seq))

    @property
    def end(self) -> i64:
        """How far to look for what is missing: what is farther away would find no room."""
        return min(self.newest, self.next + 4 * self._early.config.messages_max)

    def came(self, run: i64) -> None:
        """So many messages came in one datagram. The last datagrams of a burst may hold fewer."""
        self.run = max(run, self.run - self.run // 8)

    def advanced(self) -> None:
        """Messages before `next` were handed on as they came: nothing of them need be known here,
        though copies of them may wait, or be known to be covered.
        """
        if self.next > self.newest:
            self.newest = self.next - 1
        if len(self.holes) > 0:
            self.holes.fill(0, self.next - 1)
        if self._early.held > 0:
            self._early.release(self.source, self.next - 1)
        if self._covered:
            for seq in [seq for seq in self._covered if seq < self.next]:
                del self._covered[seq]

    def add_run(self, messages: list[Message], at: i64, end: i64) -> None:
        """Messages with numbers in a row arrived, which cannot be handed on as they are."""
        first, last = messages[at].seq, messages[end - 1].seq
        known = first <= self.newest
        self.heard_of(last)
        if known and not self.holes.has_any(first, last):
            return  # all of them were here before
        if known and not self.holes.has_all(first, last):
            while at < end:
                if not self.has(messages[at].seq):
                    self.holes.fill(messages[at].seq, messages[at].seq)
                    self._add(messages[at])
                at += 1
        else:
            self.holes.fill(first, last)
            while at < end:
                self._add(messages[at])
                at += 1
        if self._early.recorded:
            self._note_purged()

    def _add(self, message: Message) -> None:
        """Keep a message that was missing; if it cannot be kept it is missing again."""
        verdict = self._early.insert(message)
        if verdict is not _FULL:
            return
        self.overflowed = max(self.overflowed, message.seq)
        # The nearest ones matter most: without them nothing is ever handed on.
        farthest = self._early.newest()
        if farthest is not None and farthest.seq > message.seq:
            self.overflowed = max(self.overflowed, farthest.seq)
            self._early.drop_newest()
            self._missing_again(farthest.seq)
            verdict = self._early.insert(message)
        if verdict is _FULL:
            self._missing_again(message.seq)

    def _missing_again(self, seq: i64) -> None:
        if not self._own and seq >= self.next and not self.holes.has(seq):
            self.holes.add(seq, seq)

    def covers_released(self) -> None:
        """The guard allows more covers: purge what they replace."""
        if self._early.held > 0:
            self._early.covers_released(self.source)
            self._note_purged()

    def _note_purged(self) -> None:
        for purged in self._early.drain_purged():
            cover = purged.cover
            assert cover is not None, "only covered messages leave"
            self._note_cover(purged.message.seq, cover.source, cover.seq)
            self.purged.append((purged.message, cover))

    def head(self) -> Message | None:
        """The next message to hand on, if it is here."""
        return self._early.get(self.source, self.next) if self._early.held > 0 else None

    def early(self, seq: i64) -> Message | None:
        """A message that waits here for room or for an earlier one."""
        return self._early.get(self.source, seq) if self._early.held > 0 else None

    def handed_on(self) -> None:
        """What waited here and comes before `next` was handed on."""
        if self._early.held > 0:
            self._early.release(self.source, self.next - 1)

    def pass_covered(self) -> tuple[Source, int] | None:
        """If the next message is covered, pass over it and say by what."""
        cover = self._covered.pop(int(self.next), None) if self._covered else None
        if cover is None and self._own and self.next <= self.newest and self.head() is None:
            # What does not wait here was purged, and its cover forgotten: nobody else can tell.
            cover = (self.source, int(self.next))
        if cover is not None:
            self.next += 1
        return cover

    def resume(self, had: i64) -> None:
        """The stream had ended here, and everything up to there was taken: go on after it."""
        assert self.next == 1, "nothing has come yet"
        self.next = had + 1
        self.newest = had

    def begin(self, after: i64) -> bool:
        """Begin after this message: what came before is none of this member's business. If more
        than that is here already, the stream only goes on. Says whether it does not.
        """
        self.had = self.next - 1
        self.cut = max(self.had, after)
        if after < self.next:
            return False
        self.next = after + 1
        self.advanced()
        return True

    def in_order(self) -> i64:
        """Everything up to here is here, or covered, though it may wait for room."""
        end = self.next - 1
        while self._early.get(self.source, end + 1) is not None or int(end + 1) in self._covered:
            end += 1
        return end

    def waiting_in_order(self) -> list[Message]:
        """What could be handed on if there was room."""
        return self._early.up_to(self.source, self.in_order())

    def give_up(self) -> None:
        """Nobody has what is missing: what waits behind it will never be handed on. And nobody
        else needs what is.
        """
        self.keep = False
        end = self.in_order()
        while self._early.held > 0:
            newest = self._early.newest()
            if newest is None or newest.seq <= end:
                break
            self._early.drop_newest()
        for seq in [seq for seq in self._covered if seq > end]:
            del self._covered[seq]
        self.newest = end
        self.holes.fill(0, SEQ_MAX)

    def cover(self, seq: i64, by_source: Source, by_seq: i64) -> bool:
        """Somebody who knows says that this message is covered. Says whether that is news."""
        if self.has(seq):
            return False
        self.heard_of(seq)
        self.holes.fill(seq, seq)
        return self._note_cover(seq, by_source, by_seq)

    def _note_cover(self, seq: i64, by_source: Source, by_seq: i64) -> bool:
        """Remember a cover if there is room for it. The nearest matter most: nothing is handed on
        before them; those that are forgotten are asked for when their turn comes.
        """
        if len(self._covered) >= self._covered_max:
            farthest = max(self._covered)
            if farthest < seq:
                self._missing_again(seq)
                return False
            del self._covered[farthest]
            self._missing_again(farthest)
        self._covered[int(seq)] = (by_source, int(by_seq))
        return True


def link_lives(inbounds: dict[Source, Inbound], inbound: Inbound) -> None:
    """A stream is new: its sender may have had others, in lives before this one or after it."""
    source = inbound.source
    for life in sorted([life for life in inbounds if life.sender == source.sender]):
        if life < source:
            inbound.former = inbounds[life]
        else:
            inbounds[life].former = inbound
            break
