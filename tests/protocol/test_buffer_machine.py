"""Every policy does what the naive model does, step by step; its rules are in `naive.py`.

Hypothesis finds and shrinks; the soak goes deeper from a seed. Both run every policy with and
without a guard, in order and late, tagged and raw. SRM §4.3, PSRM §3.1
"""

import random
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.protocol import making
from tests.protocol.machine import BufferMachine
from tests.protocol.side_by_side import LEAPING, SOURCES, SideBySide

from semcast.ids import SEQ_MAX
from semcast.obsolescence import AllButLast, Keys, Predecessors, Ranked, Replaces
from semcast.protocol import BufferConfig, Overflow, Purging, Reason
from semcast.testing import buffer_configs
from semcast.wire.message import Message

POLICIES = {
    **making.POLICIES,
    "eager, then random": (Purging.EAGER, Overflow.RANDOM),
    "lazy, then random": (Purging.LAZY, Overflow.RANDOM),
    "watermark, then random": (Purging.WATERMARK, Overflow.RANDOM),
    "eager, then drop-new": (Purging.EAGER, Overflow.DROP_NEW),
    "lazy, then drop-new": (Purging.LAZY, Overflow.DROP_NEW),
}
# The same, in place.
IN_PLACE = [name for name, (purging, _) in POLICIES.items() if purging is Purging.EAGER]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_buffer_does_what_the_naive_model_does(policy: str) -> None:
    purging, overflow = POLICIES[policy]

    class Machine(BufferMachine):
        configs = buffer_configs(purging, overflow, messages_max=8)

    run_state_machine_as_test(Machine, settings=settings(max_examples=50, stateful_step_count=30))


@pytest.mark.parametrize("policy", IN_PLACE)
def test_in_place_the_buffer_does_what_the_naive_model_does(policy: str) -> None:
    purging, overflow = POLICIES[policy]

    class Machine(BufferMachine):
        configs = buffer_configs(purging, overflow, messages_max=8).map(
            lambda config: replace(config, in_place=True)
        )

    run_state_machine_as_test(Machine, settings=settings(max_examples=50, stateful_step_count=30))


# -- the soak ------------------------------------------------------------------------------------


def any_config(stream: random.Random, policy: str) -> BufferConfig:
    purging, overflow = POLICIES[policy]
    size = stream.randrange(1, 12)
    bytes_max = stream.choice([12, 30, 1 << 20, 1 << 20])
    share = stream.choice([None, None, stream.randrange(1, size + 1)])
    if purging is not Purging.WATERMARK:
        return BufferConfig(size, bytes_max, purging, overflow, source_messages_max=share)
    high = stream.randrange(size + 1)
    return BufferConfig(size, bytes_max, purging, overflow, high, stream.randrange(high + 1), share)


def any_said(stream: random.Random) -> Replaces:
    """As `replacements` says: predecessors by distance."""
    key = stream.choice("abcd")
    kinds: list[Replaces] = [
        None,
        key,
        key,
        Keys((key, stream.choice("abcd"))),
        Predecessors((stream.randrange(1, 9), stream.randrange(1, 80))),
        AllButLast(stream.randrange(1, 6)),
        Ranked(stream.choice("rs"), stream.randrange(5)),
    ]
    return stream.choice(kinds)


def any_raw(stream: random.Random, newest: int) -> Message:
    at = stream.randrange(len(SOURCES))
    seq = max(1, newest + stream.randrange(-12, 4))
    if at == LEAPING:
        seq = stream.choice([seq, 10**6, SEQ_MAX - stream.randrange(70)])
    if stream.random() < 0.5:
        rank = stream.randrange(5)
        return Message(SOURCES[at], seq, stream.choice([b"r", b"s"]), 1, 0, rank, True)
    bitmap = stream.getrandbits(stream.choice([3, 8, 70, 130])) & stream.getrandbits(130)
    return Message(SOURCES[at], seq, bytes(stream.randrange(3)), 0, bitmap)


def soak(policy: str, seed: int, steps: int, in_place: bool = False) -> SideBySide:
    stream = random.Random(f"{seed}/soak/{policy}")
    config = replace(any_config(stream, policy), in_place=in_place)
    pair = SideBySide(
        config, stream.random() < 0.5, stream.choice([0, 2, 8, 64, 130]), seed % 2 == 0
    )
    on_the_way: list[Message] = []
    for _ in range(steps):
        at = stream.choice([0, 0, 0, 1, 2])
        what = stream.random()
        if what < 0.45:
            pair.insert(pair.multicast(at, any_said(stream), stream.choice([0, 1, 1, 3, 14])))
        elif what < 0.55:
            on_the_way.append(pair.multicast(at, any_said(stream), 1))
        elif what < 0.62 and on_the_way:
            pair.insert(on_the_way.pop(stream.randrange(len(on_the_way))))
        elif what < 0.70:
            pair.insert(any_raw(stream, pair.seqs[0]))
        elif what < 0.72 and pair.history:
            pair.insert(stream.choice(pair.history[-20:]))
        elif what < 0.82:
            pair.take_many(stream.randrange(4))
        elif what < 0.84:
            pair.drop_newest()
        elif what < 0.88:
            at = stream.randrange(len(SOURCES))
            pair.release(at, stream.choice([pair.seqs[at] - stream.randrange(9), SEQ_MAX // 2]))
        else:
            pair.guard_moves_on(at, stream.randrange(9), stream.random() < 0.8)
        pair.check()
    pair.check_fates()
    return pair


@pytest.mark.parametrize("policy", POLICIES)
def test_the_buffer_goes_on_doing_so(policy: str) -> None:
    """A failure names its seed: `soak(policy, seed, 300)` replays it."""
    seen = dict.fromkeys(Reason, 0)
    for seed in range(40):
        try:
            pair = soak(policy, seed, 300)
        except AssertionError as error:
            raise AssertionError(f"replay with soak({policy!r}, {seed}, 300)") from error
        for reason, count in pair.buffer.counts.items():
            seen[reason] += count
    # The soak is no use if nothing happens in it.
    purging, overflow = POLICIES[policy]
    assert (seen[Reason.REPLACED] > 100) == (purging is not Purging.OFF)
    assert (seen[Reason.LATE] > 50) == (purging is not Purging.OFF)
    assert (seen[Reason.RANDOM] > 50) == (overflow is Overflow.RANDOM)
    assert (seen[Reason.OVERFLOW] > 50) == (overflow is Overflow.DROP_NEW)


@pytest.mark.parametrize("policy", IN_PLACE)
def test_in_place_the_buffer_goes_on_doing_so(policy: str) -> None:
    """A failure names its seed: `soak(policy, seed, 300, True)` replays it."""
    replaced = skipped = 0
    for seed in range(40):
        try:
            pair = soak(policy, seed, 300, in_place=True)
        except AssertionError as error:
            raise AssertionError(f"replay with soak({policy!r}, {seed}, 300, True)") from error
        replaced += pair.buffer.counts[Reason.REPLACED]
        skipped += sum(len(seqs) > 1 for seqs in pair.model.skipped.values())
    assert replaced > 500
    assert skipped > 100
