"""Keys of any length are told apart by hash and by comparison, whatever stands behind them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.protocol import BufferConfig, PurgingBuffer, Verdict
from semcast.protocol.queue.key_chains import key_hash, same_start
from semcast.wire.message import Message

ME = Source(1, 1)


@pytest.mark.parametrize("size", range(1, 41))
@pytest.mark.parametrize("payload", [0, 1, 7, 8, 20])
def test_a_key_differs_from_one_that_differs_in_one_byte_and_from_nothing_else(
    size: int, payload: int
) -> None:
    """On both builds alike: native integers and Python's must give the same."""
    drawn = random.Random(f"{size}/{payload}")
    key = drawn.randbytes(size)
    here, there = (key + drawn.randbytes(payload) for _ in range(2))
    assert key_hash(here, size) == key_hash(there, size) >= 0
    assert same_start(here, there, size)
    for at in range(size):
        other = bytearray(there)
        other[at] ^= 1 << drawn.randrange(8)
        assert not same_start(here, bytes(other), size)
        assert key_hash(here, size) != key_hash(bytes(other), size)


@given(
    st.lists(
        st.tuples(st.sampled_from([b"chain 1", b"chain 2", b"c", b"chain 10", b"x" * 8, b"x" * 9]),
                  st.integers(0, 9), st.booleans()),
        max_size=60,
    )
)  # fmt: skip
def test_of_each_key_the_newest_is_held_and_found_again(
    sent: list[tuple[bytes, int, bool]],
) -> None:
    """Beside a dictionary; some are taken in between, so that cells become empty."""
    buffer = PurgingBuffer(BufferConfig())
    held: dict[bytes, int] = {}
    for seq, (key, payload, takes) in enumerate(sent, 1):
        message = Message(ME, seq, key + bytes(payload), len(key), by_key=True)
        assert buffer.insert(message) is Verdict.STORED
        held.pop(key, None)
        held[key] = seq
        if takes:
            taken = buffer.take()
            assert taken is not None
            assert held.pop(taken.key) == taken.seq
        assert [(m.key, m.seq) for m in buffer.messages()] == list(held.items())


def test_many_keys_that_come_and_go_are_never_mixed_up() -> None:
    """Tables grow and shrink, and cells that collide move up when others become empty."""
    drawn = random.Random("come and go")
    buffer = PurgingBuffer(BufferConfig(messages_max=5_000))
    held: dict[bytes, int] = {}
    for seq in range(1, 30_001):
        wide = 4_000 if seq // 5_000 % 2 else 50
        key = b"key-%d" % drawn.randrange(wide)
        buffer.insert(Message(ME, seq, key + b"value", len(key), by_key=True))
        held.pop(key, None)
        held[key] = seq
        while len(buffer) > wide // 2:
            taken = buffer.take()
            assert taken is not None
            assert held.pop(taken.key) == taken.seq
    assert [(m.key, m.seq) for m in buffer.messages()] == list(held.items())
    lane = buffer._slots.lanes[ME]
    assert lane.chains == len(held)
    assert len(lane.cells) <= 16 * max(16, len(held))
