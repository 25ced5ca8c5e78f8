"""The index of a source finds what a dictionary would find, with gaps of any size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from semcast.ids import SEQ_MAX
from semcast.protocol.queue.index import SeqIndex


class IndexMachine(RuleBasedStateMachine):
    """Steps, leaps and late ones, as sources number their messages and networks bring them."""

    def __init__(self) -> None:
        super().__init__()
        self.index = SeqIndex()
        self.model: dict[int, int] = {}
        self.newest = 0
        self.slots = 0

    def put(self, seq: int) -> None:
        if 1 <= seq <= SEQ_MAX and seq not in self.model:
            self.slots += 1
            put = self.index.put if seq > self.newest else self.index.put_late
            put(seq, self.slots)
            self.model[seq] = self.slots
            self.newest = max(self.newest, seq)

    @rule(count=st.integers(1, 40), step=st.sampled_from([1, 1, 1, 2, 3, 31, 64, 100]))
    def put_next(self, count: int, step: int) -> None:
        for _ in range(count):
            self.put(self.newest + step)

    @rule(leap=st.sampled_from([32, 63, 64, 65, 127, 128, 129, 1000, 10**6, 10**12, 1 << 60]))
    def put_far_ahead(self, leap: int) -> None:
        self.put(self.newest + leap)

    @rule(back=st.integers(0, 300) | st.integers(0, 1 << 61))
    def put_late(self, back: int) -> None:
        self.put(self.newest - back)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 30))
    def remove(self, data: st.DataObject, count: int) -> None:
        oldest_first = data.draw(st.booleans())
        for _ in range(min(count, len(self.model))):
            seqs = sorted(self.model)
            seq = seqs[0] if oldest_first else data.draw(st.sampled_from(seqs))
            self.index.remove(seq)
            del self.model[seq]

    @rule(seq=st.integers(0, 400) | st.integers(0, SEQ_MAX))
    def following(self, seq: int) -> None:
        found = self.index.following(seq)
        later = [held for held in self.model if held >= seq]
        if later:
            assert found == min(later)
        else:
            assert found >= seq
            assert found > max(self.model, default=0)

    @precondition(lambda self: self.model)
    @rule(back=st.integers(0, 400) | st.integers(0, 1 << 61))
    def nearest(self, back: int) -> None:
        seq = max(1, self.newest - back)
        found = self.index.nearest(seq, self.newest)
        later = [held for held in self.model if held >= seq]
        assert found == min(later) if later else found > max(self.model)

    @invariant()
    def finds_what_a_dictionary_finds(self) -> None:
        assert self.index.count == len(self.model)
        near = [seq + off for seq in [*self.model, self.newest] for off in (-64, -1, 0, 1, 64)]
        for seq in near:
            assert self.index.get(seq) == self.model.get(seq, -1)


def test_the_index_is_a_dictionary_whatever_the_gaps() -> None:
    run_state_machine_as_test(
        IndexMachine, settings=settings(max_examples=60, stateful_step_count=30)
    )


@given(st.lists(st.integers(1, 2000), unique=True, max_size=300))
def test_any_order_of_arrival_is_found_and_forgotten_again(seqs: list[int]) -> None:
    index = SeqIndex()
    for at, seq in enumerate(seqs):
        index.put(seq, at)
    assert [index.get(seq) for seq in seqs] == list(range(len(seqs)))
    for seq in seqs:
        index.remove(seq)
    assert index.count == 0
    assert [index.get(seq) for seq in seqs] == [-1] * len(seqs)


@pytest.mark.parametrize("gap", [1, 10**4, SEQ_MAX // 4])
def test_a_gap_of_any_size_is_leapt_over(gap: int) -> None:
    """From the ring, from what it left behind, and between two that it left behind."""
    index = SeqIndex()
    held = [1, 1 + gap, 2 + 2 * gap, 3 + 3 * gap]
    for at, seq in enumerate(held):
        index.put(seq, at)
    walked = [index.following(0)]
    while len(walked) < len(held):
        walked.append(index.following(walked[-1] + 1))
    assert walked == held
    assert index.following(held[-1] + 1) > held[-1]


def test_what_comes_after_the_newest_is_in_no_gap() -> None:
    index = SeqIndex()
    for seq in range(1, 11):
        index.put(seq, seq)
    index.remove(10)
    assert index.nearest(10, 10) > 10
    index.put(11, 11)
    assert index.nearest(10, 11) == 11


def test_the_ring_follows_what_is_held_not_how_far_it_is_apart() -> None:
    """A dense window is all in the ring; a stream that is purged as it goes needs no more cells."""
    dense, sparse = SeqIndex(), SeqIndex()
    for seq in range(1, 1001):
        dense.put(seq, seq)
    assert 1000 <= dense._mask + 1 <= 8 * 1000
    assert len(dense._far) == 0
    sparse.put(1, 0)
    for seq in range(2, 5000):
        sparse.put(seq, seq)
        sparse.remove(seq)
    assert sparse._mask + 1 == 64
    assert sparse.get(1) == 0
