"""The edges that the buffer documents, one by one; `test_buffer_machine.py` searches the rest."""

import random

import pytest
from tests.protocol.making import A, B, bid, left, over, plain, policy_of, seqs

from semcast.errors import ConfigError, MessageTooLargeError
from semcast.ids import SEQ_MAX, Source
from semcast.protocol import (
    BufferConfig,
    Overflow,
    Purging,
    PurgingBuffer,
    Reason,
    SafeUpTo,
    Verdict,
)
from semcast.wire.message import Message

STORED, FULL, OBSOLETE = Verdict.STORED, Verdict.FULL, Verdict.OBSOLETE


def buffer_of(policy: str, messages_max: int = 3, bytes_max: int = 1000) -> PurgingBuffer:
    return PurgingBuffer(
        policy_of(policy, messages_max, bytes_max), random=random.Random(1), record=True
    )


# -- room ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
def test_a_full_buffer_still_admits_what_replaces_a_message_it_holds(policy: str) -> None:
    """New messages can only be accepted if they obsolete one in the buffer. SRM §5.1"""
    buffer = buffer_of(policy)
    for seq in (1, 2, 3):
        buffer.insert(plain(seq))
    assert buffer.insert(plain(4)) is FULL
    assert buffer.insert(over(4, 2)) is STORED
    assert seqs(buffer) == [1, 3, 4]
    assert left(buffer) == [("replaced", 2, 4)]


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
def test_room_is_made_in_bytes_too_and_only_if_it_is_enough(policy: str) -> None:
    buffer = buffer_of(policy, 10, 100)
    buffer.insert(plain(1, 40))
    buffer.insert(plain(2, 60))
    # Without 1 there would be room for 40 bytes, not for 50: nothing changes.
    assert buffer.insert(over(3, 1, size=50)) is FULL
    assert (seqs(buffer), left(buffer)) == ([1, 2], [])
    assert buffer.insert(over(3, 1, size=40)) is STORED
    assert (seqs(buffer), buffer.held_bytes) == ([2, 3], 100)


def test_nothing_makes_room_when_purging_is_off() -> None:
    buffer = buffer_of("off")
    for seq in (1, 2, 3):
        assert buffer.insert(over(seq, *range(1, seq))) is STORED
    assert buffer.insert(over(4, 1, 2, 3)) is FULL
    assert (seqs(buffer), left(buffer)) == ([1, 2, 3], [])


def test_a_refused_message_changes_nothing_but_what_was_obsolete_anyway() -> None:
    buffer = buffer_of("lazy", 10, 10)
    buffer.insert(plain(1, 4))
    buffer.insert(plain(2, 3))
    buffer.insert(over(3, 2, size=3))
    assert seqs(buffer) == [1, 2, 3]
    assert buffer.insert(plain(4, 9)) is FULL
    # 2 had been replaced by 3 long before 4 came.
    assert (seqs(buffer), left(buffer)) == ([1, 3], [("replaced", 2, 3)])


def test_a_message_larger_than_the_buffer_raises_with_the_numbers_and_changes_nothing() -> None:
    buffer = buffer_of("lazy", 3, 10)
    buffer.insert(plain(1, 5))
    buffer.insert(over(2, 1, size=5))
    with pytest.raises(MessageTooLargeError, match="11 bytes exceeds the limit of 10") as error:
        buffer.insert(over(3, 2, size=11))
    assert (error.value.size_bytes, error.value.bytes_max) == (11, 10)
    assert (seqs(buffer), left(buffer)) == ([1, 2], [])
    assert buffer.insert(over(3, 2, size=10)) is STORED
    assert seqs(buffer) == [3]


def test_a_source_that_has_used_up_its_share_takes_no_room_of_others() -> None:
    config = BufferConfig(messages_max=4, source_messages_max=2)
    buffer = PurgingBuffer(config, record=True)
    buffer.insert(plain(1))
    buffer.insert(plain(2))
    assert buffer.insert(plain(3)) is FULL
    assert buffer.insert(plain(1, source=B)) is STORED
    assert buffer.insert(over(3, 1)) is STORED
    assert [buffer.held_of(source) for source in (A, B, Source(9, 9))] == [2, 1, 0]


