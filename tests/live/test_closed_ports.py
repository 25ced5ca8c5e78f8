"""Ports that nobody has open any more: what the kernel reports of them, and what comes of it."""

import errno
import select
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.material import DEADLINE_S, Way, closing, collect, narrow, payloads
from tests.live.test_transport import numbered

from semcast.live.sockets import closed_ports
from semcast.live.sockets.closed_ports import REPORTS_MAX, is_closed
from semcast.live.sockets.transport import Address, Transport

pytestmark = pytest.mark.skipif(not closed_ports.SUPPORTED, reason="only Linux reports them")
V4 = (socket.IPPROTO_IP, 11)
V6 = (socket.IPPROTO_IPV6, 25)
FAMILIES = {V4: socket.AF_INET, V6: socket.AF_INET6}
# An error; its origin, type and code.
PORT = {V4: (errno.ECONNREFUSED, 2, 3, 3), V6: (errno.ECONNREFUSED, 3, 1, 4)}
OTHERS = [
    (errno.EHOSTUNREACH, 2, 3, 1),  # no such host
    (errno.EHOSTUNREACH, 2, 3, 13),  # a firewall
    (errno.ENOPROTOOPT, 2, 3, 2),  # no such protocol
    (errno.EMSGSIZE, 2, 3, 4),  # too large for a router
    (errno.EMSGSIZE, 1, 0, 0),  # too large for this machine
    (errno.ECONNREFUSED, 1, 3, 3),  # of no network
    (errno.ECONNREFUSED, 2, 3, 1),
    (errno.ECONNREFUSED, 2, 1, 3),
    (0, 4, 0, 0),  # a time stamp
]


def report(number: int, origin: int, kind: int, code: int) -> bytes:
    return struct.pack("=IBBBBII", number, origin, kind, code, 0, 0, 0) + bytes(16)


# -- parsing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [V4, V6])
def test_a_report_of_a_closed_port_is_told_from_others(where: tuple[int, int]) -> None:
    family = FAMILIES[where]
    assert is_closed([(*where, report(*PORT[where]))], family)
    # More may stand before it.
    assert is_closed([(17, 104, bytes(4)), (*where, report(*PORT[where]))], family)
    for other in OTHERS:
        assert not is_closed([(*where, report(*other))], family)


def test_a_report_of_the_other_family_does_not_count() -> None:
    assert not is_closed([(*V4, report(*PORT[V4]))], socket.AF_INET6)
    assert not is_closed([(*V6, report(*PORT[V6]))], socket.AF_INET)
    assert not is_closed([(*V4, report(*PORT[V6]))], socket.AF_INET)
    assert not is_closed([(*V4, report(*PORT[V4]))], socket.AF_UNIX)


@pytest.mark.parametrize("where", [V4, V6])
def test_a_report_that_is_cut_off_does_not_count(where: tuple[int, int]) -> None:
    whole = report(*PORT[where])
    for size in range(8):
        assert not is_closed([(*where, whole[:size])], FAMILIES[where])
    assert not is_closed([], FAMILIES[where])


@given(
    st.lists(st.tuples(st.sampled_from([0, 17, 41]), st.sampled_from([11, 25]), st.binary())),
    st.sampled_from([socket.AF_INET, socket.AF_INET6]),
)
def test_no_bytes_do_any_harm(ancillary: list[tuple[int, int, bytes]], family: int) -> None:
    assert is_closed(ancillary, family) in (True, False)


# -- sockets ---------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["ipv4", "ipv6"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    with closing(Way("unicast", request.param)) as made:
        yield made


def closed_addresses(way: Way, count: int) -> list[Address]:
    """Where somebody was. All are open at once, so that they differ."""
    gone = [Way("unicast", way.ipv6).join() for _ in range(count)]
    for one in gone:
        one.close()
    return [one.address for one in gone]


def has_something(member: Transport, wait_s: float = DEADLINE_S) -> bool:
    poll = select.poll()
    poll.register(member.filenos()[0], select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


def test_who_did_not_ask_is_told_nothing(way: Way) -> None:
    member = way.join()
    member.send(closed_addresses(way, 1)[0], [b"hello"])
    assert not has_something(member, 0.1)
    assert member.take_closed(member.filenos()[0]) == []


def test_each_address_is_named_once_and_nothing_is_left(way: Way) -> None:
    member = way.join()
    member.report_closed()
    closed = closed_addresses(way, 3)
    found: list[Address] = []
    for _ in range(3):
        for address in closed:
            member.send(address, [b"hello"])
    while sorted(found) != sorted(closed):
        assert has_something(member), "a report is missing"
        found += [one for one in member.take_closed(member.filenos()[0]) if one not in found]
    while has_something(member, 0.1):
        member.take_closed(member.filenos()[0])
    assert member.receive() == []
    assert member.counters["receive_errors"] == 0, "who reads the reports gets no errors"


def test_one_call_reads_so_many_reports_and_the_socket_stays_ready(way: Way) -> None:
    member = way.join()
    member.report_closed()
    (closed,) = closed_addresses(way, 1)
    calls = 0
    for _ in range(3 * REPORTS_MAX):
        member.send(closed, [b"hello"])
    assert has_something(member)
    while has_something(member, 0.1):
        assert member.take_closed(member.filenos()[0]) == [closed]
        calls += 1
    assert calls >= 3


def test_a_socket_goes_on_in_both_directions_among_any_refusals(way: Way) -> None:
    member, other = way.join(), way.join()
    member.report_closed()
    closed = closed_addresses(way, 2)
    for number in range(50):
        for address in closed:
            member.send(address, numbered(3))
        assert member.send(other.address, [b"%d" % number]) == 1
        assert payloads(collect(other, 1)) == [b"%d" % number]
        assert other.send(member.address, [b"and back"]) == 1
        assert payloads(collect(member, 1)) == [b"and back"]
    assert member.counters["send_errors"] == 0
    assert member.segmenting is other.segmenting


def test_only_the_ports_of_this_socket_are_looked_at(way: Way) -> None:
    member = way.join()
    assert member.take_closed(-1) == []
    fileno = member.filenos()[0]
    member.close()
    assert member.take_closed(fileno) == []


@pytest.mark.parametrize(
    "number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EMSGSIZE]
)
def test_an_error_of_an_earlier_datagram_costs_no_later_one(way: Way, number: int) -> None:
    """Whatever ICMP says, the kernel reports it once, instead of sending."""
    member, other = way.join(), way.join()
    batches = member.segmenting
    narrow(member, [number, 0, number])
    assert member.send(other.address, [b"alone"]) == 1
    assert member.send(other.address, numbered(10)) == 10
    assert payloads(collect(other, 11)) == [b"alone", *numbered(10)]
    assert member.segmenting is batches
    assert member.counters["send_errors"] == member.counters["send_too_large"] == 0
