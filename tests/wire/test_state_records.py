"""Records of state: what is written is read again, and nothing else is accepted."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.material import PATIENT, SENDER, messages

from semcast.errors import RemoteProtocolError
from semcast.wire.message import Message
from semcast.wire.state_records import read_records, record

A = Message(SENDER, 3, b"keyvalue", 3, by_key=True)
B = Message(SENDER, 9, b"bidvalue", 3, 0, -4, True, 77)


@PATIENT
@given(st.lists(messages(source=st.just(SENDER)), max_size=5))
def test_what_is_written_is_read_again_and_marked_as_state(found: list[Message]) -> None:
    standing = {int(one.seq): one for one in found if one.key_len > 0}
    sent = [standing[seq] for seq in sorted(standing)]
    content = b"".join(map(record, sent))
    last = max(standing, default=1)
    came = read_records(content, SENDER, 0, last, 1 << 20)
    assert came == sent
    assert all(message.state for message in came)
    assert not any(message.state for message in sent)


@pytest.mark.parametrize(
    ("content", "after", "upto", "text"),
    [
        (record(A)[:11], 0, 9, "11 bytes left for its head"),
        (record(A)[:-1], 0, 9, "24 bytes, after seq 0 of up to 9; 23 bytes are left"),
        (record(B) + record(A), 0, 9, "record of seq 3 .* after seq 9"),
        (record(A) + record(A), 0, 9, "record of seq 3 .* after seq 3"),
        (record(A), 3, 9, "record of seq 3 .* after seq 3"),
        (record(A), 0, 2, "record of seq 3 .* up to 2"),
        (record(Message(SENDER, 3, b"no key")), 0, 9, "message 3 has no key"),
    ],
)
def test_records_that_are_cut_short_or_out_of_place_are_refused(
    content: bytes, after: int, upto: int, text: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        read_records(content, SENDER, after, upto, 1 << 20)


def test_a_record_that_is_too_large_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="exceeds the limit of 4"):
        read_records(record(A), SENDER, 0, 9, 4)


@PATIENT
@given(st.binary(max_size=80), st.integers(0, 300))
def test_any_bytes_are_read_or_refused(noise: bytes, at: int) -> None:
    content = bytearray(record(A) + record(B))
    content[at % len(content)] ^= noise[0] if noise else 1
    for some in (noise, bytes(content)):
        with contextlib.suppress(RemoteProtocolError):
            read_records(some, SENDER, 0, 9, 1 << 20)
