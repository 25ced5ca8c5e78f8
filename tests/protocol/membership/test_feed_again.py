"""Streams of a feed that had ended for a reader, and begin again: nothing comes twice.

A process that was not heard of for too long is forgotten, and so is what was known of its stream.
If it was only cut off, the two sides find each other again, and the stream goes on, or begins anew.
"""

import heapq
from dataclasses import replace

import pytest
from tests.protocol.membership.network import MS, Network, Node, S
from tests.protocol.membership.test_feed import READS, SENDS

# As long as nobody is silent for so long that he is forgotten, and longer.
FORGOTTEN = 30 * S
SLOW = replace(READS, delivery_messages=8)


def pair(seed: int = 1) -> tuple[Network, Node, Node]:
    """A sender and its reader."""
    net = Network(seed)
    sender = net.add(0, SENDS)
    net.run(20 * MS)
    reader = net.add(1, READS)
    net.until(lambda: sender.member.inside and reader.member.inside)
    return net, sender, reader


def send(net: Network, sender: Node, keys: str) -> None:
    for key in keys:
        net.until(lambda key=key: net.multicast(sender, key=key))  # type: ignore[misc]
        net.run(MS)


def part(net: Network, one: Node, other: Node) -> None:
    """Cut two off from each other until they have forgotten each other."""
    net.split([one], [other])
    net.run(FORGOTTEN)
    assert not one.member.view.holds(other.me)
    assert not other.member.view.holds(one.me)


def meet(net: Network, sender: Node) -> None:
    net.cut.clear()
    net.until(lambda: sender.member.stats()["readers"] == 1, 15 * S)
    net.run(S)


def test_a_stream_that_goes_on_brings_nothing_again() -> None:
    net, sender, reader = pair()
    send(net, sender, "abcab")
    net.run(S)
    part(net, sender, reader)
    meet(net, sender)
    assert reader.got(sender.me) == [1, 2, 3, 4, 5]
    assert reader.member.transfer.begun == 0
    assert reader.member.take_gaps() == []
    send(net, sender, "ab")
    net.run(S)
    reader.check()
    assert reader.got(sender.me) == [1, 2, 3, 4, 5, 6, 7]
    assert sender.member.all_stable()


def test_of_a_stream_that_begins_anew_only_what_changed_comes_as_state() -> None:
    net, sender, reader = pair()
    send(net, sender, "abcab")
    net.run(S)
    net.split([sender], [reader])
    net.run(FORGOTTEN)
    send(net, sender, "bd")
    meet(net, sender)
    send(net, sender, "b")
    net.run(S)
    reader.check()
    assert reader.got(sender.me) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert reader.member.take_gaps() == [(sender.me, 6, 7)]
    assert reader.member.take_gaps() == [], "it is told once"
    assert sender.member.all_stable()


@pytest.mark.parametrize("meanwhile", ["", "bd"])
def test_what_waits_for_the_application_when_a_stream_ends_comes_once(meanwhile: str) -> None:
    net, sender, reader = pair()
    slow = net.add(2, SLOW)
    net.until(lambda: slow.member.inside)
    slow.takes = False
    send(net, sender, "abcdefghijk")
    net.run(S)
    net.split([sender], [slow])
    net.run(FORGOTTEN)
    send(net, sender, meanwhile)
    slow.takes = True
    slow.take()
    net.cut.clear()
    net.until(lambda: sender.member.stats()["readers"] == 2, 15 * S)
    net.run(S)
    last = sender.member.sent
    for node in (reader, slow):
        node.check()
        assert node.got(sender.me) == list(range(1, last + 1))
    assert sender.member.all_stable()


def test_what_was_taken_after_a_stream_ended_is_acknowledged_when_it_goes_on() -> None:
    """Otherwise a full window would wait for ever for what this reader has."""
    net, sender, _ = pair()
    slow = net.add(2, SLOW)
    net.until(lambda: slow.member.inside)
    slow.takes = False
    while net.multicast(sender):
        net.run(MS)
    net.split([sender], [slow])
    net.run(FORGOTTEN)
    # Another that takes nothing sees to it that nothing is forgotten.
    slow.takes = True
    slow.take()
    net.cut.clear()
    net.until(sender.member.all_stable, 15 * S)
    slow.check()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_sender_that_dies_before_its_state_has_come_holds_up_nobody_for_long(
    refuses: bool,
) -> None:
    net = Network()
    net.refuses = refuses
    one, other = net.add(0, SENDS), net.add(1, SENDS)
    net.run(100 * MS)
    send(net, one, "ab")
    send(net, other, "cd")
    reader = net.add(2, READS)
    net.until(lambda: len(reader.member.view.members) == 3)
    assert reader.member.transfer.pending
    net.crash(one)
    net.until(lambda: reader.got(other.me) == [1, 2], 60 * S)
    assert reader.member.stats()["state_incomplete"] == 1


def cut_off_before_its_state(net: Network, sender: Node) -> Node:
    """A reader whose stream has begun, and to which the state is still to come."""
    late = net.add(2, READS)
    net.until(lambda: late.told.joined == [(sender.me, 5)])
    assert late.member.transfer.pending
    net.cut.add((2, 0))
    net.heap = [one for one in net.heap if one[4] != late.me]
    heapq.heapify(net.heap)
    return late


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_that_begins_anew_before_its_state_has_come_lacks_nothing(seed: int) -> None:
    net, sender, reader = pair(seed=seed)
    send(net, sender, "abab")
    late = cut_off_before_its_state(net, sender)
    send(net, sender, "cdc")
    net.until(lambda: sender.member.stats()["readers"] == 1, 30 * S)
    net.cut.add((0, 2))
    send(net, sender, "adeef")
    net.run(S)
    assert sender.member.all_stable()
    net.cut.clear()
    send(net, sender, "g")
    net.until(lambda: sender.member.stats()["readers"] == 2, 15 * S)
    send(net, sender, "h")
    net.run(S)
    reader.check()
    assert len(late.told.joined) == 2
    got = late.got(sender.me)
    # In order, and nothing twice.
    assert got == sorted(set(got))
    # What stood at first, what came live, what changed while it was cut off, and the rest.
    assert {4, 6, 7, 8, 9, 11, 12, 13, 14} <= set(got)


def test_of_a_sender_that_is_silent_for_a_moment_the_state_comes_all_the_same() -> None:
    net, sender, _ = pair()
    net.refuses = True
    send(net, sender, "abab")
    late = cut_off_before_its_state(net, sender)
    net.cut.add((0, 2))
    for _ in range(2):
        late.member.refused(0, net.now)
    net.until(lambda: not late.member.view.holds(sender.me), S)
    assert late.got(sender.me) == []
    net.cut.clear()
    send(net, sender, "c")
    net.run(5 * S)
    assert late.got(sender.me) == [3, 4, 5]
    assert late.member.stats()["state_incomplete"] == 0
