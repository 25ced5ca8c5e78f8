"""Of every key the newest value stands; the table is bounded, and says so."""

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.membership.newcomers import standing

from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence.tagger import Keys, Predecessors, Ranked, Replaces, Tagger
from semcast.protocol import BufferConfig, PurgingBuffer, SafeUpTo
from semcast.protocol.membership.standing import Standing
from semcast.wire.message import Message

A, B = Source(1, 1), Source(2, 1)
LATER = Source(1, 2)


def value(seq: int, key: bytes, source: Source = A, size: int = 1) -> Message:
    return Message(source, seq, key + bytes(size), len(key), by_key=True)


def table(*messages: Message, keys_max: int = 1000, bytes_max: int = 1 << 20) -> Standing:
    found = Standing(keys_max, bytes_max)
    for message in messages:
        found.add(message)
    return found


def seqs(found: Standing, source: Source = A, after: int = 0, upto: int = SEQ_MAX) -> list[int]:
    return [int(message.seq) for message in found.messages(source, after, upto)]


def tagged(uses: list[Replaces], by_key: bool, k: int = 8) -> list[Message]:
    """The messages of one source that replace what is said."""
    tagger = Tagger(k, by_key=by_key)
    found = []
    for seq, replaces in enumerate(uses, 1):
        mark = tagger.tag(seq, replaces)
        found.append(
            Message(
                A, seq, mark.key + b"%d" % seq, len(mark.key), mark.bitmap, mark.rank, mark.ranked,
                0, mark.several, mark.by_key,
            )
        )  # fmt: skip
    return found


NAMES = st.sampled_from(["a", "b", "c"])
USES = st.lists(
    NAMES
    | st.none()
    | st.lists(NAMES, min_size=1, max_size=3).map(lambda names: Keys(tuple(names)))
    | st.builds(Ranked, NAMES, st.integers(0, 3)),
    max_size=25,
)


def naming(uses: list[Replaces], named: list[tuple[int, int]]) -> list[Replaces]:
    """Some of them name earlier ones instead."""
    found = list(uses)
    for at, distance in named:
        if at < len(found) and at - distance >= 0:
            found[at] = Predecessors((at - distance + 1,))
    return found


NAMED = st.lists(st.tuples(st.integers(1, 24), st.integers(1, 8)), max_size=5)


@given(USES, NAMED, st.booleans(), st.integers(0, 25), st.integers(0, 25))
def test_what_stands_is_what_the_definition_says(
    uses: list[Replaces], named: list[tuple[int, int]], by_key: bool, after: int, cut: int
) -> None:
    """Keys, several keys, ranks and bitmaps, whichever way they replace."""
    sent = tagged(naming(uses, named), by_key)
    expected = [seq for seq in sorted(standing(sent, cut)) if seq > after]
    found = table()
    found.absorb([message for message in sent if message.seq <= cut])
    assert seqs(found, after=after) == expected


@given(USES, NAMED, st.booleans(), st.integers(0, 25), st.data())
def test_a_table_fed_from_a_buffer_that_purges_lacks_only_what_comes_with_the_stream(
    uses: list[Replaces],
    named: list[tuple[int, int]],
    by_key: bool,
    cut: int,
    data: st.DataObject,
) -> None:
    """INV: for any cut up to what was handed on, what is missing was replaced after the cut."""
    sent = tagged(naming(uses, named), by_key)
    found = Standing(1000, 1 << 20)
    safe = SafeUpTo()
    buffer = PurgingBuffer(BufferConfig(messages_max=100), "retransmit", safe, heir=found)
    released = 0
    for message in sent:
        buffer.insert(message)
        if data.draw(st.booleans()):
            safe.advance(A, data.draw(st.integers(0, int(message.seq))))
            buffer.covers_released(A)
        if data.draw(st.booleans()):
            released = data.draw(st.integers(released, int(message.seq)))
            buffer.release(A, released)
    cut = min(cut, len(sent))
    found.absorb(buffer.up_to(A, cut))
    expected = standing(sent, cut)
    came = seqs(found, upto=cut)
    assert set(came) <= set(expected), "nothing that does not stand"
    for seq in set(expected) - set(came):
        later = standing(sent, len(sent))
        assert seq not in later, f"{seq} stands to the end and is missing"


def test_a_message_without_a_key_does_not_stand() -> None:
    assert seqs(table(Message(A, 1, b"event"), value(2, b"k"))) == [2]


def test_a_message_about_several_keys_stands_while_it_is_the_newest_about_one() -> None:
    both = Message(A, 1, b"\x01a\x01b!", 4, several=True, by_key=True)
    assert seqs(table(both, value(2, b"a"))) == [1, 2]
    assert seqs(table(both, value(2, b"a"), value(3, b"b"))) == [2, 3]


def test_a_full_table_drops_what_was_not_updated_for_longest_and_says_so() -> None:
    found = table(*[value(seq, b"%d" % seq) for seq in range(1, 11)], keys_max=10)
    assert not found.is_incomplete(A, 0)
    found.add(value(11, b"1"))
    assert len(found) == 10
    found.add(value(12, b"new"))
    assert seqs(found) == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert found.dropped == 2
    assert found.is_incomplete(A, 0)
    assert not found.is_incomplete(A, 3)


def test_a_source_with_many_keys_takes_no_room_from_others() -> None:
    found = table(value(1, b"mine", B), keys_max=10)
    for seq in range(1, 1000):
        found.add(value(seq, b"%d" % seq))
    assert seqs(found, B) == [1]
    assert len(found) <= 10
    assert not found.is_incomplete(B, 0)


def test_bytes_are_bounded_too() -> None:
    found = table(*[value(seq, b"%03d" % seq, size=97) for seq in range(1, 101)], bytes_max=5_000)
    assert found.held_bytes <= 5_000
    assert len(found) >= 40


def test_values_of_a_former_life_go_first_if_there_is_no_room() -> None:
    """A sender that restarts again and again does not fill the table."""
    found = Standing(10, 1 << 20)
    for life in range(1, 50):
        source = Source(1, life)
        for seq in range(1, 6):
            found.add(value(seq, b"%d" % seq, source))
        found.end(source)
    assert len(found.sources()) <= 2
    assert seqs(found, Source(1, 49)) == [1, 2, 3, 4, 5]
    assert not found.lacks_ended


def test_a_source_that_has_ended_is_kept_while_anything_of_it_stands() -> None:
    found = table(value(1, b"k"), Message(B, 1, b"", bitmap=0))
    found.end(A)
    found.end(B)
    assert found.sources() == [(A, True)]


def test_what_comes_with_the_state_does_not_undo_what_came_since() -> None:
    """Also if what replaces it has no key."""
    found = Standing(10, 1 << 20)
    found.expect(A, 5)
    found.add(value(6, b"a"))
    found.add(Message(A, 7, b"", bitmap=0b1_0000))
    found.fill(A, [value(1, b"a"), value(2, b"c"), value(3, b"b")], False)
    assert seqs(found) == [3, 6]


def test_what_is_said_twice_is_taken_once() -> None:
    """It may be asked for while it is still kept for others, and is released later."""
    named = Message(A, 2, b"", bitmap=1)
    found = table(value(1, b"a"), named)
    found.add(value(1, b"a"))
    assert seqs(found) == []
