"""Addresses: what is derived from a group, and that link-local ones keep their interface."""

import ipaddress
import socket
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import TransportError
from semcast.ids import ID_MAX
from semcast.live.sockets.address import (
    address_of,
    family_of,
    group_host,
    group_port,
    is_multicast,
    socket_address,
)

IDS = st.integers(0, ID_MAX)


@given(group_id=IDS)
def test_a_group_meets_at_a_multicast_address_that_stays_local(group_id: int) -> None:
    ipv4, ipv6 = group_host(group_id, ipv6=False), group_host(group_id, ipv6=True)
    assert is_multicast(ipv4)
    assert is_multicast(ipv6)
    assert ipaddress.ip_address(ipv4) in ipaddress.ip_network("239.192.0.0/14")
    assert ipaddress.ip_address(ipv6) in ipaddress.ip_network("ff15::8000:0/97")
    assert 20_000 <= group_port(group_id) <= 39_999


def test_where_a_group_meets_never_changes() -> None:
    """Members of two versions of semcast must meet at the same place."""
    assert group_host(7, ipv6=False) == "239.194.90.35"
    assert group_host(7, ipv6=True) == "ff15::faae:5a23"
    assert group_port(7) == 28415


def test_groups_with_ids_near_each_other_meet_far_apart() -> None:
    """Even where two share an address or a port, both at once is rare."""
    assert len({group_host(one, ipv6=False) for one in range(1000)}) > 980
    assert len({group_host(one, ipv6=True) for one in range(1000)}) == 1000
    assert len({(group_host(one, ipv6=False), group_port(one)) for one in range(1000)}) == 1000


@given(host=st.ip_addresses(v=4), port=st.integers(0, 65_535))
def test_ipv4_addresses_come_back_as_they_were(host: ipaddress.IPv4Address, port: int) -> None:
    assert address_of(socket_address((str(host), port), socket.AF_INET)) == (str(host), port)


@given(host=st.ip_addresses(v=6), port=st.integers(0, 65_535), scope=st.sampled_from(["", "%lo"]))
def test_ipv6_addresses_come_back_with_their_interface(
    host: ipaddress.IPv6Address, port: int, scope: str
) -> None:
    address = f"{host}{scope}", port
    given_to_socket = socket_address(address, socket.AF_INET6)
    assert "%" not in given_to_socket[0]
    assert address_of(given_to_socket) == address


def test_an_interface_that_went_away_is_named_by_its_number() -> None:
    assert address_of(("fe80::1", 9, 0, 999_999)) == ("fe80::1%999999", 9)
    assert socket_address(("fe80::1%999999", 9), socket.AF_INET6) == ("fe80::1", 9, 0, 999_999)


@given(text=st.text())
def test_what_is_no_address_is_our_own_error_and_never_looked_up(text: str) -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(TransportError):
            assert socket_address((text, 9), family)[1] == 9
            assert family_of(text) == family


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_out_of_range_is_our_own_error(port: int) -> None:
    with pytest.raises(TransportError, match=str(port)):
        socket_address(("127.0.0.1", port), socket.AF_INET)
