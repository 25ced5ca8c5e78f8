"""Full buffers, kernels without GSO, peers that refuse: nobody loses or gets a datagram twice."""

import errno
import random
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.material import FULL, Way, collect, narrow, payloads, quiet
from tests.live.namespace import own_loopback

from semcast.live.sockets.address import Address, socket_address
from semcast.live.sockets.datagrams import Target, Transport
from semcast.live.sockets.multicast import MulticastTransport
from semcast.live.sockets.offload import (
    BATCH_BYTES_MAX,
    SEGMENTS_MAX,
    SOL_UDP,
    UDP_GRO,
    run_length,
    split,
)
from semcast.live.sockets.opening import Sockets
from semcast.live.sockets.transport import TransportSettings, open_transport

HERE: Address = ("127.0.0.1", 9)


def way_to_all(member: Transport) -> Target:
    """The socket that its multicasts go through, and where to, as last used."""
    assert isinstance(member, MulticastTransport)
    return member._targets[member.group]


def numbered(count: int, size: int = 100) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(count)]


# -- full ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", FULL)
def test_a_full_buffer_means_fewer_taken_and_the_rest_can_go_later(way: Way, number: int) -> None:
    member = way.join()
    sent = [*numbered(3, 100), *numbered(3, 200), *numbered(3, 300)]
    # With GSO the second run finds no room, without it the second datagram.
    narrow(member, [0, number])
    taken = member.send(member.address, sent)
    assert taken == (3 if member.segmenting else 1)
    assert member.counters["send_full"] == 1
    assert member.counters["send_errors"] == 0
    assert member.send(member.address, sent[taken:]) == 9 - taken
    assert payloads(collect(member, 9)) == sent


def test_a_real_queue_that_fills_up_is_reported_and_drains() -> None:
    """Loopback slowed down to 8 Mbit/s, in a network of its own; the socket holds 64 KB."""
    slow = "tc qdisc add dev lo root tbf rate 8mbit burst 70kb limit 8mb"
    with own_loopback(slow):
        member = open_transport(
            TransportSettings(transport="unicast", host="127.0.0.1", send_buffer_bytes=65_536)
        )
        try:
            sent = numbered(500, 1_000)
            at = member.send(member.address, sent)
            assert 0 < at < 500
            assert member.counters["send_full"] == 1
            got: list[bytes] = []
            while len(got) < 500:
                got += payloads(collect(member, 1))
                at += member.send(member.address, sent[at:])
            assert got == sent
            assert member.counters["send_errors"] == 0
        finally:
            member.close()


# -- connected -------------------------------------------------------------------------------------


def test_what_is_for_all_goes_through_a_socket_that_need_not_look_the_way_up(
    multicast: Way,
) -> None:
    sender, receiver = multicast.join(), multicast.join()
    assert sender.send_all([b"looked up once"]) == 1
    sock, address = way_to_all(sender)
    assert address is None
    assert sock is not sender._sending
    assert collect(receiver, 1) == [(b"looked up once", sender.address)]
    # What is for this member alone still comes to where it reads.
    assert receiver.send(sender.address, [b"answer"]) == 1
    assert (b"answer", receiver.address) in collect(sender, 2)


def test_when_the_way_is_gone_it_is_looked_up_again(multicast: Way) -> None:
    sender, receiver = multicast.join(), multicast.join()
    narrow(sender, [errno.ENETUNREACH] * 2)
    assert sender.send_all([b"lost"]) == 1
    assert sender.counters["send_errors"] == 1
    assert sender.send_all([b"as before"]) == 1
    assert collect(receiver, 1) == [(b"as before", sender.address)]
    assert way_to_all(sender)[1] is not None


def test_what_is_too_large_says_nothing_about_the_way(multicast: Way) -> None:
    sender, receiver = multicast.join(), multicast.join()
    assert sender.send_all([bytes(70_000), b"fits"]) == 2
    assert sender.counters["send_too_large"] == sender.counters["send_errors"] == 1
    assert payloads(collect(receiver, 1)) == [b"fits"]
    assert way_to_all(sender)[1] is None


def test_nobody_else_can_have_a_members_address(multicast: Way) -> None:
    """Two sockets of the member share it; a third could take what is meant for them."""
    member = multicast.join()
    family = socket.AF_INET6 if multicast.ipv6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(socket_address(member.address, family))


def test_where_no_second_socket_can_be_had_one_does_it_all(
    multicast: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sockets, "twin", lambda *_: None)
    sender, receiver = multicast.join(), multicast.join()
    assert sender.send_all([b"a", b"b"]) == 2
    assert collect(receiver, 2) == [(b"a", sender.address), (b"b", sender.address)]


# -- fan-out ---------------------------------------------------------------------------------------


def test_fan_out_under_stalls_gives_each_peer_everything_once(unicast: Way) -> None:
    """The caller comes back with the rest, again and again; some peers were served already."""
    sender = unicast.join()
    receivers = [unicast.join() for _ in range(3)]
    sender.peers = [one.address for one in receivers]
    stream = random.Random(f"1/stalls/{unicast.version}")
    narrow(sender, [stream.choice([0, 0, errno.EAGAIN]) for _ in range(200)])
    queue = sent = [stream.randbytes(stream.choice([10, 10, 10, 20])) for _ in range(60)]
    while queue:
        queue = queue[sender.send_all(queue) :]
    for receiver in receivers:
        assert payloads(collect(receiver, 60)) == sent
        assert quiet(receiver)


