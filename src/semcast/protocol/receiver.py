"""The receiving side of one source: messages in any order in, messages in order out.

A message is handed on when everything before it was handed on or is known to be covered. What
comes early, or finds no room, waits; what waits may be purged by what comes after it. This is where
FIFO order is kept: a message behind the ones handed on is never taken again, else SRM Figure 4
breaks its own FIFO Order. Knows nothing of timers or votes.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.buffer import PurgingBuffer
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import Transit
from semcast.protocol.guard import CoverGuard
from semcast.protocol.verdict import Verdict
from semcast.wire.message import Message

_STORED: Final = Verdict.STORED
_FULL: Final = Verdict.FULL


@final
class Inbound:
    """The stream of one source as it arrives here."""

    def __init__(
        self,
        source: Source,
        config: MemberConfig,
        guard: CoverGuard | None,
        keep: bool,
        own: bool = False,
    ) -> None:
        """`guard` says what may be used as a cover already, if others may ask for what waits.

        `keep`: what is handed on is kept for others too (S-RM, and the source is another member).
        `own`: the source is this member itself, so that nothing is ever lost on the way.
        """
        self.source: Final = source
        self.keep: Final = keep
        self._own: Final = own
        # The stream of its sender's life before this one, if that is known here.
        self.former: Inbound | None = None
        # INV-NEXT: everything before it was handed on, or skipped because it is covered.
        self.next: i64 = 1
        # The newest message that is known to exist.
        self.newest: i64 = 0
        # The last message that the application took; kept by the member, to tell what was skipped.
        self.taken: i64 = 0
        self.transit: Final = Transit()
        self._early: Final = PurgingBuffer(config.early_config(), "delivery", guard, record=True)
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
        early = self._early
        return (
            early.held < early.config.messages_max
            and early.held_bytes + size_bytes <= early.config.bytes_max
        )

    def heard_of(self, seq: i64) -> None:
        """Message `seq` exists."""
        if seq > self.newest:
            self.newest = seq

    def has(self, seq: i64) -> bool:
        """Whether this message need not be asked for."""
        if seq < self.next:
            return True
        if self._covered and int(seq) in self._covered:
            return True
        return self._early.held > 0 and self._early.get(self.source, seq) is not None

    def missing(self, limit: i64) -> list[int]:
        """The first few messages to ask for: only as many as there is room for."""
        found: list[int] = []
        if self._own:
            return found
        seq = self.next
        # What waits already fills the window from `next` on; look no farther than it reaches.
        end = min(self.newest, self.next + 4 * self._early.config.messages_max)
        while seq <= end and len(found) < limit:
            if int(seq) not in self._covered and self._early.get(self.source, seq) is None:
                found.append(int(seq))
            seq += 1
        return found

    def add(self, message: Message) -> bool:
        """A message arrived. Says whether it was new and is kept."""
        self.heard_of(message.seq)
        if self.has(message.seq):
            return False
        verdict = self._early.insert(message)
        if verdict is _FULL:
            self.overflowed = max(self.overflowed, message.seq)
        if verdict is _FULL and self._early.held > 0:
            # The nearest ones matter most: without them nothing is ever handed on.
            farthest = self._early.newest()
            if farthest is not None and farthest.seq > message.seq:
                self.overflowed = max(self.overflowed, farthest.seq)
                self._early.drop_newest()
                verdict = self._early.insert(message)
        self._note_purged()
        return verdict is _STORED

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

    def handed_on(self) -> None:
        """The next message was handed on."""
        if self._early.held > 0:
            self._early.release(self.source, self.next)
        self.next += 1

    def pass_covered(self) -> tuple[Source, int] | None:
        """If the next message is covered, pass over it and say by what."""
        cover = self._covered.pop(int(self.next), None) if self._covered else None
        if cover is None and self._own and self.next <= self.newest and self.head() is None:
            # What does not wait here was purged, and its cover forgotten: nobody else can tell.
            cover = (self.source, int(self.next))
        if cover is not None:
            self.next += 1
        return cover

    def jump(self, next_seq: i64) -> None:
        """Begin at `next_seq`: what came before is none of this member's business."""
        assert next_seq > self.next
        self._early.release(self.source, next_seq - 1)
        for seq in [seq for seq in self._covered if seq < next_seq]:
            del self._covered[seq]
        self.next = next_seq
        self.taken = next_seq - 1
        self.heard_of(next_seq - 1)

    def cover(self, seq: i64, by_source: Source, by_seq: i64) -> bool:
        """Somebody who knows says that this message is covered. Says whether that is news."""
        if self.has(seq):
            return False
        self.heard_of(seq)
        return self._note_cover(seq, by_source, by_seq)

    def _note_cover(self, seq: i64, by_source: Source, by_seq: i64) -> bool:
        """Remember a cover if there is room for it. The nearest matter most: nothing is handed on
        before them; those that are forgotten are asked for when their turn comes.
        """
        if len(self._covered) >= self._covered_max:
            farthest = max(self._covered)
            if farthest < seq:
                return False
            del self._covered[farthest]
        self._covered[int(seq)] = (by_source, int(by_seq))
        return True
