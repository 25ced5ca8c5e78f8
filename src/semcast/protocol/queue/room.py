"""Room in a buffer: whether a message fits, and what goes for it if it does not.

Knows the bounds, what the buffer does when it is full, and nothing of order.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import MessageTooLargeError
from semcast.ids import Randomness, Source
from semcast.protocol.queue.policy import BufferConfig, Overflow, Purging
from semcast.protocol.queue.purged import PurgeLog, Reason
from semcast.protocol.queue.purger import Purger
from semcast.protocol.queue.slots import Lane, Slots
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

# Looked up once: an enum member costs a dictionary look-up in compiled code, these do not.
_STORED: Final = Verdict.STORED
_FULL: Final = Verdict.FULL
_DROPPED: Final = Verdict.DROPPED
_RANDOM: Final = Reason.RANDOM
_OVERFLOW: Final = Reason.OVERFLOW


@final
class Room:
    """The bounds of a buffer, and what happens at them."""

    def __init__(
        self,
        config: BufferConfig,
        slots: Slots,
        purger: Purger,
        random: Randomness | None,
        log: PurgeLog,
    ) -> None:
        self._slots: Final = slots
        self._purger: Final = purger
        self._random: Final = random
        self._log: Final = log
        self._limit: Final[i64] = config.messages_max
        self._messages_max: i64 = config.messages_max
        self._bytes_max: Final[i64] = config.bytes_max
        per_source = config.source_messages_max
        self._source_max: Final[i64] = config.messages_max if per_source is None else per_source
        per_source = config.source_bytes_max
        self._source_bytes_max: Final[i64] = config.bytes_max if per_source is None else per_source
        self._high: Final[i64] = config.high
        self._low: Final[i64] = config.low
        self._eager: Final = config.purging is Purging.EAGER
        self._watermark: Final = config.purging is Purging.WATERMARK
        self._overflow: Final = config.overflow

    def narrow(self, messages_max: i64) -> None:
        """From now on there is room for so many messages, and never for more than the bound."""
        self._messages_max = min(self._limit, messages_max)

    def fits(self, lane: Lane, size: i64) -> bool:
        """Whether there is room for a message of this size."""
        slots = self._slots
        return (
            slots.held < self._messages_max
            and slots.held_bytes + size <= self._bytes_max
            and lane.index.count < self._source_max
            and lane.held_bytes + size <= self._source_bytes_max
        )

    def fit(self, lane: Lane, messages: list[Message], at: i64, end: i64) -> i64:
        """For how many of these, from the first on, there is room."""
        slots = self._slots
        most = min(self._messages_max - slots.held, self._source_max - lane.index.count)
        bytes_left = min(
            self._bytes_max - slots.held_bytes, self._source_bytes_max - lane.held_bytes
        )
        count: i64 = 0
        while at < end and count < most:
            bytes_left -= len(messages[at].body)
            if bytes_left < 0:
                break
            at += 1
            count += 1
        return count

    def would_fit(self, lane: Lane, message: Message, size: i64) -> bool:
        """Whether there would be room without the held messages that `message` replaces."""
        hits = self._purger.hits(lane, message)
        freed: i64 = 0
        of_source: i64 = 0
        of_source_bytes: i64 = 0
        for hit in hits:
            freed += len(hit.body)
            if hit.source == message.source:
                of_source += 1
                of_source_bytes += len(hit.body)
        return (
            self._slots.held - len(hits) < self._messages_max
            and self._slots.held_bytes - freed + size <= self._bytes_max
            and lane.index.count - of_source < self._source_max
            and lane.held_bytes - of_source_bytes + size <= self._source_bytes_max
        )

    def keep_to_marks(self) -> None:
        """WATERMARK: above the high mark, purge down to the low one."""
        if self._slots.held > self._high:
            self._purger.purge_marked(self._low)

    def make(self, lane: Lane, message: Message, size: i64, allowed: bool) -> Verdict:
        """Room for `message`, or why not. Hits of the message itself count as room."""
        if size > self._bytes_max:
            raise MessageTooLargeError(size, self._bytes_max)
        purger = self._purger
        if self._watermark:
            purger.purge_marked(self._low)
        if not self._eager and not self.fits(lane, size):
            purger.purge_marked(0)
        if self.fits(lane, size):
            return _STORED
        overflow = self._overflow
        if allowed and (overflow is Overflow.RANDOM or self.would_fit(lane, message, size)):
            # It is going to be stored, so what it replaces goes before anything is lost.
            purger.hit(lane, message)
            purger.purge_marked(0)
            if self.fits(lane, size):
                return _STORED
        if overflow is Overflow.REFUSE:
            return _FULL
        if overflow is Overflow.DROP_NEW:
            self._log.account(_OVERFLOW, message, None)
            return _DROPPED
        while not self.fits(lane, size):
            its_own = (
                lane.index.count >= self._source_max
                or lane.held_bytes + size > self._source_bytes_max
            )
            self._drop_random(message.source, its_own)
        return _STORED

    def _drop_random(self, source: Source, its_own: bool) -> None:
        """Drop a message; one of `source` if that has used up its share."""
        assert self._random is not None
        items = self._slots.items
        # Slots are dense but for free ones, so that a few draws find a held one.
        while True:
            slot = self._random.randrange(len(items))
            victim = items[slot]
            if victim is not None and (not its_own or victim.source == source):
                self._log.account(_RANDOM, self._purger.remove(slot), None)
                return
