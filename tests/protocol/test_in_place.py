"""In place, a message takes the position of the foremost one that it replaces."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.making import A, B, bid, left, over, plain, seqs
from tests.protocol.naive import comes_before, stream_of
from tests.protocol.test_buffer_scaling import DEEP, SHALLOW, assert_no_dearer

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.obsolescence import EVERYTHING, Keys, Replaces, Tagger
from semcast.protocol import BufferConfig, Overflow, Purging, PurgingBuffer, SafeUpTo, Verdict
from semcast.protocol.queue.in_place import OTHERS_MAX, SKIPPED_MAX, newest_skipped
from semcast.protocol.queue.ties import STEPS_MAX
from semcast.testing import streams, tagged
from semcast.wire.message import Message

EAGER = Purging.EAGER


def in_place(messages_max: int = 100, record: bool = False) -> PurgingBuffer:
    return PurgingBuffer(BufferConfig(messages_max, in_place=True), record=record)


def filled(buffer: PurgingBuffer, *messages: Message) -> PurgingBuffer:
    for message in messages:
        assert buffer.insert(message) is Verdict.STORED
    return buffer


@given(streams(source=A), st.integers(0, 3))
def test_what_a_tagger_makes_of_a_stream_is_taken_in_order(sent: list[Message], takes: int) -> None:
    """By key, by rank, and among unmarked messages; whatever else they replace, and for any k."""
    buffer, taken = in_place(), []
    for at, message in enumerate(sent):
        buffer.insert(message)
        if takes and at % takes == 0:
            taken += buffer.take_many(1)
    taken += buffer.take_many(len(sent))
    by_stream: dict[object, list[int]] = {}
    for message in taken:
        by_stream.setdefault(stream_of(message), []).append(int(message.seq))
    by_stream.pop(None, None)
    assert all(numbers == sorted(numbers) for numbers in by_stream.values())
    for at, message in enumerate(taken):
        assert not any(comes_before(later, message) for later in taken[at:])


def test_the_newest_value_stands_where_the_oldest_stood() -> None:
    buffer = filled(in_place(record=True), plain(1), plain(2), plain(3), over(4, 2), over(5, 2, 4))
    assert seqs(buffer) == [1, 5, 3]
    assert left(buffer) == [("replaced", 2, 4), ("replaced", 4, 5)]


def test_of_several_the_foremost_counts_and_not_the_oldest() -> None:
    """4 stands before 2, having taken the place of 1."""
    buffer = filled(in_place(), plain(1), plain(2), plain(3), over(4, 1), over(5, 2, 4))
    assert seqs(buffer) == [5, 3]
    buffer = filled(in_place(), *map(plain, range(1, 7)), over(7, 2, 4, 6))
    assert seqs(buffer) == [1, 7, 3, 5]


# -- turns -----------------------------------------------------------------------------------------


class Feed:
    """Values of keys and messages that are never replaced, as one sender makes them."""

    def __init__(self, k: int = 64, messages_max: int = 100, by_key: bool = False) -> None:
        self.buffer = in_place(messages_max)
        self._by_key = by_key
        self._tagger = Tagger(k, by_key=by_key)
        self._seq = 0

    def send(self, *keys: bytes) -> None:
        """A value of each; of b"" a message that is never replaced."""
        for key in keys:
            self._seq += 1
            if key:
                bitmap = self._tagger.tag_key(self._seq, key)
            else:
                bitmap = 0
                self._tagger.tag_none(self._seq)
            by_key = self._by_key and bool(key)
            message = Message(A, self._seq, key, len(key), bitmap, by_key=by_key)
            assert self.buffer.insert(message) is Verdict.STORED

    def take(self, count: int = 1) -> list[bytes]:
        return [message.key for message in self.buffer.take_many(count)]


def test_of_three_values_one_is_the_freshest_and_two_have_waited_longest() -> None:
    feed = Feed()
    feed.send(b"a", b"b", b"c", b"d", b"e", b"f", b"b", b"a")
    # a keeps its place among those that wait, though it changed last.
    assert feed.take(6) == [b"a", b"b", b"c", b"f", b"d", b"e"]


def test_a_key_that_is_hot_has_one_turn_of_three() -> None:
    feed = Feed()
    feed.send(*(b"%d" % number for number in range(9)))
    taken = []
    for _ in range(12):
        # However often it changes; and the others never do.
        feed.send(b"hot", b"hot")
        taken += feed.take()
    assert taken.count(b"hot") == 4
    assert [key for key in taken if key != b"hot"] == [b"%d" % number for number in range(8)]


def test_who_is_never_replaced_comes_first() -> None:
    """Nothing makes it go away but taking it; values only get better."""
    feed = Feed()
    feed.send(b"a", b"", b"b", b"", b"c", b"b")
    assert feed.take(5) == [b"", b"", b"b", b"a", b"c"]


def test_a_flood_of_what_is_never_replaced_does_not_hold_up_all_values() -> None:
    feed = Feed(messages_max=1_000)
    feed.send(b"a", b"b", *[b""] * 100)
    taken = feed.take(40)
    assert [at for at, key in enumerate(taken) if key] == [OTHERS_MAX, 2 * OTHERS_MAX + 1]
    # A value that comes when none was due for long is due at once.
    feed.send(b"c")
    assert feed.take(2) == [b"c", b""]


@given(
    st.lists(st.sampled_from([b"", b"a", b"b", b"c", b"d"]), max_size=60),
    st.sampled_from([1, 2, 64]),
)
def test_turns_change_only_the_order_and_not_what_is_taken(keys: list[bytes], k: int) -> None:
    """Beside a buffer that is told nothing of keys, only what replaces what."""
    feed, plainly, tagger = Feed(k), in_place(), Tagger(k)
    feed.send(*keys)
    for at, key in enumerate(keys, 1):
        if key:
            plainly.insert(Message(A, at, key, 0, tagger.tag_key(at, key)))
        else:
            tagger.tag_none(at)
            plainly.insert(Message(A, at, key))
    found, expected = feed.take(100), [message.body for message in plainly.take_many(100)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("keys", [1, 2, 3, 4, 20, 500])
def test_no_key_waits_longer_than_one_and_a_half_turns_of_those_before_it(keys: int) -> None:
    """The bound of docs/design/purging-buffers.md, for keys that are hot and such that never come
    back. New keys come all the time too: if the freshest went first, they would keep others out.
    """
    feed, stream = Feed(0, 5_000, by_key=True), random.Random(f"waits/{keys}")
    names = [b"%d" % number for number in range(keys)]
    # By key: when it must be taken at the latest, counted in values taken.
    due: dict[bytes, int] = {}
    longest = 0
    for taken in range(2_000):
        new = [b"new%d" % taken] if taken % 2 else []
        for name in [names[int(keys * stream.random() ** 3)] for _ in range(3)] + new:
            feed.send(name)
            if name not in due:
                due[name] = taken + -(-3 * (len(due) + 1) // 2)
                longest = max(longest, due[name] - taken)
        [key] = feed.take()
        assert due.pop(key) >= taken + 1
        assert all(latest > taken + 1 for latest in due.values())
    assert longest > keys / 2


def test_messages_of_a_key_that_do_not_replace_each_other_stay_in_order() -> None:
    feed = Feed(k=1)
    feed.send(b"a", b"b", b"a", b"c", b"b", b"b")
    taken = feed.buffer.take_many(10)
    for key in (b"a", b"b"):
        own = [int(message.seq) for message in taken if message.key == key]
        assert own == sorted(own)
    assert len(taken) == 5


def test_taking_by_turns_costs_the_same_whatever_waits() -> None:
    def waiting(depth: int) -> Feed:
        # Far enough for a key that comes back after 150 messages.
        feed = Feed(512, depth + 60)
        feed.send(*(b"%d" % number for number in range(depth)))
        return feed

    def step(feed: Feed, seq: int) -> None:
        feed.send(b"0", b"%d" % (seq % 50), b"0")
        feed.take()

    shallow, deep = waiting(SHALLOW), waiting(DEEP)
    assert_no_dearer(lambda seq: step(shallow, seq), lambda seq: step(deep, seq), 1)


# -- several keys ----------------------------------------------------------------------------------


class Said:
    """What one life of a sender says, in its order, into a buffer."""

    def __init__(self, buffer: PurgingBuffer, life: int = 1, k: int = 64) -> None:
        self.buffer = buffer
        self._source = Source(1, life)
        self._tagger = Tagger(k)
        self._seq = 0

    def send(self, *said: Replaces) -> None:
        for one in said:
            self._seq += 1
            message = tagged(self._tagger, self._source, self._seq, one)
            assert self.buffer.insert(message) is Verdict.STORED


def taken(buffer: PurgingBuffer, count: int = 100) -> list[tuple[int, int]]:
    """Life and number of what comes next."""
    return [(int(m.source.incarnation), int(m.seq)) for m in buffer.take_many(count)]


def test_a_value_does_not_come_before_an_older_message_about_several_keys() -> None:
    """Nine trades, "a=1 b=1", "a=2": who takes them in this order ends with a=1, or did once."""
    buffer = in_place()
    Said(buffer).send(*[None] * 9, Keys(("a", "b")), "a")
    numbers = [seq for _, seq in taken(buffer)]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 10, 11, 8, 9]


def test_several_keys_do_not_come_before_an_older_value_that_is_too_far_back() -> None:
    buffer = in_place()
    Said(buffer, k=1).send("a", None, Keys(("a", "b")))
    assert [seq for _, seq in taken(buffer)] == [2, 1, 3]


def test_key_sets_that_overlap_come_in_order_though_the_newer_takes_a_place_in_front() -> None:
    buffer = in_place()
    Said(buffer).send(Keys(("a", "b")), Keys(("b", "c")), None, Keys(("a", "b")))
    assert [int(message.seq) for message in buffer.messages()] == [4, 2, 3]
    assert [seq for _, seq in taken(buffer)] == [2, 4, 3]


def test_key_sets_that_share_nothing_do_not_wait_for_each_other() -> None:
    buffer = in_place()
    Said(buffer).send(Keys(("a", "b")), Keys(("c", "d")), None, Keys(("a", "b")))
    assert [seq for _, seq in taken(buffer)] == [4, 2, 3]


def test_an_older_life_s_value_comes_first() -> None:
    buffer = in_place()
    Said(buffer, 1).send("a", "b", Keys(("c", "d")))
    Said(buffer, 2).send("a", "c", "e")
    order = taken(buffer)
    for older, newer in (((1, 1), (2, 1)), ((1, 3), (2, 2))):
        assert order.index(older) < order.index(newer)
    assert len(order) == 6
    # Nor if it came later, as what others send again does.
    buffer = in_place()
    Said(buffer, 3).send("a")
    Said(buffer, 1).send("a")
    Said(buffer, 2).send("a")
    assert taken(buffer) == [(1, 1), (2, 1), (3, 1)]


def test_a_long_chain_of_key_sets_is_taken_in_order_too() -> None:
    """Longer than the walk along it may be."""
    buffer = in_place()
    said = Said(buffer, k=0)
    said.send("0", *[Keys((str(at), str(at + 1))) for at in range(3 * STEPS_MAX)])
    said.send(str(3 * STEPS_MAX))
    numbers = [seq for _, seq in taken(buffer)]
    assert numbers == list(range(1, 3 * STEPS_MAX + 3))


def test_what_was_taken_or_purged_ties_nobody_any_more() -> None:
    buffer = in_place()
    said = Said(buffer)
    said.send(Keys(("a", "b")), "a", EVERYTHING)
    assert taken(buffer) == [(1, 3)]
    said.send("a", Keys(("a", "b")), None)
    assert taken(buffer) == [(1, 5), (1, 6)]
    said.send("b", "a")
    assert taken(buffer) == [(1, 8), (1, 7)]


def test_messages_about_several_keys_cost_the_same_whatever_waits() -> None:
    def waiting(depth: int) -> Said:
        said = Said(in_place(10 * DEEP), k=0)
        # Each shares a key with the one before; the value in the end is tied to all of them.
        said.send(*[Keys((str(at), str(at + 1))) for at in range(depth)], str(depth))
        assert len(said.buffer.take_many(OTHERS_MAX)) == OTHERS_MAX
        return said

    def step(said: Said, seq: int) -> None:
        said.send(Keys((f"x{seq}", f"y{seq}")))
        # The value is due, and what it is tied to is looked for.
        assert said.buffer.peek() is not None

    shallow, deep = waiting(SHALLOW), waiting(DEEP)
    assert_no_dearer(lambda seq: step(shallow, seq), lambda seq: step(deep, seq), 1)


def test_ranks_take_places_across_senders() -> None:
    """PSRM §2.4"""
    buffer = filled(in_place(), bid(1, 1), plain(2), bid(1, 2, source=B))
    assert [message.source for message in buffer.messages()] == [B, A]


def test_messages_of_a_key_too_far_apart_to_be_named_stay_in_order() -> None:
    """With k = 2 the third message of the key knows the second, and not the first."""
    tagger, buffer = Tagger(2), in_place()
    for seq, key in enumerate([b"a", b"x", b"y", b"a", b"a"], 1):
        buffer.insert(Message(A, seq, key, 1, tagger.tag_key(seq, key)))
    assert [int(message.seq) for message in buffer.take_many(9) if message.key == b"a"] == [1, 5]


def test_a_full_buffer_takes_a_message_in_the_place_of_another() -> None:
    buffer = filled(in_place(3), plain(1), plain(2), plain(3))
    assert buffer.insert(plain(4)) is Verdict.FULL
    assert buffer.insert(over(4, 2)) is Verdict.STORED
    assert seqs(buffer) == [1, 4, 3]
    full = PurgingBuffer(BufferConfig(3, 3, in_place=True))
    filled(full, plain(1), plain(2), plain(3))
    assert full.insert(over(4, 2, size=2)) is Verdict.FULL
    assert seqs(full) == [1, 2, 3]


def test_an_empty_place_is_used_again() -> None:
    """Slots go round; places do not get mixed up by it."""
    buffer = filled(in_place(), plain(1), plain(2), plain(3))
    for seq in range(4, 200):
        buffer.insert(over(seq, seq - 1, seq - 2) if seq % 5 else plain(seq))
        if seq % 3 == 0:
            buffer.take()
    assert len(buffer.messages()) == buffer.held
    assert buffer.take_many(1000)[-1].seq == 199


@pytest.mark.parametrize("ranked", [False, True])
def test_a_replacement_costs_the_same_whatever_waits(ranked: bool) -> None:
    def waiting(depth: int) -> PurgingBuffer:
        return filled(in_place(depth + 2), *(plain(seq, 0, B) for seq in range(1, depth + 1)))

    def step(buffer: PurgingBuffer, seq: int) -> None:
        buffer.insert(bid(seq, seq) if ranked else over(seq, seq - 1))

    shallow, deep = waiting(SHALLOW), waiting(DEEP)
    assert_no_dearer(lambda seq: step(shallow, seq), lambda seq: step(deep, seq), 1)


@pytest.mark.parametrize("purging", [one for one in Purging if one is not EAGER])
def test_only_what_is_purged_at_once_leaves_its_place(purging: Purging) -> None:
    with pytest.raises(ConfigError, match=f"in_place with purging {purging}"):
        BufferConfig(purging=purging, in_place=True)


def test_a_guard_has_no_use_in_place() -> None:
    with pytest.raises(ConfigError, match="need no guard"):
        PurgingBuffer(BufferConfig(in_place=True), guard=SafeUpTo())


# -- what was skipped ------------------------------------------------------------------------------


def skipped(buffer: PurgingBuffer) -> dict[int, list[int]]:
    return {int(message.seq): list(message.skipped) for message in buffer.messages()}


def test_a_message_inherits_what_was_skipped_before_it() -> None:
    buffer = filled(in_place(), plain(1), plain(2), over(3, 1), over(4, 2), over(5, 1, 3))
    assert skipped(buffer) == {5: [1, 3], 4: [2]}
    filled(buffer, over(6, 4, 5))
    assert skipped(buffer) == {6: [1, 2, 3, 4, 5]}


def test_numbers_are_of_one_sender() -> None:
    """What another sender's message replaced, the next one of its own sender tells."""
    buffer = filled(in_place(), bid(1, 1), bid(4, 2, source=B))
    assert skipped(buffer) == {4: []}
    filled(buffer, bid(2, 3))
    assert skipped(buffer) == {2: [1]}
    filled(buffer, bid(3, 4), plain(5, source=B))
    assert skipped(buffer) == {3: [1, 2], 5: [4]}


