"""Feeds: each sender keeps its own readers, who come and go at any moment."""

import random
from dataclasses import replace

import pytest
from tests.protocol.membership.network import MS, Network, Node, S

from semcast.errors import LocalProtocolError
from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.wire.encode import FrameWriter
from semcast.wire.message import Message

SENDS = MemberConfig(reliability="sender", deliver_own=False, window_messages=64)
READS = MemberConfig(reliability="sender", deliver_own=False, window_messages=64, role="reader")
SLOW = replace(READS, delivery_messages=8)
# A dead reader is forgotten after three seconds; it is looked for twice a second.
BOUND = 4 * S


def feed(readers: int, seed: int = 1, loss: float = 0.0) -> tuple[Network, Node, list[Node]]:
    net = Network(seed, loss)
    sender = net.add(0, SENDS)
    net.run(20 * MS)
    found = [net.add(1 + at, READS) for at in range(readers)]
    net.until(lambda: all(node.member.inside for node in [sender, *found]))
    return net, sender, found


def stream(net: Network, sender: Node, messages: int, pause_ns: int = MS) -> None:
    """Send so many messages, each as soon as there is room."""
    for _ in range(messages):
        net.until(lambda: net.multicast(sender), 60 * S)
        net.run(pause_ns)


def caught_up(sender: Node, nodes: list[Node]) -> bool:
    last = sender.member.sent
    return all(node.got(sender.me)[-1:] == [last] for node in nodes)


def test_a_reader_is_in_after_a_round_trip_and_gets_all_from_there_on() -> None:
    net, sender, _ = feed(0)
    stream(net, sender, 10)
    reader = net.add(1, READS)
    net.run(3 * MS)
    assert sender.member.stats()["readers"] == 1
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [reader]))
    assert reader.told.joined == [(sender.me, 11)]
    assert reader.got(sender.me) == list(range(11, 21))
    assert net.until(lambda: reader.member.inside) < 300 * MS


def test_a_sender_that_died_just_now_keeps_nobody_out() -> None:
    net, sender, _ = feed(0)
    reader = net.add(1, READS)
    reader.member.met(Source(9, 1), net.now)
    net.send(reader)
    net.run(S)
    assert not reader.member.inside, "it may be that the sender is only slow"
    net.until(lambda: reader.member.inside, BOUND)
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [reader]))
    assert reader.got(sender.me) == list(range(1, 11))


def test_without_readers_nothing_is_kept() -> None:
    net, sender, _ = feed(0)
    stream(net, sender, 1_000)
    assert sender.member.stats()["retained_held"] == 0
    assert sender.member.all_stable()


@pytest.mark.parametrize("seed", range(8))
def test_streams_are_complete_with_loss(seed: int) -> None:
    net, sender, readers = feed(5, seed, loss=0.1)
    stream(net, sender, 300)
    net.until(lambda: caught_up(sender, readers))
    for reader in readers:
        reader.check()
        assert reader.got(sender.me) == list(range(1, 301))
    net.until(sender.member.all_stable)


def test_the_loss_of_the_last_message_is_noticed() -> None:
    net, sender, (reader,) = feed(1)
    net.loss = 1.0
    assert net.multicast(sender)
    net.run(5 * MS)
    net.loss = 0.0
    net.until(lambda: caught_up(sender, [reader]), 500 * MS)


def test_a_lost_acknowledgement_is_asked_for() -> None:
    net, sender, (reader,) = feed(1)
    assert net.multicast(sender)
    net.until(lambda: caught_up(sender, [reader]))
    net.loss = 1.0
    net.run(100 * MS)
    net.loss = 0.0
    net.until(sender.member.all_stable, 500 * MS)


def test_a_full_window_waits_for_the_slowest_reader_and_goes_on() -> None:
    net, sender, (one, other) = feed(2)
    late = net.add(9, SLOW)
    net.until(lambda: late.member.inside)
    late.takes = False
    while net.multicast(sender):
        net.run(MS)
    # It answers, so it is slow and not dead: nobody forgets it.
    net.run(10 * S)
    assert not net.multicast(sender)
    late.takes = True
    late.take()
    net.until(lambda: net.multicast(sender), 2 * S)
    for node in (one, other, late):
        node.check()


def test_a_dead_reader_blocks_for_no_longer_than_the_bound() -> None:
    net, sender, (one, other) = feed(2)
    stream(net, sender, 10)
    net.crash(other)
    while net.multicast(sender):
        net.run(MS)
    waited = net.until(lambda: net.multicast(sender), 10 * S)
    assert waited < BOUND
    stream(net, sender, 100)
    net.until(lambda: caught_up(sender, [one]))
    one.check()
    assert sender.member.stats()["readers"] == 1
    assert len(sender.member.view.members) == 2


def test_a_dead_reader_of_a_feed_at_rest_is_forgotten_too() -> None:
    net, sender, (_, other) = feed(2)
    net.crash(other)
    net.until(lambda: sender.member.stats()["readers"] == 1, 40 * S)


