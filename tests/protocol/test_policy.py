"""Policies purge when they say, and settings that make no sense are refused with the numbers."""

import random

import pytest
from tests.obsolescence.naive_profiler import Profiler
from tests.protocol.making import POLICIES, A, B, bid, left, over, plain, policy_of, seqs

from semcast.errors import ConfigError
from semcast.obsolescence import Tagger
from semcast.protocol import BufferConfig, Overflow, Purging, PurgingBuffer, SafeUpTo, Verdict
from semcast.wire.message import Message


def overwrites(r: float, d: int, count: int, k: int = 64) -> list[Message]:
    """The traffic f_{r,d} of SRM §6.1: a share r overwrites, spread evenly over d chains."""
    stream = random.Random(f"overwrites/{r}/{d}")
    tagger = Tagger(k)
    sent = []
    for seq in range(1, count + 1):
        key = f"chain {stream.randrange(d)}" if stream.random() < r else None
        sent.append(Message(A, seq, b".", 0, tagger.tag(seq, key).bitmap))
    return sent


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
@pytest.mark.parametrize(("r", "d"), [(0.25, 1), (0.5, 1), (1.0, 5)])
def test_all_policies_purge_what_distance_allows_when_nobody_takes(
    policy: str, r: float, d: int
) -> None:
    """Similar purging rates, eager or lazy (SRM §6.3): all that is obsolete, if the buffer is
    large enough; and never one that no message replaces.
    """
    sent = overwrites(r, d, 4_000)
    buffer = PurgingBuffer(policy_of(policy, 4_000), record=True)
    for message in sent:
        assert buffer.insert(message) is Verdict.STORED
    profiler = Profiler()
    for message in sent:
        nearest = (message.bitmap & -message.bitmap).bit_length()
        profiler.add_distances([nearest] if nearest else [])
    profile = profiler.profile()
    obsolete = profile.messages - profile.never_obsolete
    if policy == "lazy":
        # Nothing leaves before there is no room; then everything obsolete does, at once.
        assert buffer.drain_purged() == []
        buffer.insert(plain(4_001))
    if policy == "watermark":
        assert buffer.held <= buffer.config.high
        obsolete -= buffer.held - profile.never_obsolete
    assert len(buffer.drain_purged()) == obsolete
    # d = 1 leaves one overwrite of all; r of the messages were overwrites. SRM §6.1
    assert profile.share_never_obsolete == pytest.approx(1 - r, abs=0.03)


def test_watermark_swings_between_its_marks() -> None:
    """Reliable below the high mark; above it, purge down to the low one. OBS §4.1"""
    config = BufferConfig(100, purging=Purging.WATERMARK, high_messages=20, low_messages=8)
    buffer = PurgingBuffer(config)
    held = []
    for seq in range(1, 301):
        buffer.insert(over(seq, seq - 1) if seq > 1 else plain(1))
        held.append(int(buffer.held))
    assert held[:20] == list(range(1, 21))
    assert set(held) == set(range(1, 21))
    # The 21st makes it 8; then it fills again: a saw tooth of period 13.
    assert held[20:46] == [*range(8, 21), *range(8, 21)]


def test_watermark_purges_oldest_victims_first_and_no_more_than_needed() -> None:
    config = BufferConfig(10, purging=Purging.WATERMARK, high_messages=5, low_messages=4)
    buffer = PurgingBuffer(config, record=True)
    for message in (plain(1), plain(2), plain(3), over(4, 2), over(5, 1)):
        buffer.insert(message)
    assert left(buffer) == []
    buffer.insert(over(6, 3))
    assert (left(buffer), seqs(buffer)) == ([("replaced", 2, 4), ("replaced", 1, 5)], [3, 4, 5, 6])


def test_lazy_keeps_everything_until_it_is_full_and_then_purges_all_at_once() -> None:
    """SRM §6.3: a lazy strategy yields a constant buffer size."""
    buffer = PurgingBuffer(policy_of("lazy", 5), record=True)
    for seq in range(1, 6):
        buffer.insert(over(seq, seq - 1) if seq > 1 else plain(1))
    assert (seqs(buffer), left(buffer)) == ([1, 2, 3, 4, 5], [])
    buffer.insert(plain(6))
    assert seqs(buffer) == [5, 6]
    assert left(buffer) == [("replaced", seq, seq + 1) for seq in range(1, 5)]