def test_what_arrives_obsolete_or_never_the_next_message_tells() -> None:
    buffer = filled(in_place(), bid(1, 9, source=B))
    assert buffer.insert(bid(1, 1)) is Verdict.OBSOLETE
    buffer.pass_over(A, 2)
    filled(buffer, plain(3), plain(4))
    assert skipped(buffer) == {1: [], 3: [1, 2], 4: []}


def test_a_number_is_told_once_however_often_it_comes() -> None:
    buffer = filled(in_place(), bid(1, 9, source=B))
    for seq in (2, 2, 1, 2):
        assert buffer.insert(bid(seq, 1)) is Verdict.OBSOLETE
    filled(buffer, plain(3))
    assert skipped(buffer) == {1: [], 3: [1, 2]}


def test_what_waits_to_be_told_is_bounded_too() -> None:
    buffer = in_place()
    for seq in range(1, 5 * SKIPPED_MAX):
        buffer.pass_over(A, seq)
    filled(buffer, plain(5 * SKIPPED_MAX))
    assert len(buffer.messages()[0].skipped) <= 2 * SKIPPED_MAX


def test_what_is_told_is_bounded_and_the_newest_stays() -> None:
    buffer = filled(in_place(), plain(1))
    count = 5 * SKIPPED_MAX
    for seq in range(2, count + 1):
        buffer.insert(over(seq, seq - 1))
        assert len(buffer.messages()[0].skipped) <= 2 * SKIPPED_MAX
    last = buffer.take()
    assert last is not None
    newest_skipped(last)
    assert last.skipped == tuple(range(count - SKIPPED_MAX, count))


def test_otherwise_a_buffer_tells_nothing() -> None:
    buffer = filled(PurgingBuffer(BufferConfig()), plain(1), over(2, 1))
    assert skipped(buffer) == {2: []}


def test_random_drops_may_hit_any_place_but_the_one_just_left() -> None:
    config = BufferConfig(4, 8, overflow=Overflow.RANDOM, in_place=True)
    for seed in range(50):
        buffer = PurgingBuffer(config, random=random.Random(seed))
        filled(buffer, *(plain(seq, 2) for seq in range(1, 5)), over(5, 2, size=6))
        assert buffer.held_bytes <= 8
        assert 5 in seqs(buffer)
        assert 2 not in seqs(buffer)