def test_readers_at_rest_are_not_forgotten() -> None:
    net, sender, readers = feed(3)
    net.run(120 * S)
    assert sender.member.stats()["readers"] == 3
    stream(net, sender, 5)
    net.until(lambda: caught_up(sender, readers))
    for reader in readers:
        assert reader.got(sender.me) == list(range(1, 6))


def test_a_reader_that_leaves_is_waited_for_no_longer() -> None:
    net, sender, (one, other) = feed(2)
    stream(net, sender, 10)
    net.leave(other)
    net.run(5 * MS)
    assert sender.member.stats()["readers"] == 1
    stream(net, sender, 200)
    net.until(lambda: caught_up(sender, [one]))


def test_a_sender_leaves_when_its_readers_have_everything() -> None:
    net, sender, (reader,) = feed(1)
    net.loss = 1.0
    assert net.multicast(sender)
    net.run(5 * MS)
    net.loss = 0.0
    sender.member.begin_leaving(net.now)
    assert not sender.member.may_leave([], net.now)
    net.leave(sender)
    assert reader.got(sender.me) == [1]
    net.run(5 * MS)
    assert list(reader.member.view.members) == [1]
    assert reader.member.stats()["sources_held"] == 0


def test_a_sender_leaves_though_its_reader_is_dead() -> None:
    net, sender, (reader,) = feed(1)
    net.crash(reader)
    assert net.multicast(sender)
    net.leave(sender, 10 * S)


def test_a_reader_sends_nothing() -> None:
    net, _, (reader,) = feed(1)
    with pytest.raises(LocalProtocolError, match="a reader sends nothing"):
        reader.member.multicast(b"m", None, net.now)
    assert reader.member.can_multicast()


def test_members_of_a_feed_read_each_other() -> None:
    net = Network(3, loss=0.05)
    nodes = [net.add(at, SENDS) for at in range(5)]
    net.until(lambda: all(node.member.inside for node in nodes))
    assert all(len(node.member.view.members) == 5 for node in nodes)
    for _ in range(50):
        for node in nodes:
            net.until(lambda node=node: net.multicast(node))  # type: ignore[misc]
        net.run(MS)
    for node in nodes:
        net.until(lambda node=node: caught_up(node, [o for o in nodes if o is not node]))  # type: ignore[misc]
        for other in nodes:
            other.check()
            if other is not node:
                assert other.got(node.me) == list(range(1, 51))


# Lives


def test_a_reader_in_a_later_life_begins_anew_at_once() -> None:
    net, sender, (reader,) = feed(1)
    stream(net, sender, 10)
    net.crash(reader)
    stream(net, sender, 5)
    again = net.add(1, READS, life=2)
    net.run(5 * MS)
    assert sender.member.view.holds(again.me)
    assert sender.member.stats()["readers"] == 1
    stream(net, sender, 200)
    net.until(lambda: caught_up(sender, [again]))
    again.check()


def test_a_sender_in_a_later_life_is_read_again() -> None:
    net, sender, (reader,) = feed(1)
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [reader]))
    net.crash(sender)
    again = net.add(0, SENDS, life=2)
    net.until(lambda: again.member.inside and again.member.stats()["readers"] == 1)
    stream(net, again, 10)
    net.until(lambda: caught_up(again, [reader]))
    reader.check()
    assert reader.got(again.me) == list(range(1, 11))
    assert reader.member.stats()["sources_held"] == 1


def test_what_a_former_life_acknowledges_does_not_count() -> None:
    net, sender, (reader,) = feed(1)
    net.crash(reader)
    again = net.add(1, READS, life=2)
    net.until(lambda: again.member.inside)
    net.split([sender], [again])
    assert net.multicast(sender)
    # The frames of the former life's acknowledgement, which come late.
    old = reader.member
    old.receive(sender_frames(sender), sender.me, net.now)
    old.on_timer(net.now + 100 * MS)
    for outgoing in old.datagrams(net.now + 100 * MS):
        sender.member.receive(outgoing.frames, reader.me, net.now)
    net.run(100 * MS)
    assert not sender.member.all_stable()


def sender_frames(sender: Node) -> bytes:
    """The datagram of its last message once more."""
    writer = FrameWriter(sender.me, 1_000)
    assert writer.add_message(Message(sender.me, sender.member.sent, b"m"))
    return writer.take()


# Stops and splits


