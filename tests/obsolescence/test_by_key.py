"""Replacement by key: at any distance, with nothing to remember; and where it meets bitmaps."""

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import LocalProtocolError, RemoteProtocolError
from semcast.ids import Source
from semcast.obsolescence import EVERYTHING, Keys, Predecessors, Replaces, Tagger, obsoletes
from semcast.protocol import BufferConfig, PurgingBuffer, Verdict
from semcast.testing import tagged
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.frames import BY_KEY
from semcast.wire.message import Message

ME = Source(1, 1)
FAR = 1_000_000


def stream(*said: Replaces, k: int = 64) -> list[Message]:
    """What one sender says in turn; predecessors are distances here."""
    tagger = Tagger(k, by_key=True)
    return [tagged(tagger, ME, at, one) for at, one in enumerate(said, 1)]


def seqs(buffer: PurgingBuffer) -> list[int]:
    return [int(message.seq) for message in buffer.messages()]


# -- the relation ----------------------------------------------------------------------------------


def test_a_key_replaces_what_lies_any_number_of_messages_back() -> None:
    older = Message(ME, 1, b"a", 1, by_key=True)
    assert obsoletes(Message(ME, FAR, b"a", 1, by_key=True), older)
    assert not obsoletes(Message(ME, FAR, b"b", 1, by_key=True), older)
    assert not obsoletes(older, Message(ME, FAR, b"a", 1, by_key=True))
    assert not obsoletes(Message(Source(1, 2), FAR, b"a", 1, by_key=True), older)


def test_a_key_that_is_no_mark_replaces_nothing_and_is_not_replaced_by_key() -> None:
    """It only says what the message is about, as with a bitmap."""
    plain, marked = Message(ME, 1, b"a", 1), Message(ME, 2, b"a", 1, by_key=True)
    assert not obsoletes(marked, plain)
    assert not obsoletes(Message(ME, 3, b"a", 1), marked)


def test_several_keys_replace_what_is_about_some_of_them_and_nothing_else() -> None:
    a, ab, bc, abc, b = stream("a", Keys(("a", "b")), Keys(("b", "c")), Keys(("c", "b", "a")), "b")
    replaced = [(new.seq, old.seq) for new, old in permutations((a, ab, bc, abc, b), 2)
                if obsoletes(new, old)]  # fmt: skip
    assert sorted(replaced) == [(2, 1), (4, 1), (4, 2), (4, 3)]


def test_the_annotation_is_smaller_than_a_bitmap() -> None:
    sizes = []
    for by_key in (True, False):
        tagger, writer = Tagger(by_key=by_key), FrameWriter(ME, 1_000)
        for seq in (1, 2):
            writer.add_message(tagged(tagger, ME, seq, "key", b"value"))
        sizes.append(len(writer.take()))
    assert sizes[0] == sizes[1] - 8


@pytest.mark.parametrize(
    "message",
    [
        Message(ME, 1, b"no key"),
        Message(ME, 1, b"a bitmap", 1, 1),
        Message(ME, 1, b"a rank", 1, 0, 7, True),
    ],
)
def test_what_is_marked_by_key_has_a_key_and_nothing_else_or_is_refused(message: Message) -> None:
    writer = FrameWriter(ME, 1_000)
    writer.add_message(message)
    frames = bytearray(writer.take())
    frames[4 + 16] |= BY_KEY
    with pytest.raises(RemoteProtocolError, match="unknown flags"):
        Decoder().decode(bytes(frames), ME)


# -- the tagger ------------------------------------------------------------------------------------


def test_a_million_keys_going_by_are_not_remembered() -> None:
    tagger = Tagger(256, by_key=True)
    for seq in range(1, 100_001):
        tagger.tag_key(seq, b"%d" % seq)
        assert tagger.names_held <= 256 or seq % 1_000
    assert tagger.names_held == 256


