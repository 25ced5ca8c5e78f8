"""What a message costs does not depend on how many wait: 40 or 100,000. SRM §5.3

Interpreted, the lines executed in the core are counted: the same on every machine. Compiled code
has none, so there the time of this thread is taken, again and again until it is within the bound:
on a busy machine caches are cold. A walk over the queue would cost thousands of times more each
time, and the bound is far from both.
"""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.protocol.making import A, B, over, plain, policy_of

from semcast.ids import Source
from semcast.obsolescence import Keys, Ranked, Tagger
from semcast.protocol import BufferConfig, PurgingBuffer, SafeUpTo
from semcast.wire.message import Message

SHALLOW, DEEP = 40, 100_000
ROUNDS = 200
LINES_RATIO_MAX = 1.1
TIME_RATIO_MAX = 10
TIMED_MAX = 40
Step = Callable[[int], object]


def lines_executed(work: Callable[[], None]) -> int:
    """How many lines of the core run; 0 if it is compiled."""
    count = 0

    def in_core(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return in_core

    def enter(frame: FrameType, _event: str, _arg: object) -> Any:
        path = frame.f_code.co_filename
        core = "/semcast/protocol/" in path or "/semcast/obsolescence/" in path
        return in_core if core else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_no_dearer(shallow: Step, deep: Step, first: int) -> None:
    """Steps get growing numbers; the first rounds warm up."""
    nexts = {shallow: first, deep: first}

    def rounds_of(step: Step) -> Callable[[], None]:
        def work() -> None:
            for seq in range(nexts[step], nexts[step] + ROUNDS):
                step(seq)
            nexts[step] += ROUNDS

        return work

    works = [rounds_of(shallow), rounds_of(deep)]
    for work in works:
        work()
    lines = [lines_executed(work) for work in works]
    if lines[0] > 0:
        assert lines[1] <= LINES_RATIO_MAX * lines[0]
        return
    best = [1 << 62, 1 << 62]
    for _ in range(TIMED_MAX):
        for at, work in enumerate(works):
            started = time.thread_time_ns()
            work()
            best[at] = min(best[at], time.thread_time_ns() - started)
        if best[1] <= TIME_RATIO_MAX * best[0]:
            return
    raise AssertionError(f"the deep one takes {best[1]} ns, the shallow one {best[0]} ns")


def filled(depth: int, policy: str) -> PurgingBuffer:
    """A buffer in which so many unmarked messages wait, with room for two more."""
    buffer = PurgingBuffer(policy_of(policy, depth + 2))
    for seq in range(1, depth + 1):
        buffer.insert(Message(A, seq, b""))
    return buffer


def replace_and_take(buffer: PurgingBuffer, seq: int) -> None:
    """A message that replaces the one before it; one in three is not and lets one go."""
    buffer.insert(over(seq, seq - 1) if seq % 3 else plain(seq))
    if seq % 3 == 0:
        buffer.take()


def replace_by_rank(buffer: PurgingBuffer, seq: int) -> None:
    buffer.insert(Message(A if seq % 2 else B, seq, b"k", 1, 0, seq, True))


def change_places(buffer: PurgingBuffer, seq: int) -> None:
    """Two messages arrive the wrong way round, and one when it is already replaced."""
    buffer.insert(over(3 * seq + 2, 3 * seq))
    buffer.insert(plain(3 * seq + 1))
    buffer.insert(plain(3 * seq))
    buffer.take()


def be_refused(buffer: PurgingBuffer, seq: int) -> None:
    for at in range(3):
        buffer.insert(over(3 * seq + at, 3 * seq + at - 5, source=Source(9, 1)))


STEPS = {
    "replace": replace_and_take,
    "rank": replace_by_rank,
    "late": change_places,
    "refused": be_refused,
}


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("name", STEPS)
def test_a_message_costs_the_same_whatever_waits(name: str, policy: str) -> None:
    step = STEPS[name]
    shallow, deep = filled(SHALLOW, policy), filled(DEEP, policy)
    assert_no_dearer(
        lambda seq: step(shallow, seq), lambda seq: step(deep, seq), 3 * (DEEP // 3) + 3
    )


def test_releasing_and_covering_cost_what_they_release_and_cover() -> None:
    def step_of(depth: int) -> Step:
        guard = SafeUpTo()
        buffer = PurgingBuffer(BufferConfig(depth + SHALLOW), guard=guard)
        for seq in range(1, depth + 1):
            buffer.insert(Message(B, seq, b""))

        def step(seq: int) -> None:
            buffer.insert(over(seq, seq - 1))
            guard.advance(A, seq - 5)
            buffer.covers_released(A)
            buffer.release(A, seq - SHALLOW // 2)

        return step

    assert_no_dearer(step_of(SHALLOW), step_of(DEEP), 1)


def test_tagging_costs_the_same_however_many_keys_went_by() -> None:
    def step_of(went_by: int) -> Step:
        tagger = Tagger()
        for seq in range(1, went_by + 1):
            tagger.tag(seq, f"name {seq}")

        def step(seq: int) -> None:
            at = went_by + 3 * seq
            tagger.tag(at + 1, f"key {seq % 50}")
            tagger.tag(at + 2, Keys(("a", f"key {seq % 50}")))
            tagger.tag(at + 3, Ranked("r", seq))

        return step

    assert_no_dearer(step_of(100), step_of(50_000), 0)