def test_a_reader_that_was_stopped_goes_on_where_it_was_if_all_is_still_there() -> None:
    net, sender, (other,) = feed(1)
    slow = net.add(9, SLOW)
    net.until(lambda: slow.member.inside)
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [slow, other]) and sender.member.all_stable())
    # The slow one holds the feed back, so that what the other has not got is kept.
    slow.takes = False
    stream(net, sender, 20)
    net.until(lambda: caught_up(sender, [other]))
    net.run(100 * MS)
    net.stop(other)
    while net.multicast(sender):
        net.run(MS)
    net.run(6 * S)
    assert sender.member.stats()["readers"] == 1
    other.queued.clear()
    net.resume(other)
    net.until(lambda: caught_up(sender, [other]), 10 * S)
    slow.takes = True
    slow.take()
    net.until(lambda: net.multicast(sender))
    net.until(lambda: caught_up(sender, [slow, other]))
    other.check()
    assert other.told.joined == [(sender.me, 1)]
    assert other.got(sender.me) == list(range(1, sender.member.sent + 1))
    assert sender.member.stats()["readers"] == 2


def test_a_reader_that_was_stopped_for_too_long_begins_anew_and_is_told() -> None:
    net, sender, (one, other) = feed(2)
    # It has just looked for senders, and will not do so again soon.
    net.run(10_500 * MS)
    stream(net, sender, 10)
    net.stop(other)
    stream(net, sender, 300)
    net.run(S)
    stream(net, sender, 10)
    other.queued.clear()
    net.resume(other)
    # It is told as soon as it speaks, and need not wait until it looks for senders.
    net.until(lambda: sender.member.stats()["readers"] == 2, S)
    stream(net, sender, 50)
    net.until(lambda: caught_up(sender, [one, other]))
    other.check()
    assert len(other.told.joined) == 2
    began = other.told.joined[1][1]
    assert began > 300
    assert other.got(sender.me)[-5:] == list(range(sender.member.sent - 4, sender.member.sent + 1))


def test_a_sender_that_was_stopped_forgets_nobody_for_that() -> None:
    net, sender, readers = feed(2)
    stream(net, sender, 9)
    net.loss = 1.0
    assert net.multicast(sender)
    net.run(300 * MS)
    net.loss = 0.0
    net.stop(sender)
    net.run(10 * S)
    # Its timers are first, and what was said to it meanwhile is lost.
    sender.queued.clear()
    net.resume(sender)
    stream(net, sender, 100)
    net.until(lambda: caught_up(sender, readers))
    for reader in readers:
        assert reader.got(sender.me) == list(range(1, 111))
        assert len(reader.told.joined) == 1


@pytest.mark.parametrize("one_way", [False, True])
def test_two_sides_of_a_split_find_each_other_again(one_way: bool) -> None:
    net, sender, (reader,) = feed(1)
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [reader]))
    net.split([sender], [reader])
    if one_way:
        net.cut.discard((1, 0))
    net.run(30 * S)
    assert list(reader.member.view.members) == [1]
    net.cut.clear()
    net.until(lambda: sender.member.stats()["readers"] == 1, 15 * S)
    stream(net, sender, 10)
    net.until(lambda: caught_up(sender, [reader]))
    reader.check()
    assert reader.got(sender.me) == list(range(1, 21))


# Many


def test_a_hundred_readers_come_and_go_while_a_sender_sends() -> None:
    net, sender, (steady,) = feed(1, loss=0.01)
    draw = random.Random("come and go")
    nodes: list[Node] = []
    for at in range(100):
        nodes.append(net.add(100 + at, READS))
        stream(net, sender, 5)
        gone = nodes.pop(draw.randrange(len(nodes))) if len(nodes) > 10 else None
        if gone is not None:
            gone.check()
            net.leave(gone)
    net.until(lambda: caught_up(sender, [steady, *nodes]))
    steady.check()
    for node in nodes:
        node.check()
    assert steady.got(sender.me) == list(range(1, sender.member.sent + 1))


def test_nothing_grows_when_a_thousand_readers_come_and_go() -> None:
    net, sender, (steady,) = feed(1)
    for at in range(1_000):
        node = net.add(10 + at, READS)
        net.run(3 * MS)
        net.multicast(sender)
        if at % 10 == 0:
            net.crash(node)
        else:
            net.leave(node)
    net.run(25 * S)
    stats = sender.member.stats()
    assert stats["readers"] == 1
    assert len(sender.member.view.members) == 2
    member = sender.member
    assert len(member._decoder.sources) <= 3
    assert len(member._asking._peers) == 1
    assert len(member._detection.audience._past) <= 512  # type: ignore[attr-defined]
    net.until(lambda: caught_up(sender, [steady]))


def test_a_late_subscription_brings_nobody_back() -> None:
    net, sender, (_,) = feed(1)
    before = len(net.heap)
    reader = net.add(5, READS)
    subscriptions = [entry for entry in net.heap if entry[4] == reader.me][:1] or net.heap[before:]
    net.until(lambda: reader.member.inside)
    net.leave(reader)
    net.run(5 * MS)
    assert sender.member.stats()["readers"] == 1
    for _, _, to, frames, source in subscriptions:
        if to == 0:
            sender.member.receive(frames, source, net.now)
    net.run(5 * MS)
    assert sender.member.stats()["readers"] == 1
    assert not sender.member.view.holds(Source(5, 1))
