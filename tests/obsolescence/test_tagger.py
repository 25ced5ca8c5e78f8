"""What an application says becomes the bitmap that means it, in bounded memory."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.obsolescence.naive_tagger import NaiveTagger

from semcast.errors import LocalProtocolError
from semcast.obsolescence import (
    EVERYTHING,
    K_MAX,
    AllButLast,
    Annotation,
    Keys,
    Predecessors,
    Ranked,
    Replaces,
    Tagger,
)
from semcast.obsolescence.bitmap import distances
from semcast.obsolescence.key_set import KEYS_MAX, unpack_keys
from semcast.obsolescence.tagger import KEY_BYTES_MAX, RANK_MAX
from semcast.testing import K_EDGES, ks, replacements

small_ks = st.sampled_from([k for k in K_EDGES if k < 130]) | st.integers(0, 12)
histories = st.lists(replacements(), min_size=1, max_size=80)


def by_number(said: Replaces, seq: int) -> Replaces:
    """Strategies give distances for predecessors; callers give numbers."""
    if isinstance(said, Predecessors):
        return Predecessors(tuple(seq - n for n in said.seqs if n < seq))
    return said


def as_tuple(mark: Annotation) -> tuple[int, bytes, int, bool]:
    return mark.bitmap, mark.key, mark.rank, mark.ranked


@given(histories, small_ks)
def test_every_mix_of_what_can_be_said_means_what_it_says(said: list[Replaces], k: int) -> None:
    """Against the literal meaning: whole history, closed from scratch, cut to k."""
    tagger, naive = Tagger(k), NaiveTagger(k)
    for at, one in enumerate(said):
        seq = at + 1
        replaces = by_number(one, seq)
        assert tagger.tag(seq, replaces).bitmap == naive.bitmap(replaces)


@given(histories, ks(), st.data())
def test_what_was_taken_back_or_refused_never_happened(
    said: list[Replaces], k: int, data: st.DataObject
) -> None:
    """After a full window, or a bad call, the stream goes on as if nothing had been tried."""
    tried, straight = Tagger(k), Tagger(k)
    for at, one in enumerate(said):
        seq = at + 1
        what = data.draw(st.sampled_from(["go on", "take back", "bad call"]))
        if what == "take back":
            tried.tag(seq, by_number(data.draw(replacements()), seq))
            tried.take_back()
        elif what == "bad call":
            wrong, bad = data.draw(st.sampled_from(list(BAD_CALLS.values())))
            with pytest.raises(LocalProtocolError):
                tried.tag(seq + wrong, bad)
        replaces = by_number(one, seq)
        assert as_tuple(tried.tag(seq, replaces)) == as_tuple(straight.tag(seq, replaces))
        assert tried.names_held == straight.names_held


# (how far off the number is, what is said)
BAD_CALLS: dict[str, tuple[int, Replaces]] = {
    "empty key": (0, ""),
    "long key": (0, b"x" * (KEY_BYTES_MAX + 1)),
    "no keys": (0, Keys(())),
    "an empty key among keys": (0, Keys(("a", ""))),
    "too many keys": (0, Keys(tuple(str(i) for i in range(KEYS_MAX + 1)))),
    "itself": (0, Predecessors((1 << 40,))),
    "before the first": (0, Predecessors((0,))),
    "negative": (0, Predecessors((-3,))),
    "keeps none": (0, AllButLast(0)),
    "keeps less than none": (0, AllButLast(-1)),
    "rank too large": (0, Ranked("a", RANK_MAX + 1)),
    "rank too small": (0, Ranked("a", -RANK_MAX - 1)),
    "ranked without key": (0, Ranked("", 1)),
    "a number again": (-1, None),
    "a number again, by key": (-1, "a"),
    "a number again, by keys": (-1, Keys(("a", "b", "c"))),
    "a number again, everything": (-1, EVERYTHING),
    "a number again, ranked": (-1, Ranked("a", 1)),
    "numbers left out": (1, None),
    "numbers left out, by key": (2, "a"),
    "numbers left out, by keys": (1 << 60, Keys(("a", "b", "c"))),
    "numbers left out, everything": (7, EVERYTHING),
    "numbers left out, predecessors": (7, Predecessors((1,))),
}


@pytest.mark.parametrize("name", BAD_CALLS)
@pytest.mark.parametrize("k", [0, 1, 64])
def test_a_bad_call_raises_a_local_error_and_changes_nothing(name: str, k: int) -> None:
    wrong, bad = BAD_CALLS[name]
    tagger = Tagger(k)
    first: list[Replaces] = ["a", Keys(("a", "b")), "b"]
    for at, one in enumerate(first):
        tagger.tag(at + 1, one)
    held = tagger.names_held
    with pytest.raises(LocalProtocolError):
        tagger.tag(4 + wrong, bad)
    assert tagger.names_held == held
    assert tagger.tag(4, Keys(("b", "a"))).bitmap == 0b111 & ((1 << k) - 1)


@pytest.mark.parametrize("said", ["a", Keys(("a", "b")), EVERYTHING, Ranked("a", 1), None])
@pytest.mark.parametrize("k", [0, 1, 8])
def test_only_one_message_can_be_taken_back(said: Replaces, k: int) -> None:
    tagger = Tagger(k)
    with pytest.raises(LocalProtocolError, match="nothing to take back"):
        tagger.take_back()
    tagger.tag(1, "a")
    tagger.tag(2, said)
    tagger.take_back()
    with pytest.raises(LocalProtocolError, match="nothing to take back"):
        tagger.take_back()
    assert tagger.tag(2, "a").bitmap == (1 if k else 0)


def test_one_key_replaces_all_its_earlier_messages() -> None:
    tagger = Tagger()
    said: list[Replaces] = ["a", "b", "a", b"a", "b"]
    marks = [tagger.tag(at + 1, key) for at, key in enumerate(said)]
    assert [distances(mark.bitmap) for mark in marks] == [[], [], [2], [1, 3], [3]]
    assert [mark.key for mark in marks] == [b"a", b"b", b"a", b"a", b"b"]


def test_a_message_about_two_keys_is_not_replaced_by_one_about_one_of_them() -> None:
    tagger = Tagger()
    tagger.tag(1, Keys(("a", "b")))
    assert tagger.tag(2, "a").bitmap == 0
    assert tagger.tag(3, Keys(("b", "c"))).bitmap == 0
    # All about a, b and c: replaces the three before it, and says all of its keys.
    mark = tagger.tag(4, Keys(("c", "b", "a", "a")))
    assert (mark.bitmap, mark.several) == (0b111, True)
    assert unpack_keys(mark.key) == [b"a", b"b", b"c"]
    # Several times the same key is that key.
    mark = tagger.tag(5, Keys(("a", b"a")))
    assert (distances(mark.bitmap), mark.key) == ([3], b"a")


def test_predecessors_are_named_by_number_and_close_over_theirs() -> None:
    tagger = Tagger(3)
    tagger.tag(1)
    tagger.tag(2, Predecessors((1,)))
    assert tagger.tag(3, Predecessors((2, 2))).bitmap == 0b11
    assert tagger.tag(4, Predecessors(())).bitmap == 0
    # 1 is four back: not expressed with k = 3, directly or not.
    assert tagger.tag(5, Predecessors((1, 3))).bitmap == 0b110


def test_a_stubborn_channel_replaces_everything_before() -> None:
    """Each message obsoletes all predecessors. SRM §3.1"""
    tagger = Tagger(4)
    assert [tagger.tag(seq, EVERYTHING).bitmap for seq in range(1, 8)] == [
        0, 0b1, 0b11, 0b111, 0b1111, 0b1111, 0b1111,
    ]  # fmt: skip


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 5, 1 << 70])
def test_a_k_stubborn_channel_keeps_the_last_messages_reliable(kept: int) -> None:
    """OBS §3.1; with k = 4, of which what is further back cannot be said."""
    tagger = Tagger(4)
    marks = [tagger.tag(seq, AllButLast(kept)) for seq in range(1, 10)]
    assert distances(marks[-1].bitmap) == list(range(kept, 5))
    assert distances(marks[1].bitmap) == list(range(kept, 2))


def test_ranked_messages_carry_key_and_rank_and_no_bitmap() -> None:
    tagger = Tagger()
    tagger.tag(1, "a")
    assert as_tuple(tagger.tag(2, Ranked("a", -5))) == (0, b"a", -5, True)
    # The key of a rank is another name than the same key without.
    assert distances(tagger.tag(3, "a").bitmap) == [2]
    assert as_tuple(tagger.tag(4, Ranked(b"a", RANK_MAX))) == (0, b"a", RANK_MAX, True)


def test_nothing_said_is_never_replaced_by_keys() -> None:
    tagger = Tagger()
    for seq in range(1, 10, 2):
        assert as_tuple(tagger.tag(seq)) == (0, b"", 0, False)
        assert all(n % 2 == 0 for n in distances(tagger.tag(seq + 1, "a").bitmap))


def test_a_function_decides_when_the_caller_says_nothing() -> None:
    def by_first_byte(payload: bytes) -> Replaces:
        return payload[:1] or None

    tagger = Tagger(8, by_first_byte)
    assert as_tuple(tagger.tag(1, payload=b"x1"))[:2] == (0, b"x")
    assert as_tuple(tagger.tag(2, payload=b""))[:2] == (0, b"")
    assert as_tuple(tagger.tag(3, payload=b"x2"))[:2] == (0b10, b"x")
    # What the caller says goes first.
    assert as_tuple(tagger.tag(4, "y", b"x3"))[:2] == (0, b"y")


def test_a_function_that_fails_changes_nothing() -> None:
    failing: list[Callable[[bytes], Replaces]] = [lambda _: "", _raise]
    for function in failing:
        tagger = Tagger(8, function)
        tagger.tag(1, "a")
        with pytest.raises((LocalProtocolError, KeyError)):
            tagger.tag(2, payload=b"x")
        assert tagger.tag(2, "a").bitmap == 1


def _raise(payload: bytes) -> Replaces:
    raise KeyError(payload)


@pytest.mark.parametrize("k", [0, 1, 7, 64])
def test_memory_is_bounded_by_k_however_many_keys_go_by(k: int) -> None:
    tagger = Tagger(k)
    for seq in range(1, 5_001):
        said: Replaces = f"key {seq}" if seq % 3 else Keys((f"key {seq}", "x"))
        tagger.tag(seq, said)
        assert tagger.names_held <= k
    assert tagger.names_held == k
    # Taking back gives back what was forgotten, and no more than that.
    tagger.tag(5_001, "one more")
    tagger.take_back()
    assert tagger.names_held <= k


@pytest.mark.parametrize("k", [k for k in K_EDGES if k > 0])
def test_a_key_is_remembered_for_exactly_k_messages(k: int) -> None:
    for quiet, expected in ((k - 1, 1 << (k - 1)), (k, 0)):
        tagger = Tagger(k)
        tagger.tag(1, "a")
        for seq in range(2, quiet + 2):
            tagger.tag(seq)
        assert tagger.tag(quiet + 2, "a").bitmap == expected


def test_an_annotation_says_what_it_is() -> None:
    tagger = Tagger()
    tagger.tag(1, "a")
    assert repr(tagger.tag(2, "a")) == "Annotation(bitmap=0x1, key=b'a')"
    assert repr(tagger.tag(3, Ranked("a", 7))) == "Annotation(key=b'a', rank=7)"
    several = repr(tagger.tag(4, Keys(("b", "a"))))
    assert several == "Annotation(bitmap=0x6, keys=[b'a', b'b'])"


def test_what_cannot_be_read_is_refused_and_named() -> None:
    bad: object = 7
    with pytest.raises((LocalProtocolError, TypeError)):
        Tagger().tag(1, bad)  # type: ignore[arg-type]


@given(st.frozensets(st.binary(min_size=1, max_size=KEY_BYTES_MAX), min_size=2, max_size=9))
def test_several_keys_are_told_apart_again_whatever_their_bytes(names: frozenset[bytes]) -> None:
    mark = Tagger().tag(1, Keys(tuple(names)))
    assert unpack_keys(mark.key) == sorted(names)


def test_k_max_is_what_the_wire_carries() -> None:
    tagger = Tagger(K_MAX)
    for seq in range(1, K_MAX + 50):
        mark = tagger.tag(seq, EVERYTHING)
    assert mark.bitmap == (1 << K_MAX) - 1