def test_a_random_drop_hits_only_the_source_that_has_used_up_its_share() -> None:
    config = BufferConfig(100, 1000, Purging.OFF, Overflow.RANDOM, source_messages_max=2)
    buffer = PurgingBuffer(config, random=random.Random(3), record=True)
    for seq in range(1, 40):
        buffer.insert(plain(seq, source=Source(seq + 10, 1)))
    for seq in range(1, 20):
        assert buffer.insert(plain(seq)) is STORED
    dropped = buffer.drain_purged()
    assert {purged.message.source for purged in dropped} == {A}
    assert (len(dropped), buffer.held) == (17, 41)


def test_drop_new_keeps_what_the_dropped_message_replaces() -> None:
    buffer = PurgingBuffer(
        BufferConfig(9, 10, Purging.EAGER, Overflow.DROP_NEW), "network", record=True
    )
    buffer.insert(plain(1, 2))
    buffer.insert(plain(2, 8))
    assert buffer.insert(over(3, 1, size=5)) is Verdict.DROPPED
    assert (seqs(buffer), left(buffer)) == ([1, 2], [("overflow", 3, None)])


def test_a_random_drop_comes_after_what_the_new_message_replaces() -> None:
    """Semantic purging first; random selection is for what is left. PSRM §3.1"""
    config = BufferConfig(10, 10, Purging.EAGER, Overflow.RANDOM)
    for seed in range(20):
        buffer = PurgingBuffer(config, random=random.Random(seed), record=True)
        buffer.insert(plain(1, 4))
        buffer.insert(plain(2, 4))
        # Without 1 there are 6 bytes free: 2 has to go as well. 1 is purged, never dropped.
        assert buffer.insert(over(3, 1, size=8)) is STORED
        assert left(buffer) == [("replaced", 1, 3), ("random", 2, None)]


def test_random_drops_can_be_replayed_from_their_seed() -> None:
    def dropped(seed: int) -> list[tuple[str, int, int | None]]:
        buffer = PurgingBuffer(policy_of("random", 10), random=random.Random(seed), record=True)
        for seq in range(1, 200):
            assert buffer.insert(plain(seq)) is STORED
        return left(buffer)

    assert dropped(1) == dropped(1)
    assert dropped(1) != dropped(2)
    # Any held message may be hit: not always the oldest, never the new one.
    ages = {at + 11 - seq for at, (_, seq, _) in enumerate(dropped(1))}
    assert min(ages) == 1
    assert len(ages) > 5


def test_random_overflow_needs_a_stream_of_randomness() -> None:
    with pytest.raises(ConfigError, match="needs seeded randomness"):
        PurgingBuffer(policy_of("random"))


# -- order ---------------------------------------------------------------------------------------


def test_a_late_message_takes_its_place_in_its_source_s_order() -> None:
    buffer = buffer_of("eager", 9)
    for message in (plain(2), plain(1, source=B), plain(5), plain(1), plain(4), plain(3)):
        assert buffer.insert(message) is STORED
    assert [(int(m.source.sender), int(m.seq)) for m in buffer.take_many(9)] == [
        (1, 1), (1, 2), (2, 1), (1, 3), (1, 4), (1, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        policy_of("lazy", 3),
        BufferConfig(3, purging=Purging.WATERMARK, high_messages=3, low_messages=2),
        policy_of("random", 3),
    ],
)
def test_a_late_message_finds_its_place_after_room_was_made(config: BufferConfig) -> None:
    """Its successor may be what had to go. Regression: it was linked to a free slot."""
    for seed in range(10):
        buffer = PurgingBuffer(config, random=random.Random(seed))
        for message in (plain(4), over(5, 4), plain(1, source=B), plain(2)):
            assert buffer.insert(message) is STORED
        held = [int(m.seq) for m in buffer.messages() if m.source == A]
        assert (len(buffer.messages()), held) == (3, sorted({2, *held}))


def test_a_late_ranked_message_may_purge_its_own_successor() -> None:
    """Regression: same as above, eager, by a rank that fell."""
    buffer = buffer_of("eager", 2)
    buffer.insert(bid(5, 1))
    buffer.insert(plain(6))
    assert buffer.insert(bid(3, 2)) is STORED
    assert (seqs(buffer), left(buffer)) == ([3, 6], [("replaced", 5, 3)])


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
def test_a_message_that_arrives_obsolete_does_not_enter(policy: str) -> None:
    buffer = buffer_of(policy)
    buffer.insert(over(5, 1, 3))
    assert buffer.insert(plain(3)) is OBSOLETE
    assert buffer.insert(plain(2)) is STORED
    assert buffer.insert(over(5, 1, 3)) is Verdict.DUPLICATE
    assert (seqs(buffer), left(buffer)) == ([2, 5], [("late", 3, 5)])


