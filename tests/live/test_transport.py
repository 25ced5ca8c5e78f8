"""What goes into a transport comes out at the others: the same for each of the four ways."""

import os
import random
import select
import socket

import pytest
from tests.live.material import (
    DEADLINE_S,
    Way,
    collect,
    new_group_id,
    payloads,
    quiet,
    wait_ready,
)

from semcast.live.sockets.offload import UDP_GRO
from semcast.live.sockets.transport import Transport

PAYLOAD_BYTES_MAX = {False: 65_507, True: 65_527}
HEADER_BYTES = {False: 28, True: 48}


def numbered(count: int, size: int = 100) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(count)]


def option(member_fd: int, level: int, name: int, value: int) -> None:
    """Set an option on a socket that a transport owns."""
    with socket.socket(fileno=os.dup(member_fd)) as sock:
        sock.setsockopt(level, name, value)


# -- arriving --------------------------------------------------------------------------------------


def test_what_is_sent_to_all_reaches_everybody_with_the_address_to_answer_to(way: Way) -> None:
    members = [way.join() for _ in range(3)]
    sent = numbered(5)
    assert members[0].send_all(sent) == 5
    for member in members:
        got = collect(member, 5)
        assert got == [(datagram, members[0].address) for datagram in sent]
        assert quiet(member)


def test_an_answer_reaches_only_the_one_it_is_for(way: Way) -> None:
    asking, answering, other = way.join(), way.join(), way.join()
    asking.send_all([b"question"])
    ((_, address),) = collect(answering, 1)
    collect(other, 1)
    collect(asking, 1)
    assert answering.send(address, [b"answer", b"more"]) == 2
    assert collect(asking, 2) == [(b"answer", answering.address), (b"more", answering.address)]
    assert quiet(other)


def take(member: Transport, calm: bool) -> list[bytes]:
    """What one call gives once there is something."""
    assert select.select(member.filenos(), [], [], DEADLINE_S)[0]
    return payloads(member.receive(calm=calm))


def test_in_a_calm_one_small_datagram_is_enough_and_the_rest_is_not_lost(way: Way) -> None:
    sender, receiver = way.join(), way.join()
    sender.segmenting = False
    sent = numbered(3)
    sender.send_all(sent)
    assert take(receiver, calm=True) == sent[:1]
    assert take(receiver, calm=True) == sent[1:2]
    assert take(receiver, calm=False) == sent[2:]


def test_after_a_large_datagram_it_is_not_calm(way: Way) -> None:
    """Unless the kernel puts off what was sent, the first call gives all that was."""
    sender, receiver = way.join(), way.join()
    sent = numbered(3, 20_000)
    for _ in range(20):
        sender.send_all(sent)
        first = take(receiver, calm=True)
        assert first + payloads(collect(receiver, len(sent) - len(first))) == sent
        if first == sent:
            return
    pytest.fail("what came behind a large datagram was always left")


def random_sizes(stream: random.Random, largest: int) -> list[int]:
    """Runs of equal sizes of any length, with odd ones between; about 200 KB in all."""
    sizes: list[int] = []
    while sum(sizes) < 200_000 and len(sizes) < 300:
        size = stream.choice([0, 1, 64, 999, 1352, stream.randint(1, largest), largest])
        sizes += [size] * stream.choice([1, 2, 3, 47, 48, 49, 64, 65])
    return sizes


@pytest.mark.parametrize("receiving_batches", [True, False])
def test_batches_arrive_exactly_as_single_datagrams_do(way: Way, receiving_batches: bool) -> None:
    """With GSO, without it, and with GRO off: the same datagrams, in the same order."""
    sender, receiver = way.join(), way.join()
    for fileno in receiver.filenos():
        if not receiving_batches:
            option(fileno, socket.IPPROTO_UDP, UDP_GRO, 0)
    stream = random.Random(f"1/batches/{way.version}")
    for _ in range(4):
        sizes = random_sizes(stream, 20_000)
        sent = [stream.randbytes(size) for size in sizes]
        for segmenting in (sender.segmenting, False):
            sender.segmenting = segmenting
            at = 0
            while at < len(sent):  # a little at a time, so that no receive buffer overflows
                taken = sender.send_all(sent[at : at + 100])
                assert payloads(collect(receiver, taken)) == sent[at : at + taken]
                collect(sender, taken)
                at += taken


def test_batches_save_system_calls(way: Way) -> None:
    sender = way.join()
    if not sender.segmenting:
        pytest.skip("this kernel has no GSO")
    sender.send_all(numbered(48, 1352))
    assert sender.counters["send_calls"] == 1
    collect(sender, 48)
    assert sender.counters["receive_calls"] == 1


def test_counters_add_up(way: Way) -> None:
    sender, receiver = way.join(), way.join()
    sent = [*numbered(7), b"odd", b""]
    sender.send_all(sent)
    collect(receiver, 9)
    copies = 1 if sender.multicast else 2
    assert sender.counters["datagrams_out"] == 9 * copies
    assert sender.counters["bytes_out"] == 703 * copies
    assert receiver.counters["datagrams_in"] == 9
    assert receiver.counters["bytes_in"] == 703
    assert receiver.counters["receive_errors"] == sender.counters["send_errors"] == 0


def test_receiving_takes_no_more_than_asked_for_and_leaves_the_rest(way: Way) -> None:
    member = way.join()
    member.segmenting = False
    member.send_all(numbered(10))
    batches: list[list[bytes]] = []
    while sum(map(len, batches)) < 10:
        select.select(member.filenos(), [], [], DEADLINE_S)
        batches.append(payloads(member.receive(4)))
        assert 1 <= len(batches[-1]) <= 4
    assert [one for batch in batches for one in batch] == numbered(10)
    assert member.receive(4) == []


