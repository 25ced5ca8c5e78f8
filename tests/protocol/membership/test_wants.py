"""Chunks say what they cover: each may be lost, come twice, and from whoever has the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.membership.wants import Want
from semcast.wire.encode import encode_whole
from semcast.wire.families.state import INCOMPLETE, LAST, PIECE, Chunk
from semcast.wire.message import Message
from semcast.wire.state_records import record

A = Source(1, 1)
CUT = 40
MAX = 1 << 20


def value(seq: int, size: int = 1) -> Message:
    return Message(A, seq, b"key" + bytes([seq % 251]) * size, 3, by_key=True)


def chunk(after: int, upto: int, stands: list[int], cut: int = CUT, marks: int = 0) -> Chunk:
    content = b"".join(record(value(seq)) for seq in stands if after < seq <= upto)
    return Chunk(marks, 1, 0, A, after, upto, cut, content)


def pieces(after: int, seq: int, size: int, step: int) -> list[Chunk]:
    whole = encode_whole(value(seq, size))
    return [
        Chunk(PIECE, 1, 0, A, after, seq, CUT, whole[at : at + step], at, len(whole))
        for at in range(0, len(whole), step)
    ]


@given(
    st.lists(st.integers(1, CUT), unique=True, max_size=20).map(sorted),
    st.lists(st.lists(st.integers(1, CUT - 1), unique=True, max_size=8).map(sorted), max_size=3),
    st.randoms(use_true_random=False),
    st.integers(0, 10),
)
def test_any_chunks_in_any_order_give_the_whole_once(
    stands: list[int], cuttings: list[list[int]], stream: object, since: int
) -> None:
    """Each cutting is that of another member."""
    assert hasattr(stream, "shuffle")
    want = Want(A, since, CUT)
    chunks: list[Chunk] = []
    for cutting in cuttings:
        ends = [0, *cutting, CUT]
        chunks += [chunk(a, b, stands) for a, b in pairwise(ends)]
    stream.shuffle(chunks)
    for one in chunks + chunks[:3]:
        want.on_chunk(one, MAX)
    assert want.complete == bool(cuttings)
    if want.complete:
        assert [int(one.seq) for one in want.messages()] == [seq for seq in stands if seq > since]
    else:
        assert want.position() == (since, CUT, 0)


def test_what_is_missing_is_asked_for_and_no_more() -> None:
    want = Want(A, 0, CUT)
    want.on_chunk(chunk(0, 10, [3]), MAX)
    want.on_chunk(chunk(20, CUT, [25]), MAX)
    assert want.position() == (10, 20, 0)
    want.on_chunk(chunk(5, 22, [3, 15, 21]), MAX)
    assert want.complete
    assert [int(one.seq) for one in want.messages()] == [3, 15, 25]


def test_a_chunk_for_another_cut_says_nothing_about_this_one() -> None:
    """What stood then may have been replaced before this cut."""
    want = Want(A, 0, CUT)
    want.on_chunk(chunk(0, CUT - 1, [3, 9], cut=CUT - 1), MAX)
    assert want.position() == (0, CUT, 0)
    assert want.messages() == []


def test_a_chunk_that_ends_an_answer_may_cover_nothing() -> None:
    want = Want(A, 0, CUT)
    want.on_chunk(Chunk(LAST, 1, 0, A, 7, 7, CUT, b""), MAX)
    assert want.position() == (0, CUT, 0)


def test_pieces_go_on_where_others_stopped() -> None:
    want = Want(A, 0, CUT)
    large = pieces(0, 9, 5_000, 1_000)
    for piece in large[:3]:
        want.on_chunk(piece, MAX)
    assert want.position() == (0, CUT, 3_000)
    for piece in [*large[4:], large[4]]:
        want.on_chunk(piece, MAX)
    assert want.position() == (0, CUT, 3_000)
    want.on_chunk(large[3], MAX)
    assert want.position() == (9, CUT, 0)
    assert want.messages() == [value(9, 5_000)]
    for piece in large:
        want.on_chunk(piece, MAX)
    assert len(want) == 1


def test_pieces_that_overlap_take_no_more_room_than_the_message() -> None:
    want = Want(A, 0, CUT)
    total = 5_000
    for offset in range(1, total - 1_000):
        want.on_chunk(Chunk(PIECE, 1, 0, A, 0, 9, CUT, bytes(1_000), offset, total), MAX)
    assert want._large is not None
    assert sum(map(len, want._large.pieces.values())) <= total


def test_a_chunk_says_if_something_was_dropped() -> None:
    want = Want(A, 0, CUT)
    want.on_chunk(chunk(0, CUT, [], marks=INCOMPLETE), MAX)
    assert want.complete
    assert want.incomplete


def test_a_message_that_is_too_large_is_refused() -> None:
    huge = Chunk(PIECE, 1, 0, A, 0, 9, CUT, b"x", 0, 50 << 20)
    with pytest.raises(RemoteProtocolError, match="standing message of 52428800 bytes"):
        Want(A, 0, CUT).on_chunk(huge, MAX)


def test_pieces_of_different_cuttings_make_a_whole_or_nothing() -> None:
    """They are of the same bytes, so what is complete is right."""
    want = Want(A, 0, CUT)
    for piece in [*pieces(0, 9, 5_000, 1_000)[:2], *pieces(0, 9, 5_000, 700)]:
        want.on_chunk(piece, MAX)
    assert want.messages() in ([], [value(9, 5_000)])
    for piece in pieces(0, 9, 5_000, 1_000):
        want.on_chunk(piece, MAX)
    assert want.messages() == [value(9, 5_000)]