@pytest.mark.parametrize("distance", [1, 60, 62, 63, 64, 65, 120, 128, 1023, 1024])
def test_both_directions_are_looked_at_whatever_the_distance(distance: int) -> None:
    """Arriving first or last, the older one goes. Words of bitmaps end at 60, 62 and 64 bits."""
    older, newer = plain(1), Message(A, 1 + distance, b"", 0, 1 << (distance - 1))
    for first, second, verdict in ((older, newer, STORED), (newer, older, OBSOLETE)):
        buffer = buffer_of("eager")
        buffer.insert(first)
        assert buffer.insert(second) is verdict
        assert buffer.messages() == [newer]


def test_a_late_ranked_message_is_covered_by_a_bitmap_too() -> None:
    """Regression: only ranks were looked at."""
    buffer = buffer_of("eager")
    buffer.insert(over(5, 3))
    assert buffer.insert(bid(3, 9)) is OBSOLETE
    assert left(buffer) == [("late", 3, 5)]


def test_bids_of_several_senders_replace_each_other() -> None:
    """Ties go to the larger source, at every member alike. PSRM §2.4"""
    buffer = buffer_of("eager", 9)
    assert buffer.insert(bid(1, 100, source=A)) is STORED
    assert buffer.insert(bid(1, 100, source=B)) is STORED
    assert buffer.insert(bid(2, 100, source=A)) is OBSOLETE
    assert buffer.insert(bid(3, 50, b"other", source=A)) is STORED
    assert buffer.insert(bid(4, 101, source=A)) is STORED
    assert [int(m.rank) for m in buffer.messages()] == [50, 101]


def test_a_gap_of_any_size_costs_nothing() -> None:
    """Regression: release and covers_released walked every number in between."""
    guard = SafeUpTo()
    buffer = PurgingBuffer(BufferConfig(), guard=guard)
    held = [1, 2, 10**6, SEQ_MAX // 2, SEQ_MAX]
    for seq in held:
        buffer.insert(Message(A, seq, b"", 0, 0b1))
    guard.advance(A, SEQ_MAX)
    buffer.covers_released(A)
    assert seqs(buffer) == [2, 10**6, SEQ_MAX // 2, SEQ_MAX]
    assert buffer.release(A, SEQ_MAX - 1) == 3
    assert seqs(buffer) == [SEQ_MAX]


# -- looking -------------------------------------------------------------------------------------


def test_unknown_sources_hold_nothing() -> None:
    buffer = buffer_of("eager")
    buffer.covers_released(B)
    assert buffer.get(B, 1) is None
    assert buffer.release(B, 9) == 0
    assert (buffer.take(), buffer.peek(), buffer.newest(), buffer.drop_newest()) == (None,) * 4
    assert (len(buffer), buffer.messages(), buffer.take_many(3)) == (0, [], [])


def test_equal_sources_are_one_source_and_lives_are_two() -> None:
    buffer = buffer_of("eager", 9)
    buffer.insert(plain(1, source=Source(5, 1)))
    buffer.insert(over(2, 1, source=Source(5, 2)))
    assert buffer.insert(plain(1, source=Source(5, 1))) is Verdict.DUPLICATE
    assert buffer.insert(over(2, 1, source=Source(5, 1))) is STORED
    assert [(int(m.source.incarnation), int(m.seq)) for m in buffer.messages()] == [(2, 2), (1, 2)]


def test_what_left_is_recorded_only_on_demand_and_always_counted() -> None:
    silent = PurgingBuffer(BufferConfig())
    silent.insert(plain(1))
    silent.insert(over(2, 1))
    assert silent.drain_purged() == []
    assert silent.counts == {
        Reason.REPLACED: 1, Reason.LATE: 0, Reason.RANDOM: 0, Reason.OVERFLOW: 0,
    }  # fmt: skip
    buffer = PurgingBuffer(BufferConfig(), "retransmit", record=True)
    buffer.insert(plain(1))
    buffer.insert(over(2, 1))
    (purged,) = buffer.drain_purged()
    assert (purged.place, purged.reason) == ("retransmit", Reason.REPLACED)
    assert repr(purged) == (
        "<Purged replaced from retransmit: <Message Source(1.1)#1 1 B> "
        "by <Message Source(1.1)#2 1 B>>"
    )
    assert buffer.drain_purged() == []
