"""What waits for the application, and what it is told that it did not get.

New messages and numbers that were given up go in; messages come out in the order in which they
came, those of a source that wait together in the order of their numbers. What a message that waits
here replaces is purged. Each message that is taken says in `skipped` which numbers of its source
will not come: those purged here, or named by a message that came, have a cover (`cover_of`);
the others were missed. Each is told once, and reported as a `skip` or a `miss`. If nothing more
comes of a source, nothing can be taken that says so: `silent` has what was given up then.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.policy import BufferConfig, Overflow
from semcast.protocol.queue.purged import observe_arrival
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

_DROPPED: Final = Verdict.DROPPED
PLACE: Final = "delivery"
# How many numbers of a source are told with one message at most.
_NUMBERS_MAX: Final = 1 << 16
# How many numbers, of all sources together, wait to be told.
_ALL_NUMBERS_MAX: Final = 1 << 18
# How many sources that fell silent `silent` has at most; the oldest go first.
_SILENT_MAX: Final = 1024


@final
class Delivery:
    """The queue of the application."""

    def __init__(
        self,
        config: BufferConfig,
        covers_max: int,
        gossip: GossipConfig,
        inbox: Inbox,
        observer: Observer | None,
    ) -> None:
        self._covers: Final = CoverLog(covers_max)
        self._waiting: Final = PurgingBuffer(config, PLACE, record=True, covers=self._covers)
        self._inbox: Final = inbox
        self._observer: Final = observer
        # By source: what the application will not get, and was not told of. Bounded: of a source
        # that is too far behind, or not heard of, the oldest are only counted.
        self._untold: Final[dict[Source, list[int]]] = {}
        # INV-UNTOLD: how many numbers there are in all of these together.
        self._untold_held: i64 = 0
        self._sources_max: Final = gossip.sources_max
        self.untold: i64 = 0
        # Of sources that fell silent: numbers that were given up. Whoever drives the member may
        # take them; the next message of the source says so all the same.
        self.silent: Final[deque[tuple[Source, list[int]]]] = deque(maxlen=_SILENT_MAX)
        self.purged: i64 = 0
        self.skipped: i64 = 0
        self.missed: i64 = 0
        self.dropped: i64 = 0

    # -- in ----------------------------------------------------------------------------------------

    def insert(self, message: Message, now_ns: i64) -> None:
        """A message came for the first time, or is this member's own."""
        lost = self._inbox.note(message.source, message.seq, now_ns)
        if message.bitmap != 0:
            self._note_named(message)
        if lost:
            self._give_up(message.source, lost)
        if self._waiting.insert(message) is _DROPPED:
            self.dropped += 1
            self._tell_later(message.source, int(message.seq))
        self._forget_idle()
        if self._waiting.recorded:
            self._report(message)
        elif self._observer is not None:
            self._observer.message("receive", message, "", None)

    def pass_over(self, message: Message, now_ns: i64) -> None:
        """A message came that the application does not want; others may."""
        lost = self._inbox.note(message.source, message.seq, now_ns)
        if self._observer is not None:
            observe_arrival(self._observer, "receive", message, [])
        if lost:
            self._give_up(message.source, lost)

    def _report(self, message: Message) -> None:
        """Say what came, and what was purged for it or went because there was no room."""
        purged = self._waiting.drain_purged()
        for one in purged:
            if one.cover is not None:
                self.purged += 1
                self._tell_later(one.message.source, int(one.message.seq))
        if self._observer is None:
            return
        observe_arrival(
            self._observer, "receive", message, [one for one in purged if one.cover is not None]
        )
        for one in purged:
            if one.cover is None:
                self._observer.message("drop", one.message, f"{PLACE}/{one.reason.value}", None)

    def _note_named(self, cover: Message) -> None:
        """What this message replaces need not come any more, but may."""
        bits = cover.bitmap
        while bits != 0:
            nearest = bits & -bits
            bits ^= nearest
            seq = cover.seq - nearest.bit_length()
            if seq > 0 and self._inbox.missing(cover.source, seq):
                self._covers.note(cover.source, seq, cover.source, cover.seq)

    def covered(self, source: Source, seq: i64, by_source: Source, by_seq: i64) -> bool:
        """Somebody says that a message which did not come is covered. Whether that was news."""
        if not self._inbox.missing(source, seq) or self._covers.cover(source, seq) is not None:
            return False
        self._covers.note(source, seq, by_source, by_seq)
        return True

    def expire(self, now_ns: i64) -> None:
        """Give up what is missing for too long of sources of which nothing new comes."""
        for source, lost in self._inbox.expire(now_ns):
            self._give_up(source, lost)
            self.silent.append((source, lost))

    def _give_up(self, source: Source, lost: list[int]) -> None:
        for seq in lost:
            cover = self._covers.cover(source, seq)
            if cover is None:
                self.missed += 1
            else:
                self.skipped += 1
            if self._observer is not None:
                if cover is None:
                    self._observer.progress("miss", source, seq, None, 0)
                else:
                    self._observer.progress("skip", source, seq, cover[0], cover[1])
            self._tell_later(source, seq)

    def _tell_later(self, source: Source, seq: int) -> None:
        numbers = self._untold.get(source)
        if numbers is None:
            if len(self._untold) >= self._sources_max:
                self._give_up_telling()
            numbers = self._untold[source] = []
        numbers.append(seq)
        self._untold_held += 1
        if len(numbers) > _NUMBERS_MAX:
            self.untold += _NUMBERS_MAX // 2
            self._untold_held -= _NUMBERS_MAX // 2
            del numbers[: _NUMBERS_MAX // 2]
        if self._untold_held > _ALL_NUMBERS_MAX:
            self._give_up_telling()

    def _give_up_telling(self) -> None:
        """What is to be told of the source that waits for longest is only counted."""
        numbers: i64 = len(self._untold.pop(next(iter(self._untold))))
        self.untold += numbers
        self._untold_held -= numbers

    # -- out ---------------------------------------------------------------------------------------

    def take(self) -> Message | None:
        """The next message, with what its application will not get of its source."""
        message = self._waiting.take()
        if message is None:
            return None
        untold = self._untold.pop(message.source, None) if self._untold else None
        if untold is not None:
            message.skipped = tuple(sorted(untold))
            self._untold_held -= len(untold)
        self._forget_idle()
        if self._observer is not None:
            self._observer.message("deliver", message, "", None)
        return message

    def _forget_idle(self) -> None:
        """Forget sources of which nothing waits, once they are many."""
        if self._waiting.sources > 2 * self._waiting.held + 64:
            self._waiting.forget_idle()

    @property
    def held(self) -> i64:
        """How many messages wait."""
        return self._waiting.held

    def peek(self) -> Message | None:
        """The next message, which stays."""
        return self._waiting.peek()

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """The cover of a message that was skipped, if it is still remembered."""
        return self._covers.cover(source, seq)


def delivery_config(config: MemberConfig) -> BufferConfig:
    """The queue of the application. If it is full, gossip does not wait: what comes is dropped,
    and the application is told so.
    """
    usual = config.delivery_config()
    return BufferConfig(usual.messages_max, usual.bytes_max, usual.purging, Overflow.DROP_NEW)