def test_after_a_stall_other_datagrams_go_to_everybody(unicast: Way) -> None:
    """What stalled may be purged meanwhile; what comes in its place is nobody's leftover."""
    sender, first, second = unicast.join(), unicast.join(), unicast.join()
    sender.peers = [first.address, second.address]
    narrow(sender, [0, errno.EAGAIN])
    assert sender.send_all([b"old"]) == 0
    assert sender.send_all([b"new"]) == 1
    assert payloads(collect(first, 2)) == [b"old", b"new"]
    assert payloads(collect(second, 1)) == [b"new"]
    assert quiet(second)


def test_a_stalled_run_goes_no_more_to_a_peer_that_left(unicast: Way) -> None:
    sender, first, second = unicast.join(), unicast.join(), unicast.join()
    sender.peers = [first.address, second.address]
    narrow(sender, [0, errno.EAGAIN])
    sent = [b"datagram"]
    assert sender.send_all(sent) == 0
    sender.peers = [first.address]
    assert sender.send_all(sent) == 1
    assert payloads(collect(first, 1)) == sent
    assert quiet(first)
    assert quiet(second)


def test_a_peer_that_refuses_does_not_stop_the_others(unicast: Way) -> None:
    sender, receiver = unicast.join(), unicast.join()
    other_family = "127.0.0.1" if unicast.ipv6 else "::1"
    sender.peers = [(other_family, 9), ("no address", 9), receiver.address]
    assert sender.send_all([b"a", b"b"]) == 2
    assert payloads(collect(receiver, 2)) == [b"a", b"b"]
    assert sender.counters["send_errors"] == 4


def test_without_peers_everything_is_taken(unicast: Way) -> None:
    sender = unicast.join()
    sender.peers = []
    assert sender.send_all([b"a", b"b"]) == 2
    assert sender.counters["send_calls"] == 0


# -- offload ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL, errno.ENOPROTOOPT])
def test_a_kernel_that_refuses_batches_is_not_asked_again(way: Way, number: int) -> None:
    member = way.join()
    if not member.segmenting:
        pytest.skip("this kernel has no GSO")
    narrow(member, [number] * 2)
    assert member.send(member.address, numbered(10)) == 10
    assert member.send(member.address, numbered(10)) == 10
    assert payloads(collect(member, 20)) == numbered(10) * 2
    assert member.counters["send_calls"] == 22
    assert member.counters["send_errors"] == 0
    assert member.segmenting is False


def test_any_other_error_of_a_batch_is_tried_one_by_one(way: Way) -> None:
    member = way.join()
    if not member.segmenting:
        pytest.skip("this kernel has no GSO")
    # The batch, then the second datagram: only that one is lost.
    narrow(member, [errno.EMSGSIZE] * 2 + [0] + [errno.EMSGSIZE] * 2)
    assert member.send(member.address, numbered(4)) == 4
    assert payloads(collect(member, 3)) == [numbered(4)[at] for at in (0, 2, 3)]
    assert member.segmenting is True
    assert member.counters["send_too_large"] == member.counters["send_errors"] == 1


RUN = st.tuples(
    st.sampled_from([0, 1, 2, 1352, 1400, 30_000, 70_000]), st.sampled_from([1, 2, 47, 63, 64, 65])
)
SIZES = st.lists(RUN, min_size=1, max_size=5).map(
    lambda runs: [size for size, count in runs for _ in range(count)]
)


@given(sizes=SIZES, largest=st.sampled_from([1, 1352, 65_507]))
def test_runs_are_what_the_kernel_can_cut_up_and_cover_everything(
    sizes: list[int], largest: int
) -> None:
    datagrams = [bytes(size) for size in sizes]
    at = 0
    while at < len(datagrams):
        length = run_length(datagrams, at, largest)
        run = sizes[at : at + length]
        assert len(run) == length >= 1
        if length > 1:
            assert length <= SEGMENTS_MAX
            assert sum(run) <= BATCH_BYTES_MAX
            assert set(run[:-1]) == {run[0]}
            assert 0 < run[-1] <= run[0] <= largest
        at += length


@given(sizes=SIZES)
def test_equal_datagrams_are_not_left_out_of_a_run(sizes: list[int]) -> None:
    """As many as 64 segments and 64 KB allow, or up to the first of another size."""
    datagrams = [bytes(size) for size in sizes]
    length = run_length(datagrams, 0, BATCH_BYTES_MAX)
    size = sizes[0]
    if not 0 < size <= BATCH_BYTES_MAX or length == len(sizes):
        return
    assert (
        length == SEGMENTS_MAX
        or size * (length + 1) > BATCH_BYTES_MAX
        or sizes[length] > size
        or sizes[length] == 0
        or sizes[length - 1] < size
    )


@given(data=st.binary(max_size=200), step=st.integers(-5, 250))
def test_splitting_keeps_every_byte_whatever_the_kernel_says(data: bytes, step: int) -> None:
    value = step.to_bytes(4, sys.byteorder, signed=True)
    parts = split(data, [(SOL_UDP, UDP_GRO, value)], HERE)
    assert b"".join(part for part, _ in parts) == data
    assert all(source == HERE for _, source in parts)
    if 0 < step < len(data):
        assert {len(part) for part, _ in parts[:-1]} == {step}
    else:
        assert len(parts) == 1


@given(ancillary=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), st.binary())))
def test_what_else_the_kernel_says_of_a_datagram_changes_nothing(
    ancillary: list[tuple[int, int, bytes]],
) -> None:
    others = [one for one in ancillary if one[:2] != (SOL_UDP, UDP_GRO)]
    assert split(b"datagram", [*others, (SOL_UDP, UDP_GRO, b"")], HERE) == [(b"datagram", HERE)]
