"""Addresses as gossip tells them: they come back, and what is none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.sockets.packed_address import packed, unpacked
from semcast.wire.families.overlay import ADDRESS_BYTES_MAX


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "2001:db8::7", "::1"])
def test_addresses_come_back(host: str) -> None:
    data = packed((host, 7400))
    assert 0 < len(data) <= ADDRESS_BYTES_MAX
    assert unpacked(data) == (host, 7400)


def test_a_link_local_address_is_on_the_readers_own_interface() -> None:
    data = packed(("fe80::1%eth7", 7400))
    assert unpacked(data, "fe80::2%eth0") == ("fe80::1%eth0", 7400)
    assert unpacked(data, "fe80::2") == ("fe80::1", 7400)


@pytest.mark.parametrize(
    "address",
    [("0.0.0.0", 7400), ("::", 7400), ("239.1.2.3", 7400), ("10.0.0.7", 0), ("nowhere", 7400)],
)
def test_what_says_not_where_somebody_is_is_left_out(address: tuple[str, int]) -> None:
    assert packed(address) == b""


@pytest.mark.parametrize(
    "data",
    [b"", bytes(6), bytes(18), b"\xff" * 6, b"\xef\x01\x02\x03\x1c\xe8", b"\x0a\0\0\x07\0\0"],
)
def test_what_is_no_address_is_refused(data: bytes) -> None:
    assert unpacked(data) is None


@given(st.binary(max_size=ADDRESS_BYTES_MAX))
def test_any_bytes_are_an_address_or_none(data: bytes) -> None:
    found = unpacked(data)
    assert found is None or packed(found) == data