def test_a_message_that_was_taken_back_leaves_the_stream_as_it_was() -> None:
    taken_back, plain = Tagger(8, by_key=True), Tagger(8, by_key=True)
    drawn = random.Random("taken back")
    for seq in range(1, 200):
        for one in (drawn.choice("abc"), Keys(("a", "b")), EVERYTHING, None):
            tagged(taken_back, ME, seq, one)
            taken_back.take_back()
        said: Replaces = drawn.choice(["a", "b", None, Predecessors((2,)), Keys(("a", "c"))])
        assert tagged(taken_back, ME, seq, said) == tagged(plain, ME, seq, said)


def test_a_bad_call_changes_nothing() -> None:
    tagger = Tagger(8, by_key=True)
    tagger.tag(1, "a")
    for bad in ("", Keys(()), Predecessors((1,)), Predecessors((3,))):
        with pytest.raises(LocalProtocolError):
            tagger.tag(3, bad)
    assert tagger.tag(2, Predecessors((1,))).bitmap == 1


# -- where keys and bitmaps meet -------------------------------------------------------------------


def test_a_bitmap_names_what_a_key_replaced_as_far_as_it_reaches() -> None:
    b1, _, b2, p = stream("b", None, "b", Predecessors((1,)))
    assert obsoletes(b2, b1)
    assert obsoletes(p, b2)
    assert obsoletes(p, b1)


def test_what_is_lost_beyond_k_is_purging_and_nothing_else() -> None:
    """b2 never comes, as p covers it: b1 stays, though a chain would cover it."""
    b1, *_, b2, p = stream("b", *[None] * 20, "b", Predecessors((1,)), k=4)
    assert obsoletes(b2, b1)
    assert obsoletes(p, b2)
    assert not obsoletes(p, b1)
    buffer = PurgingBuffer(BufferConfig())
    for message in (b1, p):
        assert buffer.insert(message) is Verdict.STORED
    assert seqs(buffer) == [1, 23]


# -- buffers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [False, True])
def test_of_a_hundred_thousand_keys_one_value_each_waits(in_place: bool) -> None:
    """In turn, as a feed of quotes has them; a bitmap of 1,024 bits would replace none."""
    keys, rounds = 10_000, 3
    buffer = PurgingBuffer(BufferConfig(messages_max=keys, in_place=in_place))
    for seq in range(1, rounds * keys + 1):
        key = b"%d" % (seq % keys)
        assert buffer.insert(Message(ME, seq, key, len(key), by_key=True)) is Verdict.STORED
    assert len(buffer) == keys
    assert sorted(seqs(buffer)) == list(range((rounds - 1) * keys + 1, rounds * keys + 1))


@pytest.mark.parametrize("in_place", [False, True])
def test_keys_that_have_gone_by_leave_nothing_behind(in_place: bool) -> None:
    buffer = PurgingBuffer(BufferConfig(messages_max=16, in_place=in_place))
    for seq in range(1, 20_001):
        key = b"%d" % seq
        buffer.insert(Message(ME, seq, key + b"value", len(key), by_key=True))
        if len(buffer) == 16:
            buffer.take()
    buffer.take_many(16)
    lane = buffer._slots.lanes[ME]
    assert lane.chains == 0
    assert len(lane.cells) <= 32
    assert not lane.sets
    assert len(buffer._slots.items) <= 18


@given(
    st.lists(
        st.sampled_from(
            ["a", "b", Keys(("a", "b")), Keys(("b", "c")), Keys(("a", "b", "c")), None]
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_in_whatever_order_messages_come_those_are_left_that_nothing_replaces(
    said: list[Replaces], order: random.Random
) -> None:
    sent = stream(*said)
    arrived = list(sent)
    order.shuffle(arrived)
    buffer = PurgingBuffer(BufferConfig())
    for message in arrived:
        buffer.insert(message)
    left = [m.seq for m in sent if not any(obsoletes(other, m) for other in sent)]
    assert seqs(buffer) == left
