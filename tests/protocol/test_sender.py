"""A sender numbers, tags and retains; what is purged before its turn is never sent."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import LocalProtocolError, MessageTooLargeError, WindowFullError
from semcast.ids import Source
from semcast.obsolescence import EVERYTHING, Keys, Predecessors, Ranked, Replaces, Tagger
from semcast.protocol import BufferConfig, Overflow, Purging, PurgingBuffer, Reason, SafeUpTo
from semcast.protocol.streams.sender import Sender
from semcast.testing import replacements
from semcast.wire.decode import Decoder
from semcast.wire.families.repair import Fragment
from semcast.wire.fragment import Reassembler
from semcast.wire.limits import Limits
from semcast.wire.message import Message

ME = Source(7, 1)
LIMITS = Limits(path_mtu_bytes=576, message_bytes_max=5_000)


def make(
    config: BufferConfig | None = None, guard: SafeUpTo | None = None
) -> tuple[Sender, PurgingBuffer]:
    stream = random.Random("sender")
    retained = PurgingBuffer(config or BufferConfig(), "retransmit", guard, stream, record=True)
    return Sender(ME, Tagger(), retained, LIMITS), retained


def received(datagrams: list[bytes]) -> list[Message]:
    """What a receiver reads from these datagrams, in order; each fits the path."""
    decoder, reassembler = Decoder(), Reassembler(LIMITS)
    found = []
    for frames in datagrams:
        assert 0 < len(frames) <= LIMITS.frames_bytes_max
        decoded = decoder.decode(frames, ME)
        found += decoded.messages
        for fragment in decoded.control:
            assert isinstance(fragment, Fragment)
            whole = reassembler.add(fragment)
            found += [] if whole is None else [whole]
    return sorted(found, key=lambda message: message.seq)


def test_messages_are_numbered_from_1_and_sent_as_they_were_made() -> None:
    sender, _ = make()
    said: list[Replaces] = ["a", None, b"a", Keys(("a", "b")), Ranked("r", 3), EVERYTHING]
    sent = [sender.multicast(b"payload", one, 1_000 + at) for at, one in enumerate(said)]
    assert [message.seq for message in sent] == [1, 2, 3, 4, 5, 6]
    assert [message.key for message in sent] == [b"a", b"", b"a", b"", b"r", b""]
    assert all(message.payload == b"payload" for message in sent)
    assert [message.sent_ns for message in sent] == [1_000, 1_001, 1_002, 1_003, 1_004, 1_005]
    # All before the last are replaced by it, and nothing was packed yet.
    assert received(sender.frames_to_send()) == sent[-1:]
    assert sender.frames_to_send() == []


@given(st.lists(st.tuples(replacements(), st.integers(0, 1500)), max_size=25), st.data())
def test_what_is_held_when_packed_is_sent_once_whole_and_in_order(
    said: list[tuple[Replaces, int]], data: st.DataObject
) -> None:
    sender, retained = make()
    sent, seen = [], []
    for one, size in said:
        seq = sender.seq + 1
        if isinstance(one, Predecessors):
            one = Predecessors(tuple(seq - n for n in one.seqs if n < seq))
        sender.multicast(bytes([seq]) * size, one, 5)
        if data.draw(st.booleans()):
            waiting = [m for m in retained.messages() if m not in seen]
            sent += received(sender.frames_to_send())
            seen += waiting
            assert not sender.unsent
    waiting = [m for m in retained.messages() if m not in seen]
    sent += received(sender.frames_to_send())
    assert sent == seen + waiting


def test_a_message_purged_before_its_turn_is_never_sent() -> None:
    sender, retained = make()
    sender.multicast(b"old", "quote", 1)
    trade = sender.multicast(b"trade", None, 2)
    quote = sender.multicast(b"new", "quote", 3)
    assert [purged.message.seq for purged in retained.drain_purged()] == [1]
    assert received(sender.frames_to_send()) == [trade, quote]
    # Once sent, it may be purged all the same: it is then answered, not sent again.
    newest = sender.multicast(b"newer", "quote", 4)
    assert received(sender.frames_to_send()) == [newest]


def test_nothing_is_purged_for_the_sake_of_an_unsafe_message() -> None:
    """Then the old one is sent too, and both survive the sender. SRM §4.3"""
    guard = SafeUpTo()
    sender, retained = make(guard=guard)
    first = sender.multicast(b"1", "a", 1)
    second = sender.multicast(b"2", "a", 2)
    assert received(sender.frames_to_send()) == [first, second]
    guard.advance(ME, 2)
    retained.covers_released(ME)
    assert retained.messages() == [second]


def test_a_full_window_changes_nothing_and_the_next_multicast_works() -> None:
    sender, retained = make(BufferConfig(messages_max=3))
    kept = [sender.multicast(bytes([at]), None, 1) for at in range(2)]
    kept.append(sender.multicast(b"x", "a", 1))
    for replaces in (None, "b", Keys(("b", "c")), Ranked("r", 1)):
        with pytest.raises(WindowFullError, match="3 messages held, none replaced") as e:
            sender.multicast(b"?", replaces, 1)
        assert (e.value.held, e.value.window_max) == (3, 3)
        assert (sender.seq, retained.messages()) == (3, kept)
    # What replaces a held message still goes in, with the next number and the right bitmap.
    newest = sender.multicast(b"y", "a", 2)
    assert (newest.seq, newest.bitmap) == (4, 0b1)
    # And when the group has received more, so does the rest; "b" was never used.
    retained.release(ME, 2)
    assert sender.multicast(b"z", "b", 3).bitmap == 0
    assert received(sender.frames_to_send())[-1].seq == 5


@pytest.mark.parametrize("replaces", [None, "key", Keys(("a", "b")), Ranked("r", 1)])
def test_a_message_larger_than_the_window_changes_nothing(replaces: Replaces) -> None:
    """However it is refused, the number is given to the next message."""
    sender, retained = make(BufferConfig(bytes_max=100))
    sender.multicast(b"1", "key", 1)
    with pytest.raises(MessageTooLargeError):
        sender.multicast(bytes(101), replaces, 1)
    assert (sender.seq, retained.held) == (1, 1)
    assert sender.multicast(b"2", "key", 1).bitmap == 0b1


@pytest.mark.parametrize("size", [LIMITS.message_bytes_max + 1, 1 << 20])
def test_a_message_larger_than_any_may_be_is_refused_with_the_numbers(size: int) -> None:
    sender, retained = make()
    with pytest.raises(MessageTooLargeError, match=f"{size} bytes exceeds the limit of 5000") as e:
        sender.multicast(bytes(size), "key", 1)
    assert (e.value.size_bytes, e.value.bytes_max) == (size, 5_000)
    assert (sender.seq, retained.held, sender.unsent) == (0, 0, False)
    sender.multicast(bytes(LIMITS.message_bytes_max), "k" * 255, 1)
    assert received(sender.frames_to_send())[0].payload == bytes(LIMITS.message_bytes_max)


@pytest.mark.parametrize("bad", ["", "x" * 256, Keys(()), Predecessors((1,)), Ranked("", 1)])
def test_a_bad_annotation_changes_nothing(bad: Replaces) -> None:
    sender, retained = make()
    with pytest.raises(LocalProtocolError):
        sender.multicast(b"", bad, 1)
    assert (sender.seq, retained.held) == (0, 0)
    assert sender.multicast(b"", "a", 1).seq == 1


def test_what_a_held_message_outranks_is_accepted_and_never_sent() -> None:
    """A falling rank is no full window: the message is covered before it is made."""
    sender, retained = make()
    high = sender.multicast(b"high", Ranked("lot", 120), 1)
    low = sender.multicast(b"low", Ranked("lot", 100), 2)
    after = sender.multicast(b"after", None, 3)
    assert (low.seq, after.seq) == (2, 3)
    purged = retained.drain_purged()
    assert [(p.reason, p.message, p.cover) for p in purged] == [(Reason.LATE, low, high)]
    assert received(sender.frames_to_send()) == [high, after]


def test_a_lossy_buffer_drops_with_an_account_and_goes_on() -> None:
    """Only for gossip and comparison: the number is spent, the loss is counted. PSRM §3.1"""
    sender, retained = make(BufferConfig(1, 100, Purging.OFF, Overflow.DROP_NEW))
    sender.multicast(b"1", None, 1)
    sender.multicast(b"2", None, 1)
    assert retained.counts[Reason.OVERFLOW] == 1
    assert [message.seq for message in received(sender.frames_to_send())] == [1]
    retained.release(ME, 1)
    assert sender.multicast(b"3", None, 1).seq == 3


def test_a_large_message_becomes_fragments_between_its_neighbours() -> None:
    sender, _ = make()
    large = bytes(range(256)) * 8
    sent = [
        sender.multicast(b"before", None, 1),
        sender.multicast(large, "key", 2),
        sender.multicast(b"after", None, 3),
    ]
    datagrams = sender.frames_to_send()
    decoder = Decoder()
    kinds: list[str] = []
    for frames in datagrams:
        decoded = decoder.decode(frames, ME)
        kinds += [f"whole {m.seq}" for m in decoded.messages if m.seq == 1]
        kinds += [f"piece {f.index}" for f in decoded.control if isinstance(f, Fragment)]
        kinds += [f"whole {m.seq}" for m in decoded.messages if m.seq == 3]
    pieces = [kind for kind in kinds if kind.startswith("piece")]
    assert pieces == [f"piece {at}" for at in range(5)]
    assert kinds == ["whole 1", *pieces, "whole 3"]
    assert received(datagrams) == sent


def test_small_messages_share_datagrams() -> None:
    sender, _ = make()
    for _ in range(50):
        sender.multicast(bytes(20), None, 1)
    datagrams = sender.frames_to_send()
    # 50 records of 12 + 20 bytes; one more datagram for what does not divide evenly.
    assert len(datagrams) <= 50 * 32 // LIMITS.frames_bytes_max + 2
    assert [message.seq for message in received(datagrams)] == list(range(1, 51))
    # What fits a datagram is never cut: it waits for the next.
    assert all(Decoder().decode(frames, ME).control == [] for frames in datagrams)


def test_a_limit_on_datagrams_leaves_the_rest_for_later() -> None:
    sender, _ = make()
    for _ in range(100):
        sender.multicast(bytes(100), None, 1)
    found: list[Message] = []
    while sender.unsent:
        datagrams = sender.frames_to_send(2)
        assert 0 < len(datagrams) <= 3
        found += received(datagrams)
    assert [message.seq for message in found] == list(range(1, 101))
    assert sender.frames_to_send(2) == []


def test_many_are_accepted_until_the_window_is_full() -> None:
    sender, retained = make(BufferConfig(messages_max=2))
    with pytest.raises(WindowFullError):
        sender.multicast_many([b"1", b"2", b"3", b"4"], [None] * 4, 1)
    assert (sender.seq, retained.held) == (2, 2)
    with pytest.raises(LocalProtocolError, match="3 payloads, but 1 times said"):
        sender.multicast_many([b"5"] * 3, ["a"], 1)
    assert sender.seq == 2
