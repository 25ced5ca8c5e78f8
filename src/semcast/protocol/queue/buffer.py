"""The purging buffer: a bounded FIFO queue from which obsolete messages may be dropped.

Messages go in; they come out in order, but for those that a message also held here replaces
(SRM §4.3: purge m while there are m, m' in the queue with m ⊏ m', and the guard allows m'). Per
source FIFO order is kept even when a message comes late. Knows nothing of time or networks.

Theory of operation. An arriving message *hits* the held messages that its annotation names, or
those of its key. EAGER purges hits at once. LAZY and WATERMARK only mark them, with the message
that covers them, and purge marked ones when the policy says so. Hits of a cover that the guard does
not allow yet are looked at again when the guard moves on (`covers_released`). A message that
arrives already obsolete does not enter.

In place (`BufferConfig.in_place`), a message moves into the slot of the foremost one that it hits.
Order is then kept within each key sequence of a source only: one key, or the unmarked.

This file is what others see. `slots` holds the messages in queue order, `purger` knows what is
obsolete, `room` the bounds, `in_place` who moves where, `purged` what has left and why.
"""

from typing import Final, final

from semcast._native import i64
from semcast.errors import ConfigError
from semcast.ids import SEQ_MAX, Randomness, Source
from semcast.protocol.membership.standing import Standing
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.guard import CoverGuard
from semcast.protocol.queue.in_place import Places, leave_untold
from semcast.protocol.queue.policy import BufferConfig, Overflow, Purging
from semcast.protocol.queue.purged import Purged, PurgeLog, Reason
from semcast.protocol.queue.purger import Purger
from semcast.protocol.queue.room import Room
from semcast.protocol.queue.slots import Lane, Slots
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

# Looked up once: an enum member costs a dictionary look-up in compiled code, these do not.
_STORED: Final = Verdict.STORED
_FULL: Final = Verdict.FULL
_OBSOLETE: Final = Verdict.OBSOLETE
_DUPLICATE: Final = Verdict.DUPLICATE

# Of a source of which nothing was ever held.
_NO_LANE: Final = Lane()


