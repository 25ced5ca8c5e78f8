"""A real buffer and the naive model, driven side by side, and the fate of every message.

Whoever drives it (the state machine, the soak) chooses what happens; after every call both have
done the same, every record is right, and `check` says that they hold the same messages in the same
order and that every message ever inserted has exactly one fate.
"""

import random
from collections import Counter

from tests.protocol.naive import Gone, NaiveBuffer, comes_before, name, stream_of

from semcast.errors import MessageTooLargeError
from semcast.ids import Source
from semcast.obsolescence import Replaces, Tagger, obsoletes
from semcast.protocol import BufferConfig, Purged, PurgingBuffer, Reason, SafeUpTo, Verdict
from semcast.testing import tagged
from semcast.wire.message import Message

# Two senders, one of them in two lives, and one whose numbers leap.
SOURCES = [Source(1, 1), Source(1, 2), Source(2, 1), Source(3, 1)]
LEAPING = 3
PLACE = "delivery"

FATES = {
    Verdict.STORED: "held",
    Verdict.DROPPED: "dropped",
    Verdict.FULL: "refused",
    Verdict.DUPLICATE: "refused",
}
LOSSES = {Reason.RANDOM: "dropped", Reason.REPLACED: "purged", Reason.LATE: "purged"}


class SideBySide:
    """One buffer, its model, and the fate of every message inserted."""

    def __init__(self, config: BufferConfig, guarded: bool, k: int, by_key: bool) -> None:
        # A buffer in place has none.
        self.guard = SafeUpTo() if guarded and not config.in_place else None
        self.safe: dict[Source, int] = {}
        self.buffer = PurgingBuffer(config, PLACE, self.guard, random.Random(7), record=True)
        self.model = NaiveBuffer(config, self.allows)
        self.taggers = [Tagger(k, by_key=by_key) for _ in SOURCES]
        self.seqs = [0 for _ in SOURCES]
        # Everything ever inserted, so that identities stay unique.
        self.history: list[Message] = []
        self.fate: dict[int, str] = {}
        self.counts: Counter[Reason] = Counter()

    def allows(self, cover: Message) -> bool:
        return self.guard is None or cover.seq <= self.safe.get(cover.source, 0)

    # -- in --------------------------------------------------------------------------------------

    def multicast(self, at: int, said: Replaces, size: int) -> Message:
        """The next message of a source, as its sender makes it; not inserted yet."""
        self.seqs[at] += 1
        return tagged(self.taggers[at], SOURCES[at], self.seqs[at], said, bytes(size))

    def insert(self, message: Message) -> None:
        """Insert a fresh copy, so that its fate is its own."""
        message = copy(message)
        self.history.append(message)
        if len(message.body) > self.buffer.config.bytes_max:
            self._insert_too_large(message)
        else:
            self._judge(message, self.buffer.insert(message))

    def insert_many(self, messages: list[Message]) -> None:
        """Messages that fit the buffer by size, until one is refused."""
        batch = [copy(message) for message in messages]
        self.history += batch
        done = self.buffer.insert_many(batch)
        records = self.buffer.drain_purged()
        gone: Gone = []
        for at, message in enumerate(batch):
            if at > done:
                self.fate[id(message)] = "refused"
                continue
            verdict, left = self.model.insert(message, records)
            assert (verdict is Verdict.FULL) == (at == done)
            self._settle(message, verdict)
            gone += left
        self._account(records, gone)

    def _insert_too_large(self, message: Message) -> None:
        before = self.buffer.messages()
        try:
            verdict = self.buffer.insert(message)
        except MessageTooLargeError:
            self.fate[id(message)] = "refused"
            assert self.buffer.drain_purged() == []
            assert self.buffer.messages() == before
        else:
            assert verdict in (Verdict.OBSOLETE, Verdict.DUPLICATE)
            self._judge(message, verdict)

    def _judge(self, message: Message, verdict: Verdict) -> None:
        records = self.buffer.drain_purged()
        expected, gone = self.model.insert(message, records)
        assert verdict is expected
        self._settle(message, verdict)
        self._account(records, gone)

    def _settle(self, message: Message, verdict: Verdict) -> None:
        """The fate that a verdict means; OBSOLETE needs a record, which settles it."""
        if verdict is not Verdict.OBSOLETE:
            self.fate[id(message)] = FATES[verdict]

    # -- out -------------------------------------------------------------------------------------

    def take(self) -> None:
        assert self.buffer.peek() is self.model.peek()
        taken = self.buffer.take()
        assert taken is self.model.take()
        self._took([] if taken is None else [taken])

    def take_many(self, count: int) -> None:
        taken = self.buffer.take_many(count)
        expected = [self.model.take() for _ in range(min(max(count, 0), len(self.model.queue)))]
        assert [id(m) for m in taken] == [id(m) for m in expected]
        self._took(taken)

    def _took(self, taken: list[Message]) -> None:
        for at, message in enumerate(taken):
            # INV-FIFO: nothing older of its source stays behind; in place, of its streams.
            left = taken[at + 1 :] + self.model.queue
            assert all(m.seq > message.seq for m in left if self._in_order(m, message))
            if self.buffer.config.in_place:
                assert not any(comes_before(m, message) for m in left)
            self._leaves(message, "taken")
        assert self.buffer.drain_purged() == []

    def _in_order(self, one: Message, other: Message) -> bool:
        """Whether the numbers of these two say which is taken first."""
        if self.buffer.config.in_place:
            return stream_of(one) == stream_of(other) is not None
        return one.source == other.source

    def drop_newest(self) -> None:
        last = self.model.queue[-1] if self.model.queue else None
        assert self.buffer.newest() is last
        assert self.buffer.drop_newest() is last
        if last is not None:
            self.model.forget(last)
            self._leaves(last, "given up")
        assert self.buffer.drain_purged() == []

    def release(self, at: int, seq: int) -> None:
        expected = self.model.release(SOURCES[at], seq)
        assert self.buffer.release(SOURCES[at], seq) == len(expected)
        for message in expected:
            self._leaves(message, "released")
        assert self.buffer.drain_purged() == []

    def _leaves(self, message: Message, fate: str) -> None:
        assert self.fate[id(message)] == "held"
        self.fate[id(message)] = fate

    # -- the guard -------------------------------------------------------------------------------

    def guard_moves_on(self, at: int, by: int, tell: bool) -> None:
        """More of a source is safe; the buffer is told at once, or later."""
        if self.guard is not None:
            before = self.safe.get(SOURCES[at], 0)
            assert self.guard.advance(SOURCES[at], before + by) == (by > 0)
            self.safe[SOURCES[at]] = max(before, before + by)
        if tell:
            self.buffer.covers_released(SOURCES[at])
            records = self.buffer.drain_purged()
            self._account(records, self.model.covers_released(SOURCES[at], records))

    # -- what must hold --------------------------------------------------------------------------

    def _account(self, records: list[Purged], gone: Gone) -> None:
        """Every record is right, and says what the model says."""
        assert sorted((r.reason, id(r.message)) for r in records) == sorted(
            (reason, id(message)) for reason, message in gone
        )
        for record in records:
            self.counts[record.reason] += 1
            assert record.place == PLACE
            purged = record.reason in (Reason.REPLACED, Reason.LATE)
            assert (record.cover is not None) == purged
            if record.cover is not None:
                # INV-COVERED
                assert obsoletes(record.cover, record.message)
                assert self.allows(record.cover)
                assert id(record.cover) in self.fate
            if record.reason is Reason.OVERFLOW:
                assert self.fate[id(record.message)] == "dropped"
            else:
                assert self.fate.get(id(record.message), "held") == "held"
                self.fate[id(record.message)] = LOSSES[record.reason]

    def check(self) -> None:
        """INV-BOUNDS, INV-FIFO and INV-ONE-FATE, now."""
        held = self.buffer.messages()
        assert [id(m) for m in held] == [id(m) for m in self.model.queue]
        assert len(self.buffer) == self.buffer.held == len(held)
        assert self.buffer.held_bytes == self.model.held_bytes
        assert self.buffer.counts == {reason: self.counts[reason] for reason in Reason}
        config = self.buffer.config
        assert self.buffer.held <= config.messages_max
        assert self.buffer.held_bytes <= config.bytes_max
        for source in SOURCES:
            own = [int(m.seq) for m in held if m.source == source]
            assert self.buffer.config.in_place or own == sorted(own)
            assert self.buffer.held_of(source) == len(own)
            assert config.source_messages_max is None or len(own) <= config.source_messages_max
        for message in held:
            assert self.buffer.get(*name(message)) is message
            assert self.fate[id(message)] == "held"
            assert list(message.skipped) == self.model.skipped.get(id(message), [])
            stream = [int(m.seq) for m in held if self._in_order(m, message)]
            assert stream == sorted(stream)

    def check_fates(self) -> None:
        """Nothing vanished; for the end, since it looks at everything that ever was."""
        assert all(id(message) in self.fate for message in self.history)
        said = [who for who, fate in self.fate.items() if fate == "held"]
        assert sorted(said) == sorted(id(message) for message in self.buffer.messages())


def copy(message: Message) -> Message:
    return Message(
        message.source,
        message.seq,
        message.body,
        message.key_len,
        message.bitmap,
        message.rank,
        message.ranked,
        message.sent_ns,
        message.several,
        message.by_key,
    )
