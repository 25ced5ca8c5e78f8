"""Covers that are not safe yet purge nothing, and purge at once when they are. SRM §4.3, §5.3"""

import pytest
from tests.protocol.making import A, B, bid, left, over, plain, policy_of, seqs

from semcast.ids import Source
from semcast.protocol import BufferConfig, CoverGuard, PurgingBuffer, SafeUpTo, Verdict


def guarded(policy: str = "eager", messages_max: int = 8) -> tuple[PurgingBuffer, SafeUpTo]:
    guard = SafeUpTo()
    config = policy_of(policy, messages_max)
    return PurgingBuffer(config, "retransmit", guard, record=True), guard


def test_the_run_of_m1_m2_m3_keeps_m1_until_m3_is_safe() -> None:
    """Process p multicasts m1, m2, m3 with m1 ⊏ m3 only and may crash at any moment. SRM §4.3

    If it purged m1 at once, sent m2 and died, nobody could deliver m1 or m3: FIFO Completeness
    would be broken. A delivery buffer need not wait, since what it holds it will deliver.
    """
    m1, m2, m3 = plain(1), plain(2), over(3, 1)
    to_send, guard = guarded()
    to_deliver = PurgingBuffer(BufferConfig(), "delivery", record=True)
    for message in (m1, m2, m3):
        to_send.insert(message)
        to_deliver.insert(message)
    assert to_deliver.messages() == [m2, m3]
    assert to_send.messages() == [m1, m2, m3]
    # m2 safe: still not enough. m3 safe: now m1 may go.
    assert guard.advance(A, 2)
    to_send.covers_released(A)
    assert to_send.messages() == [m1, m2, m3]
    assert guard.advance(A, 3)
    to_send.covers_released(A)
    assert to_send.messages() == [m2, m3]
    assert left(to_send) == [("replaced", 1, 3)]


def test_a_cover_that_is_safe_on_arrival_purges_on_arrival() -> None:
    buffer, guard = guarded()
    guard.advance(A, 5)
    buffer.insert(plain(4))
    buffer.insert(over(5, 4))
    buffer.insert(over(6, 5))
    assert seqs(buffer) == [5, 6]


def test_an_unsafe_cover_makes_no_room_and_turns_nobody_away() -> None:
    buffer, guard = guarded(messages_max=2)
    buffer.insert(over(3, 1))
    assert buffer.insert(plain(1)) is Verdict.STORED
    assert buffer.insert(over(4, 3)) is Verdict.FULL
    guard.advance(A, 3)
    buffer.covers_released(A)
    assert seqs(buffer) == [3]
    assert buffer.insert(plain(1)) is Verdict.OBSOLETE


def test_a_late_cover_waits_for_safety_even_behind_ones_already_used() -> None:
    """INV-RELEASED goes back for it."""
    buffer, guard = guarded()
    for message in (plain(1), plain(4), over(5, 4)):
        buffer.insert(message)
    guard.advance(A, 2)
    buffer.covers_released(A)
    assert buffer.insert(over(3, 1)) is Verdict.STORED
    assert seqs(buffer) == [1, 3, 4, 5]
    guard.advance(A, 3)
    buffer.covers_released(A)
    assert seqs(buffer) == [3, 4, 5]


@pytest.mark.parametrize("policy", ["lazy", "watermark"])
def test_covers_released_mark_what_they_replace_and_purge_when_room_is_short(policy: str) -> None:
    buffer, guard = guarded(policy, 4)
    for message in (plain(1), plain(2), over(3, 1, 2)):
        buffer.insert(message)
    guard.advance(A, 3)
    buffer.covers_released(A)
    assert seqs(buffer) == [1, 2, 3]
    # The fourth fills it: above the high mark of 3, and no longer room for a fifth.
    buffer.insert(plain(4))
    buffer.insert(plain(5))
    assert 3 in seqs(buffer)
    assert 1 not in seqs(buffer) or 2 not in seqs(buffer)


def test_a_safe_rank_replaces_those_of_other_senders() -> None:
    buffer, guard = guarded()
    buffer.insert(bid(1, 5, source=B))
    buffer.insert(bid(1, 9, source=A))
    buffer.insert(bid(2, 7, source=B))
    guard.advance(B, 2)
    buffer.covers_released(B)
    assert [int(m.rank) for m in buffer.messages()] == [9, 7]
    guard.advance(A, 1)
    buffer.covers_released(A)
    assert [int(m.rank) for m in buffer.messages()] == [9]


def test_one_safe_rank_replaces_all_that_wait_for_safety() -> None:
    buffer, guard = guarded()
    for seq in (1, 2, 3):
        buffer.insert(bid(seq, seq, source=B))
    buffer.insert(bid(4, 9, b"other", source=B))
    guard.advance(A, 1)
    assert buffer.insert(bid(1, 5, source=A)) is Verdict.STORED
    assert [int(m.rank) for m in buffer.messages()] == [9, 5]


def test_safety_only_grows_and_is_kept_for_each_life() -> None:
    """INV-GUARD: an answer is never taken back, and holds for everything earlier."""
    guard = SafeUpTo()
    life, other_life = Source(1, 1), Source(1, 2)
    assert not guard.advance(life, 0)
    assert guard.advance(life, 5)
    assert not guard.advance(life, 5)
    assert not guard.advance(life, 3)
    allowed = [seq for seq in range(1, 9) if guard.allows(plain(seq, source=life))]
    assert allowed == [1, 2, 3, 4, 5]
    assert not guard.allows(plain(1, source=other_life))
    assert guard.allows(plain(5, source=Source(1, 1)))


def test_without_a_guard_every_message_covers() -> None:
    buffer = PurgingBuffer(BufferConfig(), guard=CoverGuard())
    buffer.insert(plain(1))
    buffer.insert(over(2, 1))
    assert seqs(buffer) == [2]
