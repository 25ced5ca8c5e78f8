"""The state machine that drives a real buffer and the naive model side by side.

Streams come from real taggers, in order, late, or twice; beside them come raw messages with any
bitmap, rank or number. After every step both hold the same messages in the same order, and every
message that was ever inserted has exactly one fate.
"""

import random
from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.protocol.naive import Gone, NaiveBuffer, name

from semcast.errors import MessageTooLargeError
from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence import Replaces, Tagger, obsoletes
from semcast.protocol import BufferConfig, Purged, PurgingBuffer, Reason, SafeUpTo, Verdict
from semcast.testing import bitmaps, buffer_configs, key_names, replacements, tagged
from semcast.wire.message import Message

# Two senders, one of them in two lives, and one whose numbers leap.
SOURCES = [Source(1, 1), Source(1, 2), Source(2, 1), Source(3, 1)]
LEAPING = 3
PLACE = "delivery"

which_source = st.sampled_from([0, 0, 0, 0, 1, 2])
body_sizes = st.sampled_from([0, 1, 1, 2, 4, 8, 9])
any_seq = st.integers(1, 12) | st.integers(1, 150)
leaps = st.sampled_from([1, 63, 64, 65, 5_000, 10**9, SEQ_MAX // 2, SEQ_MAX])
FATES = {
    Verdict.STORED: "held",
    Verdict.DROPPED: "dropped",
    Verdict.FULL: "refused",
    Verdict.DUPLICATE: "refused",
}
LOSSES = {Reason.RANDOM: "dropped", Reason.REPLACED: "purged", Reason.LATE: "purged"}


class BufferMachine(RuleBasedStateMachine):
    """One buffer, its model, and the fate of every message inserted."""

    # Set by the test of each policy.
    configs: st.SearchStrategy[BufferConfig] = buffer_configs()

    @initialize(data=st.data(), guarded=st.booleans(), k=st.sampled_from([0, 1, 3, 64, 130]))
    def set_up(self, data: st.DataObject, guarded: bool, k: int) -> None:
        config = data.draw(self.configs)
        self.guard = SafeUpTo() if guarded else None
        self.safe: dict[Source, int] = {}
        stream = random.Random(7)
        self.buffer = PurgingBuffer(config, PLACE, self.guard, stream, record=True)
        self.model = NaiveBuffer(config, self.allows)
        self.taggers = [Tagger(k) for _ in SOURCES]
        self.seqs = [0 for _ in SOURCES]
        # Everything ever made, so that identities stay unique, and what is still on its way.
        self.history: list[Message] = []
        self.on_the_way: list[Message] = []
        self.fate: dict[int, str] = {}
        self.counts: Counter[Reason] = Counter()

    def allows(self, cover: Message) -> bool:
        return self.guard is None or cover.seq <= self.safe.get(cover.source, 0)

    # -- in --------------------------------------------------------------------------------------

    def multicast(self, at: int, said: Replaces, size: int) -> Message:
        self.seqs[at] += 1
        return tagged(self.taggers[at], SOURCES[at], self.seqs[at], said, bytes(size))

    def insert(self, message: Message) -> None:
        """Insert a fresh copy, so that its fate is its own."""
        message = copy(message)
        self.history.append(message)
        if len(message.body) > self.buffer.config.bytes_max:
            self.insert_too_large(message)
            return
        verdict = self.buffer.insert(message)
        self.judge(message, verdict)

    def insert_too_large(self, message: Message) -> None:
        before = self.buffer.messages()
        try:
            verdict = self.buffer.insert(message)
        except MessageTooLargeError:
            self.fate[id(message)] = "refused"
            assert self.buffer.drain_purged() == []
            assert self.buffer.messages() == before
        else:
            assert verdict in (Verdict.OBSOLETE, Verdict.DUPLICATE)
            self.judge(message, verdict)

    def judge(self, message: Message, verdict: Verdict) -> None:
        records = self.buffer.drain_purged()
        expected, gone = self.model.insert(message, records)
        assert verdict is expected
        self.settle(message, verdict)
        self.account(records, gone)

    def settle(self, message: Message, verdict: Verdict) -> None:
        """The fate that a verdict means; OBSOLETE needs a record, which settles it."""
        if verdict is not Verdict.OBSOLETE:
            self.fate[id(message)] = FATES[verdict]

    @rule(at=which_source, said=replacements(), size=body_sizes)
    def arrives_in_order(self, at: int, said: Replaces, size: int) -> None:
        self.insert(self.multicast(at, said, size))

    @rule(at=which_source, said=st.lists(replacements(), min_size=2, max_size=6), size=body_sizes)
    def many_arrive(self, at: int, said: list[Replaces], size: int) -> None:
        batch = [copy(self.multicast(at, one, min(size, 4))) for one in said]
        self.history += batch
        done = self.buffer.insert_many(batch)
        records = self.buffer.drain_purged()
        gone = []
        for message in batch[:done]:
            verdict, left = self.model.insert(message, records)
            assert verdict is not Verdict.FULL
            self.settle(message, verdict)
            gone += left
        if done < len(batch):
            verdict, left = self.model.insert(batch[done], records)
            assert verdict is Verdict.FULL
            gone += left
        for message in batch[done:]:
            self.fate[id(message)] = "refused"
        self.account(records, gone)

    @rule(at=which_source, said=replacements(), size=body_sizes)
    def is_delayed(self, at: int, said: Replaces, size: int) -> None:
        self.on_the_way.append(self.multicast(at, said, size))

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data())
    def arrives_late(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.on_the_way) - 1))
        self.insert(self.on_the_way.pop(at))

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def arrives_again(self, data: st.DataObject) -> None:
        self.insert(data.draw(st.sampled_from(self.history[-8:])))

    @rule(at=which_source, seq=any_seq, bitmap=bitmaps(6) | bitmaps(130), size=body_sizes)
    def arrives_raw(self, at: int, seq: int, bitmap: int, size: int) -> None:
        self.insert(Message(SOURCES[at], seq, bytes(size), 0, bitmap))

    @rule(at=which_source, seq=any_seq, key=key_names(2), rank=st.integers(-1, 2), bits=bitmaps(3))
    def arrives_ranked(self, at: int, seq: int, key: str, rank: int, bits: int) -> None:
        self.insert(Message(SOURCES[at], seq, key.encode() + b"-", 1, bits, rank, True))

    @rule(leap=leaps, back=st.integers(0, 70), bitmap=bitmaps(70))
    def leaps_ahead(self, leap: int, back: int, bitmap: int) -> None:
        self.insert(Message(SOURCES[LEAPING], max(1, leap - back), b".", 0, bitmap))

    # -- out -------------------------------------------------------------------------------------

    @rule()
    def take(self) -> None:
        assert self.buffer.peek() is (self.model.queue[0] if self.model.queue else None)
        taken = self.buffer.take()
        assert taken is self.model.take()
        self.took([] if taken is None else [taken])

    @rule(count=st.integers(-1, 4))
    def take_many(self, count: int) -> None:
        taken = self.buffer.take_many(count)
        expected = [self.model.take() for _ in range(min(max(count, 0), len(self.model.queue)))]
        assert [id(m) for m in taken] == [id(m) for m in expected]
        self.took(taken)

    def took(self, taken: list[Message]) -> None:
        for at, message in enumerate(taken):
            # INV-FIFO: nothing older of its source stays behind.
            left = taken[at + 1 :] + self.model.queue
            assert all(m.seq > message.seq for m in left if m.source == message.source)
            assert self.fate[id(message)] == "held"
            self.fate[id(message)] = "taken"
        assert self.buffer.drain_purged() == []

    @rule()
    def drop_newest(self) -> None:
        last = self.model.queue[-1] if self.model.queue else None
        assert self.buffer.newest() is last
        assert self.buffer.drop_newest() is last
        if last is not None:
            self.model.forget(last)
            self.fate[id(last)] = "given up"
        assert self.buffer.drain_purged() == []

    @rule(at=st.integers(0, 3), seq=st.integers(0, 12) | st.integers(0, 150) | leaps)
    def release(self, at: int, seq: int) -> None:
        expected = self.model.release(SOURCES[at], seq)
        assert self.buffer.release(SOURCES[at], seq) == len(expected)
        for message in expected:
            assert self.fate[id(message)] == "held"
            self.fate[id(message)] = "released"
        assert self.buffer.drain_purged() == []

    # -- the guard -------------------------------------------------------------------------------

    @precondition(lambda self: self.guard is not None)
    @rule(at=which_source, by=st.integers(-2, 9), tell=st.booleans())
    def guard_moves_on(self, at: int, by: int, tell: bool) -> None:
        assert self.guard is not None
        before = self.safe.get(SOURCES[at], 0)
        assert self.guard.advance(SOURCES[at], before + by) == (by > 0)
        self.safe[SOURCES[at]] = max(before, before + by)
        if tell:
            self.buffer_is_told(at)

    @rule(at=st.integers(0, 3))
    def buffer_is_told(self, at: int) -> None:
        self.buffer.covers_released(SOURCES[at])
        records = self.buffer.drain_purged()
        self.account(records, self.model.covers_released(SOURCES[at], records))

    # -- what must hold --------------------------------------------------------------------------

    def account(self, records: list[Purged], gone: Gone) -> None:
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
                assert obsoletes(record.cover, record.message)
                assert self.allows(record.cover)
                assert any(record.cover is message for message in self.history)
            self.lost(record)

    def lost(self, record: Purged) -> None:
        if record.reason is Reason.OVERFLOW:
            assert self.fate[id(record.message)] == "dropped"
            return
        assert self.fate.get(id(record.message), "held") == "held"
        self.fate[id(record.message)] = LOSSES[record.reason]

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        held = self.buffer.messages()
        assert [id(m) for m in held] == [id(m) for m in self.model.queue]
        assert len(self.buffer) == self.buffer.held == len(held)
        assert self.buffer.held_bytes == self.model.held_bytes
        for message in held:
            assert self.buffer.get(*name(message)) is message
        for source in SOURCES:
            assert self.buffer.held_of(source) == sum(m.source == source for m in held)

    @invariant()
    def bounds_are_kept(self) -> None:
        assert self.buffer.held <= self.buffer.config.messages_max
        assert self.buffer.held_bytes <= self.buffer.config.bytes_max
        share = self.buffer.config.source_messages_max
        assert share is None or all(self.buffer.held_of(source) <= share for source in SOURCES)

    @invariant()
    def every_message_has_one_fate(self) -> None:
        held = {id(message) for message in self.buffer.messages()}
        assert held == {who for who, fate in self.fate.items() if fate == "held"}
        assert all(id(message) in self.fate for message in self.history)
        assert self.buffer.counts == {reason: self.counts[reason] for reason in Reason}


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
    )
