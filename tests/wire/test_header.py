"""The header's layout, and that no bytes get past it except those a correct peer sends."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.wire.header import (
    AES_256_GCM,
    CHACHA20_POLY1305,
    HEADER_BYTES,
    KEY_ID_MAX,
    PACKET_MAX,
    PLAIN,
    Header,
    decode_header,
    trailer_bytes,
)

LAYOUT = struct.Struct("<BBHQQQQ")
IDS = st.integers(0, ID_MAX)


def packed(
    version: int = 1,
    suite: int = AES_256_GCM,
    key_id: int = 7,
    group: int = 1,
    sender: int = 2,
    incarnation: int = 3,
    packet: int = 4,
) -> bytes:
    """The layout written by other means than the code under test."""
    return LAYOUT.pack(version, suite, key_id, group, sender, incarnation, packet)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    suite = draw(st.sampled_from([PLAIN, AES_256_GCM, CHACHA20_POLY1305]))
    key_id = 0 if suite == PLAIN else draw(st.integers(0, KEY_ID_MAX))
    source = Source(draw(IDS), draw(IDS))
    return Header(suite, key_id, draw(IDS), source, draw(st.integers(1, PACKET_MAX)))


@given(header=headers(), after=st.binary(max_size=40))
def test_a_header_decodes_to_itself_whatever_follows(header: Header, after: bytes) -> None:
    assert decode_header(header.encode() + after) == header


@given(header=headers())
def test_the_layout_is_the_documented_one(header: Header) -> None:
    source = header.source
    encoded = header.encode()
    assert len(encoded) == HEADER_BYTES == LAYOUT.size
    assert encoded == packed(
        1,
        header.suite,
        header.key_id,
        header.group,
        source.sender,
        source.incarnation,
        header.packet,
    )


def test_every_byte_has_its_place() -> None:
    header = Header(2, 0xBEEF, 0x0102030405060708, Source(0x1112131415161718, 0x21), 0x31)
    assert header.encode().hex() == (
        "0102efbe0807060504030201181716151413121121000000000000003100000000000000"
    )


FIELDS = st.tuples(
    st.integers(0, 255) | st.just(1),
    st.integers(0, 3),
    st.integers(0, 2),
    *[st.integers(0, 2**64 - 1) | IDS for _ in range(4)],
)


@given(data=st.binary(max_size=80) | FIELDS.map(lambda fields: LAYOUT.pack(*fields)))
def test_any_bytes_decode_to_what_they_say_or_are_refused(data: bytes) -> None:
    try:
        header = decode_header(data)
    except RemoteProtocolError:
        return
    assert header.encode() == data[:HEADER_BYTES]


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_header_cut_short_is_refused_at_every_length(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{size} bytes"):
        decode_header(packed()[:size])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (packed(version=0), "version 0"),
        (packed(version=2), "version 2"),
        (packed(suite=3), "suite 3"),
        (packed(suite=255), "suite 255"),
        (packed(suite=PLAIN, key_id=1), "key id 1"),
        (packed(suite=PLAIN, key_id=256), "key id 256"),
        (packed(group=ID_MAX + 1), f"group id {ID_MAX + 1}"),
        (packed(sender=1 << 63), f"sender id {1 << 63}"),
        (packed(incarnation=(1 << 64) - 1), f"incarnation {(1 << 64) - 1}"),
        (packed(packet=0), "packet number 0"),
        (packed(packet=PACKET_MAX + 1), f"packet number {PACKET_MAX + 1}"),
    ],
)
def test_a_field_out_of_range_is_refused_with_its_value(data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode_header(data)


def test_the_largest_values_are_accepted() -> None:
    data = packed(1, 2, KEY_ID_MAX, ID_MAX, ID_MAX, ID_MAX, PACKET_MAX)
    header = decode_header(data)
    assert (header.key_id, header.group, header.packet) == (KEY_ID_MAX, ID_MAX, PACKET_MAX)
    assert header.source == Source(ID_MAX, ID_MAX)
    assert header.encode() == data


def test_a_tag_is_16_bytes_and_a_plain_trailer_4() -> None:
    sizes = [trailer_bytes(suite) for suite in (PLAIN, AES_256_GCM, CHACHA20_POLY1305)]
    assert sizes == [4, 16, 16]


@given(one=headers(), other=headers())
def test_headers_are_equal_exactly_when_their_bytes_are(one: Header, other: Header) -> None:
    assert (one == other) == (one.encode() == other.encode())
    assert one == decode_header(one.encode())
    assert hash(one) == hash(decode_header(one.encode()))
    assert one != one.encode()
    assert repr(one.source) in repr(one)