def test_sources_remembered_are_bounded(way: Way) -> None:
    """Forged sources cost no memory, and the names stay right."""
    members = [way.join() for _ in range(5)]
    members[0].book_max = 2
    for member in members:
        member.send(members[0].address, [b"hello"])
        members[0].send(member.address, [b"hello"])
    assert {address for _, address in collect(members[0], 6)} == {one.address for one in members}
    assert len(members[0]._sources) <= 2
    assert len(members[0]._targets) <= 2


# -- groups ----------------------------------------------------------------------------------------


def test_two_groups_on_one_port_do_not_mix(multicast: Way) -> None:
    port = 20_000 + new_group_id() % 20_000
    other = Way("multicast", multicast.ipv6)
    try:
        here, there = multicast.join(port=port), other.join(port=port)
        here.send_all([b"for here"])
        there.send_all([b"for there"])
        assert payloads(collect(here, 1)) == [b"for here"]
        assert payloads(collect(there, 1)) == [b"for there"]
        assert quiet(here)
        assert quiet(there)
    finally:
        other.close()


@pytest.mark.parametrize("flood", ["multicast", "unicast"])
def test_a_flood_on_one_socket_does_not_starve_the_other(multicast: Way, flood: str) -> None:
    """Messages come by multicast, acknowledgements and requests for repair by unicast."""
    flooding, flooded = multicast.join(), multicast.join()
    flooding.segmenting = False
    if flood == "multicast":
        flooding.send_all(numbered(300))
        flooding.send(flooded.address, [b"other"])
    else:
        flooding.send(flooded.address, numbered(300))
        flooding.send_all([b"other"])
    wait_ready(flooded)
    assert b"other" in payloads(flooded.receive(64) + flooded.receive(64))


# -- refusals --------------------------------------------------------------------------------------


def wait_refused(member: Transport) -> None:
    """Until the kernel has something to report on the socket that sends."""
    poll = select.poll()
    poll.register(member.filenos()[0], 0)
    assert poll.poll(DEADLINE_S * 1000), "no refusal came"


def closed_address(way: Way) -> tuple[str, int]:
    gone = Way("unicast", way.ipv6).join()
    address = gone.address
    gone.close()
    return address


def test_a_closed_peer_raises_nothing(way: Way) -> None:
    """Its machine answers with ICMP, which the kernel is asked here to report on our socket."""
    member, other = way.join(), way.join()
    member.report_closed()
    closed = closed_address(way)
    assert member.send(closed, [b"hello"]) == 1
    wait_refused(member)
    assert member.receive() == []
    assert member.receive() == []
    assert member.counters["receive_errors"] == 1
    assert member.take_closed(member.filenos()[0]) == [closed]
    # The refusal that waits on the socket is reported by the next send: it must not eat it.
    assert member.send(closed, [b"hello"]) == 1
    wait_refused(member)
    assert member.send(other.address, [b"still there"]) == 1
    assert payloads(collect(other, 1)) == [b"still there"]
    assert member.counters["send_errors"] == 0


def test_a_batch_after_a_refusal_is_not_lost(way: Way) -> None:
    member, other = way.join(), way.join()
    member.report_closed()
    member.send(closed_address(way), [b"hello"])
    assert member.send(other.address, numbered(20)) == 20
    assert payloads(collect(other, 20)) == numbered(20)
    assert member.counters["datagrams_out"] == 21


def test_the_largest_datagram_arrives_and_a_larger_one_is_counted(way: Way) -> None:
    sender, receiver = way.join(), way.join()
    ours = b"x" * (sender.path_mtu_bytes - HEADER_BYTES[way.ipv6])
    too_large = b"y" * (PAYLOAD_BYTES_MAX[way.ipv6] + 1)
    assert sender.send(receiver.address, [ours, too_large, b"next"]) == 3
    assert payloads(collect(receiver, 2)) == [ours, b"next"]
    assert sender.counters["send_too_large"] == 1
    assert sender.counters["send_errors"] == 1


def test_datagrams_beyond_a_configured_path_mtu_still_go_one_by_one(way: Way) -> None:
    """The setting is for what we build; a larger one is the kernel's to judge."""
    sender, receiver = way.join(path_mtu_bytes=1400), way.join()
    assert sender.path_mtu_bytes == 1400
    sent = numbered(3, 1400 - HEADER_BYTES[way.ipv6]) + numbered(3, 1400)
    assert sender.send(receiver.address, sent) == 6
    assert payloads(collect(receiver, 6)) == sent
    if sender.segmenting:
        assert sender.counters["send_calls"] == 4


@pytest.mark.parametrize(
    "nobody",
    [("localhost", 9), ("", 9), ("127.0.0.1", -1), ("::1", 65_536), ("fe80::1%nowhere", 9)],
)
def test_an_address_that_is_none_is_counted_and_looks_nothing_up(
    way: Way, nobody: tuple[str, int]
) -> None:
    member = way.join()
    assert member.send(nobody, [b"a", b"b"]) == 2
    assert member.counters["send_errors"] == 2
    assert member.counters["send_calls"] == 0


def test_a_closed_transport_is_silent(way: Way) -> None:
    member = way.join()
    member.close()
    member.close()
    assert member.receive() == []
    assert member.send_all([b"a"]) == 1
    assert member.counters["datagrams_out"] == 0
