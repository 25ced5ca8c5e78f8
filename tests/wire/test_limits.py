"""The limits are checked where they are set, and what follows from them fits the path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.wire.header import DATAGRAM_BYTES_MAX, HEADER_BYTES, TAG_BYTES
from semcast.wire.keys import UNSEALED, Keyring, Unsealed
from semcast.wire.limits import (
    IP_UDP_BYTES,
    MESSAGE_BYTES_LIMIT,
    PATH_MTU_BYTES_MAX,
    PATH_MTU_BYTES_MIN,
    Limits,
)
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

MTUS = st.integers(PATH_MTU_BYTES_MIN, PATH_MTU_BYTES_MAX)
IPV6_BYTES, IPV4_BYTES, UDP_BYTES = 40, 20, 8


@pytest.mark.parametrize("keys", [UNSEALED, Keyring(bytes(32))], ids=["plain", "sealed"])
@given(mtu=MTUS)
def test_a_full_datagram_fits_the_path_mtu_sealed_or_not(
    keys: Keyring | Unsealed, mtu: int
) -> None:
    limits = Limits(mtu)
    datagram = Sealer(1, Source(1, 1), keys).seal(bytes(limits.frames_bytes_max))
    assert len(datagram) <= limits.datagram_bytes_max
    assert len(datagram) + UDP_BYTES + IPV6_BYTES <= mtu
    assert len(Opener(1, keys).open(datagram).frames) == limits.frames_bytes_max


def test_the_default_fills_1400_bytes_of_ipv6_exactly_when_sealed() -> None:
    limits = Limits()
    assert limits.path_mtu_bytes == 1_400
    datagram = Sealer(1, Source(1, 1), Keyring(bytes(32))).seal(bytes(limits.frames_bytes_max))
    assert len(datagram) + UDP_BYTES + IPV6_BYTES == 1_400
    assert len(datagram) + UDP_BYTES + IPV4_BYTES <= 1_400


@given(mtu=MTUS)
def test_nothing_is_wasted_and_no_datagram_exceeds_what_udp_carries(mtu: int) -> None:
    limits = Limits(mtu)
    assert limits.datagram_bytes_max == mtu - IP_UDP_BYTES <= DATAGRAM_BYTES_MAX
    assert limits.frames_bytes_max == limits.datagram_bytes_max - HEADER_BYTES - TAG_BYTES


@pytest.mark.parametrize("mtu", [PATH_MTU_BYTES_MIN - 1, PATH_MTU_BYTES_MAX + 1, 0, -1])
def test_a_path_mtu_out_of_range_is_refused_with_the_range(mtu: int) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(path_mtu_bytes=mtu)
    assert str(caught.value) == f"path_mtu_bytes is {mtu}; it goes from 576 to 65535"


@pytest.mark.parametrize("size", [0, -1, MESSAGE_BYTES_LIMIT + 1])
def test_a_message_limit_out_of_range_is_refused_with_the_range(size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(message_bytes_max=size)
    assert str(caught.value) == f"message_bytes_max is {size}; it goes from 1 to 16777216"


@pytest.mark.parametrize(
    ("mtu", "size"),
    [(PATH_MTU_BYTES_MIN, 1), (PATH_MTU_BYTES_MAX, MESSAGE_BYTES_LIMIT)],
)
def test_both_ends_of_the_ranges_are_accepted(mtu: int, size: int) -> None:
    limits = Limits(mtu, size)
    assert (limits.path_mtu_bytes, limits.message_bytes_max) == (mtu, size)