@final
class PurgingBuffer:
    """A bounded FIFO queue of messages that purges what is obsolete."""

    def __init__(
        self,
        config: BufferConfig,
        place: str = "delivery",
        guard: CoverGuard | None = None,
        random: Randomness | None = None,
        record: bool = False,
        covers: CoverLog | None = None,
        heir: Standing | None = None,
    ) -> None:
        """`record`: keep what is purged for `drain_purged`; `covers`: note there what covers it;
        `heir`: gets what is released.
        """
        if config.overflow is Overflow.RANDOM and random is None:
            raise ConfigError("overflow 'random' needs seeded randomness: pass random=")
        if config.in_place and guard is not None:
            raise ConfigError("in_place is for delivery buffers, which need no guard")
        self.config: Final = config
        self.place: Final = place
        self._in_place: Final = config.in_place
        self._watermark: Final = config.purging is Purging.WATERMARK
        self.heir: Final = heir
        self._log: Final = PurgeLog(place, record, covers)
        self._slots: Final = Slots()
        self._places: Final = Places(self._slots)
        self._purger: Final = Purger(config, self._slots, self._places, guard, self._log)
        self._room: Final = Room(config, self._slots, self._purger, random, self._log)

    def __len__(self) -> int:
        return self._slots.held

    @property
    def held(self) -> i64:
        """How many messages are held."""
        return self._slots.held

    @property
    def held_bytes(self) -> i64:
        """The sum of their sizes."""
        return self._slots.held_bytes

    # -- in ------------------------------------------------------------------------------------

    def insert(self, message: Message) -> Verdict:
        """Add a message, purging as the policy says. FULL means: keep it and try again."""
        slots = self._slots
        purger = self._purger
        # Messages come in runs of one source, so the lane of the last one is often right.
        source = message.source
        lane = slots.last_lane if source is slots.last_source else slots.lane(source)
        by_key = message.by_key
        marks = by_key or message.bitmap != 0 or message.ranked
        allowed = marks and purger.allows(message)
        late = message.seq <= lane.newest
        if late and lane.index.get(message.seq) >= 0:
            return _DUPLICATE
        if (late or message.ranked) and purger.arrives_obsolete(lane, message):
            return _OBSOLETE
        size: i64 = len(message.body)
        if self._in_place:
            self._places.expect(message)
        if not self._room.fits(lane, size):
            verdict = self._make_room(lane, message, size, allowed)
            if verdict is not _STORED:
                return verdict
        if self._in_place:
            if allowed:
                purger.hit(lane, message)
            slot = self._places.store(lane, message, size, late)
        else:
            # Looked for only now: making room may have removed what it has to stand before.
            before: i64 = slots.successor(lane, message) if late else 0
            slot = slots.store(lane, message, size, before)
            if allowed and not by_key:
                purger.hit(lane, message)
        if by_key or message.ranked:
            purger.stored(lane, message, slot, allowed)
        if marks and not allowed:
            purger.waits(lane, message)
        if self._watermark:
            self._room.keep_to_marks()
        return _STORED

    def _make_room(self, lane: Lane, message: Message, size: i64, allowed: bool) -> Verdict:
        verdict = _FULL
        try:
            verdict = self._room.make(lane, message, size, allowed)
        finally:
            if self._in_place and verdict is not _STORED:
                self._places.expect_none()
        return verdict

    def insert_many(self, messages: list[Message]) -> int:
        """Insert in order until one is refused as FULL; says how many were dealt with."""
        done = 0
        for message in messages:
            if self.insert(message) is _FULL:
                break
            done += 1
        return done

    def covers_released(self, source: Source) -> None:
        """The guard allows more covers of `source`: purge, or mark, what they replace."""
        lane = self._slots.find(source)
        if lane is not None:
            self._purger.covers_released(lane)
            if self._watermark:
                self._room.keep_to_marks()

    def pass_over(self, source: Source, seq: i64) -> None:
        """A message of `source` will not come, being covered: in place, the next one tells so."""
        if self._in_place:
            leave_untold(self._slots.lane(source), seq)

    # -- out -----------------------------------------------------------------------------------

    def take(self) -> Message | None:
        """The next message, which leaves the buffer."""
        return None if self._slots.held == 0 else self._take()

    def take_many(self, messages_max: i64) -> list[Message]:
        """The next messages, at most so many, which leave the buffer."""
        taken = []
        while messages_max > 0 and self._slots.held > 0:
            taken.append(self._take())
            messages_max -= 1
        return taken

    def _take(self) -> Message:
        slot = self._places.take() if self._in_place else self._slots.links[0]
        return self._purger.remove(slot)

    def peek(self) -> Message | None:
        """The next message, which stays."""
        slot = self._places.next() if self._in_place else self._slots.links[0]
        return self._slots.items[slot]

    def newest(self) -> Message | None:
        """The last message of the queue, which stays."""
        return self._slots.items[self._newest()]

    def drop_newest(self) -> Message | None:
        """Give up the last message of the queue; somebody else has it."""
        slot = self._newest()
        return None if slot == 0 else self._purger.remove(slot)

    def _newest(self) -> i64:
        return self._places.newest() if self._in_place else self._slots.links[1]

    def remove(self, source: Source, seq: i64) -> Message | None:
        """Give up one message, if it is held: it has gone where it was to go."""
        lane = self._slots.find(source)
        slot: i64 = -1 if lane is None else lane.index.get(seq)
        return None if slot < 0 else self._purger.remove(slot)

    def release(self, source: Source, stable_seq: i64) -> int:
        """Everybody has everything of `source` up to `stable_seq`: let it go. Says how many."""
        lane = self._slots.find(source)
        if lane is None:
            return 0
        heir = self.heir
        released = 0
        seq = lane.oldest
        while seq <= stable_seq and seq <= lane.newest and lane.index.count > 0:
            slot = lane.index.get(seq)
            if slot >= 0:
                message = self._purger.remove(slot)
                if heir is not None and (message.key_len > 0 or message.bitmap != 0):
                    heir.add(message)
                released += 1
                seq += 1
            else:
                seq = lane.index.following(seq + 1)
        lane.oldest = max(lane.oldest, seq)
        return released

    def forget(self, source: Source) -> None:
        """Nothing of a source will come any more, and what is held of it is not needed."""
        self.release(source, SEQ_MAX)
        self._places.forget(source)
        self._slots.forget(source)

    # -- looking -------------------------------------------------------------------------------

    def held_of(self, source: Source) -> int:
        """How many messages of one source are held."""
        lane = self._slots.find(source)
        return 0 if lane is None else lane.index.count

    def room_for(self, source: Source, size_bytes: i64) -> bool:
        """Whether a message of this size would be stored without purging anything, but for what is
        marked and so goes if need be.
        """
        lane = self._slots.find(source) or _NO_LANE
        if not self._room.fits(lane, size_bytes) and self._purger.marks:
            self._purger.purge_marked(0)
        return self._room.fits(lane, size_bytes)

    def hits(self, message: Message) -> int:
        """How many of the held messages a message would purge."""
        marks = message.by_key or message.bitmap != 0 or message.ranked
        lane = self._slots.find(message.source)
        if not marks or lane is None or not self._purger.allows(message):
            return 0
        return len(self._purger.hits(lane, message))

    def admits(self, message: Message) -> bool:
        """Whether `insert` would find room for a message, also by purging what it replaces."""
        if self.room_for(message.source, len(message.body)):
            return True
        marks = message.by_key or message.bitmap != 0 or message.ranked
        if not marks or not self._purger.allows(message):
            return False
        lane = self._slots.find(message.source) or _NO_LANE
        return self._room.would_fit(lane, message, len(message.body))

    def room_for_run(self, messages: list[Message], at: i64, end: i64) -> i64:
        """The same for several, all of one source: how many would be stored."""
        lane = self._slots.find(messages[at].source) or _NO_LANE
        count = self._room.fit(lane, messages, at, end)
        if count < end - at and self._purger.marks:
            self._purger.purge_marked(0)
            count = self._room.fit(lane, messages, at, end)
        return count

    def narrow(self, messages_max: i64) -> None:
        """From now on there is room for so many messages, and never for more than configured."""
        self._room.narrow(messages_max)

    def forget_idle(self) -> None:
        """Forget every source of which nothing is held."""
        for source, lane in list(self._slots.lanes.items()):
            if lane.index.count == 0:
                self.forget(source)

    @property
    def sources(self) -> int:
        """Of how many sources anything is kept."""
        return len(self._slots.lanes)

    def get(self, source: Source, seq: i64) -> Message | None:
        """A held message by its number; for retransmission."""
        lane = self._slots.find(source)
        if lane is None:
            return None
        slot = lane.index.get(seq)
        return None if slot < 0 else self._slots.items[slot]

    def oldest_of(self, source: Source) -> Message | None:
        """The held message of a source with the smallest number, which stays."""
        lane = self._slots.find(source)
        if lane is None or lane.index.count == 0:
            return None
        slot = lane.index.get(lane.oldest)
        if slot < 0:
            slot = lane.index.get(lane.index.following(lane.oldest))
        return self._slots.items[slot]

    def up_to(self, source: Source, seq_max: i64) -> list[Message]:
        """What is held of a source up to a number, in order; it stays."""
        found = []
        lane = self._slots.find(source)
        seq = SEQ_MAX if lane is None or lane.index.count == 0 else lane.oldest
        while lane is not None and seq <= seq_max and seq <= lane.newest:
            slot = lane.index.get(seq)
            if slot >= 0:
                found.append(self._slots.at(slot))
            seq = seq + 1 if slot >= 0 else lane.index.following(seq + 1)
        return found

    def messages(self) -> list[Message]:
        """What is held, oldest first. For looking, not for the hot path."""
        return self._places.messages() if self._in_place else self._slots.messages()

    @property
    def counts(self) -> dict[Reason, int]:
        """How many messages left without being taken, by reason."""
        return self._log.counts

    @property
    def recorded(self) -> bool:
        """Whether there is anything for `drain_purged`."""
        return self._log.recorded

    def drain_purged(self) -> list[Purged]:
        """What was purged or dropped since the last call, if the buffer records it."""
        return self._log.drain()
