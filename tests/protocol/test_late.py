"""Late messages find their place at once, and the same place as in the naive model.

After a loss in a large window thousands come late: a walk over what waits, for each of them, would
keep a group busy with one loss for seconds.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.protocol.making import A, B, over, plain, policy_of, seqs
from tests.protocol.side_by_side import SOURCES, SideBySide
from tests.protocol.test_buffer_scaling import (
    DEEP,
    ROUNDS,
    SHALLOW,
    TIMED_MAX,
    Step,
    assert_no_dearer,
    lines_executed,
)

from semcast.protocol import BufferConfig, PurgingBuffer, SafeUpTo, Verdict
from semcast.wire.message import Message

# How many numbers a step may use up in one test.
NUMBERS = (TIMED_MAX + 3) * ROUNDS


def waiting(depth: int, first: int, step: int = 1) -> PurgingBuffer:
    """A buffer in which so many unmarked messages of one sender wait, and of another as well."""
    buffer = PurgingBuffer(BufferConfig(2 * depth + NUMBERS))
    for number in range(depth):
        buffer.insert(plain(first + number * step, 0))
        buffer.insert(plain(1 + number, 0, B))
    return buffer


def test_in_a_gap_before_all_that_waits() -> None:
    def late(buffer: PurgingBuffer) -> Step:
        return lambda seq: buffer.insert(plain(seq, 0))

    shallow, deep = (waiting(depth, NUMBERS) for depth in (SHALLOW, DEEP))
    assert_no_dearer(late(shallow), late(deep), 1)
    assert seqs(shallow)[:3] == [1, 2, 3]


@pytest.mark.parametrize("gaps", [1, 2, 5])
def test_in_gaps_of_any_size_that_are_repaired_side_by_side(gaps: int) -> None:
    """As many wait between gap and gap as are lost; the first rounds look for the gaps' ends."""

    def late(size: int) -> Step:
        buffer = PurgingBuffer(BufferConfig(gaps * size + NUMBERS))
        for gap in range(1, gaps + 1):
            for at in range(size):
                buffer.insert(plain(2 * gap * size + at, 0))
        return lambda seq: buffer.insert(plain((2 * (seq % gaps) + 1) * size + seq // gaps, 0))

    assert_no_dearer(late(NUMBERS), late(4 * NUMBERS), gaps)


def test_in_a_gap_that_the_ring_has_left_behind() -> None:
    """What waits is far apart, so that late messages are found in the dictionary of the index."""

    def late(depth: int) -> Step:
        buffer = waiting(depth, 1, NUMBERS)
        return lambda seq: buffer.insert(plain(1 + seq, 0))

    assert_no_dearer(late(SHALLOW), late(10 * SHALLOW), 1)


def again_and_again(buffer: PurgingBuffer) -> Callable[[int], None]:
    """Message 2 comes late, and is taken."""

    def step(_seq: int) -> None:
        assert buffer.insert(plain(2, 0)) is Verdict.STORED
        assert buffer.take_many(1)[0].seq == 2

    return step


def test_what_is_newer_than_the_last_marked_one_is_not_compared() -> None:
    def late(depth: int) -> Step:
        buffer = PurgingBuffer(BufferConfig(depth + 2))
        for seq in range(4, depth + 4):
            buffer.insert(plain(seq, 0) if seq > 10 else over(seq, seq - 1, size=0))
        return again_and_again(buffer)

    assert_no_dearer(late(SHALLOW), late(DEEP), 1)
    none, marked = waiting(SHALLOW, 4), waiting(SHALLOW, 4)
    marked.insert(over(4 + SHALLOW, 3 + SHALLOW))
    few, many = (lines_executed(partial(again_and_again(one), 0)) for one in (none, marked))
    # Compiled, no lines are seen.
    assert few == many == 0 or few < many / 3


@pytest.mark.parametrize("guarded", [False, True])
def test_what_is_out_of_reach_is_not_compared(guarded: bool) -> None:
    """One in four waits, and names another that is not there; nobody names message 2."""

    def late(depth: int) -> Step:
        guard = SafeUpTo()
        buffer = PurgingBuffer(BufferConfig(depth + 2), guard=guard if guarded else None)
        for seq in range(4, 4 * depth, 4):
            buffer.insert(over(seq, seq - 3, size=0))
        guard.advance(A, 4 * depth)
        buffer.covers_released(A)
        return again_and_again(buffer)

    assert_no_dearer(late(SHALLOW), late(DEEP), 1)


def test_what_the_guard_does_not_allow_is_not_compared() -> None:
    def late(depth: int) -> Step:
        buffer = PurgingBuffer(BufferConfig(depth + 2), guard=SafeUpTo())
        for seq in range(4, 4 * depth, 4):
            buffer.insert(over(seq, seq - 3, size=0))
        return again_and_again(buffer)

    assert_no_dearer(late(SHALLOW), late(DEEP), 1)


def test_a_wide_bitmap_covers_as_soon_as_the_guard_allows_it() -> None:
    """Also before the buffer is told."""
    guard = SafeUpTo()
    buffer = PurgingBuffer(BufferConfig(), guard=guard)
    buffer.insert(over(200, 100))
    guard.advance(A, 200)
    assert buffer.insert(plain(99)) is Verdict.STORED
    assert buffer.insert(plain(100)) is Verdict.OBSOLETE


def test_covers_are_not_tried_again_because_an_unmarked_message_came_late() -> None:
    def late(depth: int) -> Step:
        guard = SafeUpTo()
        buffer = PurgingBuffer(BufferConfig(depth + 2), guard=guard)
        for seq in range(4, 4 * depth, 4):
            buffer.insert(over(seq, seq - 3, size=0))
        guard.advance(A, 4 * depth)
        buffer.covers_released(A)
        step = again_and_again(buffer)

        def and_told(seq: int) -> None:
            step(seq)
            buffer.covers_released(A)

        return and_told

    assert_no_dearer(late(SHALLOW), late(DEEP), 1)


# -- the same as the naive model -------------------------------------------------------------------


def any_message(stream: random.Random, seq: int) -> Message:
    bitmap = stream.choice([0, 0, 0, 1, 2, 1 << stream.randrange(130)])
    return Message(SOURCES[0], seq, b".", 0, bitmap & ((1 << (seq - 1)) - 1))


def repaired(stream: random.Random, lost: list[int]) -> Iterator[int]:
    """What was lost, as it comes again: several stretches side by side, each mostly in order."""
    cuts = sorted(stream.sample(range(len(lost)), k=min(len(lost), stream.choice([1, 3, 12]))))
    stretches = [lost[low:high] for low, high in zip([0, *cuts], [*cuts, len(lost)], strict=True)]
    while any(stretches):
        stretch = stream.choice([one for one in stretches if one])
        yield stretch.pop(0 if stream.random() < 0.9 else -1)


@pytest.mark.parametrize("policy", ["off", "eager", "lazy", "watermark"])
def test_late_messages_stand_where_the_naive_model_puts_them(policy: str) -> None:
    for seed in range(12):
        stream = random.Random(f"{seed}/late/{policy}")
        size = stream.choice([40, 120])
        pair = SideBySide(policy_of(policy, size), stream.random() < 0.5, 64, stream.random() < 0.5)
        sent = [any_message(stream, seq) for seq in range(1, 161)]
        lost = [seq for seq in range(1, 161) if 20 < seq < 60 or seq % 32 in (5, 6, 7, 8, 9)]
        for message in sent:
            if int(message.seq) not in lost:
                pair.insert(message)
        for seq in repaired(stream, lost):
            what = stream.random()
            if what < 0.1:
                pair.take_many(stream.randrange(3))
            elif what < 0.15:
                pair.drop_newest()
            elif what < 0.2:
                pair.insert(pair.multicast(1, None, 1))
            elif what < 0.3:
                pair.guard_moves_on(0, stream.randrange(20), stream.random() < 0.5)
            pair.insert(sent[seq - 1])
            pair.check()
        pair.check_fates()