def test_what_is_marked_can_still_be_taken() -> None:
    buffer = PurgingBuffer(policy_of("lazy", 2), record=True)
    buffer.insert(plain(1))
    buffer.insert(over(2, 1))
    taken = buffer.take()
    assert taken is not None
    assert taken.seq == 1
    assert buffer.insert(plain(3)) is Verdict.STORED
    assert buffer.insert(plain(4)) is Verdict.FULL
    assert left(buffer) == []


def test_a_marked_message_covers_nothing_new() -> None:
    """It is as good as gone: 1 enters and stays as it would if 2 had been purged eagerly."""
    for policy in ("eager", "lazy"):
        buffer = PurgingBuffer(policy_of(policy, 3), record=True)
        buffer.insert(over(2, 1))
        buffer.insert(over(3, 2))
        assert buffer.insert(plain(1)) is Verdict.STORED
        buffer.covers_released(A)
        assert buffer.insert(plain(4)) is Verdict.STORED
        assert (seqs(buffer), left(buffer)) == ([1, 3, 4], [("replaced", 2, 3)])


def test_a_marked_rank_covers_nothing_new() -> None:
    """As above: whether 1 was purged or only marked, a smaller bid of another sender enters."""
    for policy in ("eager", "lazy"):
        buffer = PurgingBuffer(policy_of(policy, 9))
        buffer.insert(bid(1, 5))
        buffer.insert(over(2, 1))
        assert buffer.insert(bid(1, 3, source=B)) is Verdict.STORED


def test_a_full_watermark_buffer_purges_no_further_than_its_low_mark() -> None:
    config = BufferConfig(4, purging=Purging.WATERMARK, high_messages=4, low_messages=3)
    buffer = PurgingBuffer(config)
    for seq in range(1, 5):
        buffer.insert(over(seq, *range(1, seq)))
    assert buffer.insert(plain(5)) is Verdict.STORED
    assert buffer.held == 4
    # In bytes there may be no room at the low mark either: then all of them go.
    config = BufferConfig(4, 8, Purging.WATERMARK, high_messages=4, low_messages=3)
    buffer = PurgingBuffer(config)
    for seq in range(1, 5):
        buffer.insert(over(seq, *range(1, seq), size=2))
    assert buffer.insert(plain(5, 6)) is Verdict.STORED
    assert seqs(buffer) == [4, 5]


def test_what_is_marked_makes_room_even_when_its_cover_was_taken() -> None:
    """The cover comes first in the queue, since it was not safe when the other one came."""
    guard = SafeUpTo()
    buffer = PurgingBuffer(BufferConfig(9, 5, Purging.LAZY), guard=guard, record=True)
    buffer.insert(bid(1, 9))
    buffer.insert(bid(1, 1, source=B))
    guard.advance(A, 1)
    buffer.covers_released(A)
    buffer.take()
    assert buffer.insert(plain(2, 5)) is Verdict.STORED
    assert (seqs(buffer), left(buffer)) == ([2], [("replaced", 1, 1)])


@pytest.mark.parametrize("name", POLICIES)
def test_policies_have_names(name: str) -> None:
    config = policy_of(name, 7, 70)
    assert (config.purging, config.overflow) == POLICIES[name]
    assert (config.messages_max, config.bytes_max) == (7, 70)


def test_marks_are_three_quarters_and_half_unless_said() -> None:
    config = policy_of("watermark", 100)
    assert (config.high, config.low) == (75, 50)
    assert (policy_of("watermark", 1).high, policy_of("watermark", 1).low) == (0, 0)


def test_settings_that_make_no_sense_are_refused_with_the_numbers() -> None:
    with pytest.raises(ConfigError, match="messages_max 0, bytes_max 5"):
        BufferConfig(0, 5)
    with pytest.raises(ConfigError, match="messages_max 5, bytes_max -1"):
        BufferConfig(5, -1)
    with pytest.raises(ConfigError, match="marks are for the watermark policy, not for lazy"):
        BufferConfig(purging=Purging.LAZY, low_messages=3)
    for low, high in ((5, 4), (-1, 4), (1, 11)):
        with pytest.raises(ConfigError, match=f"low mark {low}, high mark {high}, messages_max 10"):
            BufferConfig(10, purging=Purging.WATERMARK, high_messages=high, low_messages=low)
    with pytest.raises(ConfigError, match="source_messages_max is 0"):
        BufferConfig(source_messages_max=0)
    assert BufferConfig(overflow=Overflow.DROP_NEW).purging is Purging.EAGER
