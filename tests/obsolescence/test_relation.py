"""The relation is a strict partial order within causality, in all encodings. SRM §3.2"""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.obsolescence import K_MAX, Mark, Ranked, Replaces, Tagger, obsoletes
from semcast.testing import K_EDGES, messages, replacements, sources, streams, tagged
from semcast.wire.message import Message

# Streams shorter than k, so that closure is not cut off, and without ranks: two lives of a sender.
whole_streams = st.tuples(
    streams(Source(1, 1), K_MAX, replacements(ranked=False), max_size=14),
    streams(Source(1, 2), K_MAX, replacements(ranked=False), max_size=6),
)
ranked_messages = st.lists(
    st.builds(
        lambda source, seq, key, rank: Message(source, seq, key, len(key), 0, rank, True),
        sources(3, 2),
        st.integers(1, 4),
        st.sampled_from([b"a", b"b"]),
        st.integers(-1, 2),
    ),
    max_size=12,
    unique_by=lambda message: (message.source, int(message.seq)),
)


def assert_strict_partial_order(found: list[Message]) -> None:
    for one in found:
        assert not obsoletes(one, one)
    for one, other in permutations(found, 2):
        assert not (obsoletes(one, other) and obsoletes(other, one))
    for old, middle, new in permutations(found, 3):
        if obsoletes(new, middle) and obsoletes(middle, old):
            assert obsoletes(new, old)


@given(whole_streams)
def test_keys_and_bitmaps_that_are_not_cut_off_are_a_strict_partial_order(
    sent: tuple[list[Message], list[Message]],
) -> None:
    assert_strict_partial_order(sent[0] + sent[1])


@given(ranked_messages)
def test_ranks_are_a_strict_partial_order_across_senders_and_ties(found: list[Message]) -> None:
    assert_strict_partial_order(found)


@given(ranked_messages)
def test_any_two_ranked_messages_of_one_key_are_ordered(found: list[Message]) -> None:
    """Ties are broken by sender, so that all members agree which one stays. PSRM §2.4"""
    for one, other in permutations(found, 2):
        related = obsoletes(one, other) or obsoletes(other, one)
        assert related == (one.key == other.key)


@given(st.lists(messages(seq_max=8), max_size=10, unique_by=lambda m: (m.source, int(m.seq))))
def test_no_annotations_however_hostile_make_a_circle(found: list[Message]) -> None:
    """Else each of them could be purged for the sake of another, and all be lost."""
    left = list(found)
    while left:
        free = [m for m in left if not any(obsoletes(other, m) for other in left)]
        assert free
        left = [m for m in left if m not in free]


@given(whole_streams)
def test_bitmaps_replace_only_earlier_messages_of_the_same_source(
    sent: tuple[list[Message], list[Message]],
) -> None:
    """So they lie within the causal order, whatever is said. SRM §3.2"""
    for newer, older in permutations(sent[0] + sent[1], 2):
        if obsoletes(newer, older):
            assert newer.source == older.source
            assert newer.seq > older.seq


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=20))
def test_ranks_that_grow_along_causality_agree_with_it(steps: list[tuple[int, bool]]) -> None:
    """Logical clocks as ranks: what happened before is replaced, never the other way round."""
    lives = [Source(sender, 1) for sender in range(3)]
    clocks, counts = [0, 0, 0], [0, 0, 0]
    known: list[set[int]] = [set(), set(), set()]  # what each process sent or received
    sent: list[tuple[Message, set[int]]] = []
    for process, receives in steps:
        if receives:
            known[process] |= set(range(len(sent))) | {at for past in known for at in past}
            clocks[process] = max([clocks[process], *(int(m.rank) for m, _ in sent)])
            continue
        clocks[process] += 1
        counts[process] += 1
        message = Message(lives[process], counts[process], b"x", 1, 0, clocks[process], True)
        sent.append((message, set(known[process])))
        known[process].add(len(sent) - 1)
    for message, past in sent:
        for at in past:
            assert obsoletes(message, sent[at][0])
            assert not obsoletes(sent[at][0], message)


@given(st.data(), st.sampled_from(K_EDGES), st.integers(0, 1100))
def test_cutting_bitmaps_to_k_bits_only_removes_pairs(
    data: st.DataObject, k: int, quiet: int
) -> None:
    """And exactly those more than k apart; only purging efficiency is lost. SRM §3.2"""
    said: list[Replaces] = data.draw(st.lists(replacements(ranked=False), max_size=8))
    said = said + [None] * quiet + said
    whole, cut = Tagger(K_MAX), Tagger(k)
    for at, one in enumerate(said):
        full = tagged(whole, Source(1, 1), at + 1, one)
        short = tagged(cut, Source(1, 1), at + 1, one)
        assert short.bitmap == full.bitmap & ((1 << k) - 1)


@pytest.mark.parametrize("distance", [n for n in K_EDGES if n > 0])
def test_bit_n_minus_1_stands_for_the_nth_preceding_message(distance: int) -> None:
    """At word boundaries too, in both directions. SRM §3.2"""
    source = Source(1, 1)
    newer = Message(source, 2000, b"", 0, 1 << (distance - 1))
    replaced = [n for n in range(-1100, 1101) if obsoletes(newer, Message(source, 2000 - n, b""))]
    assert replaced == [distance]


def test_encodings_do_not_mix() -> None:
    """A rank covers no unranked message, and another source's bitmap covers nothing here."""
    source, other = Source(1, 1), Source(1, 2)
    ranked = Message(source, 2, b"x", 1, 0, 9, True)
    assert not obsoletes(ranked, Message(source, 1, b"x", 1))
    assert not obsoletes(Message(other, 2, b"", 0, 0b1), Message(source, 1, b""))
    # A bitmap may name a ranked message of its source, as any other.
    assert obsoletes(Message(source, 3, b"", 0, 0b1), ranked)


def test_the_relation_needs_no_payload() -> None:
    """A `Mark` is all that it knows of a message."""
    source = Source(1, 1)
    older = Mark(source, 1, b"key", 3, 0, 0, False)
    newer = Mark(source, 2, b"key", 3, 0b1, 0, False)
    assert (older.key, obsoletes(newer, older), obsoletes(older, newer)) == (b"key", True, False)


def test_a_bitmap_on_a_ranked_message_says_nothing() -> None:
    source = Source(1, 1)
    both = Message(source, 2, b"x", 1, 0b1, 9, True)
    assert not obsoletes(both, Message(source, 1, b""))


def test_bids_replace_smaller_bids_whoever_makes_them() -> None:
    """The auction of PSRM §2.4."""
    tagger = Tagger()
    low = tagged(tagger, Source(2, 1), 1, Ranked("lot 7", 100))
    high = tagged(Tagger(), Source(1, 1), 1, Ranked("lot 7", 120))
    elsewhere = tagged(tagger, Source(2, 1), 2, Ranked("lot 8", 90))
    assert obsoletes(high, low)
    assert not obsoletes(low, high)
    assert not obsoletes(high, elsewhere)
