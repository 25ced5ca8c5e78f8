"""The member by itself: what it says to the network and to its application, without a world."""

import random

import pytest

from semcast.errors import ConfigError, RemoteProtocolError, WindowFullError
from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.repair import Covered, Nak
from semcast.wire.families.votes import Progress, Vector

MS = 1_000_000
MEMBERS = [1, 2, 3]


def make(sender: int, config: MemberConfig | None = None, incarnation: int = 1) -> Member:
    stream = random.Random(f"member/{sender}")
    config = config or MemberConfig()
    view = View.first(MEMBERS, config.f)
    if incarnation > 1:
        view = view.with_life(sender, incarnation)
    return Member(config, Source(sender, incarnation), view, stream)


def naks_of(member: Member, now_ns: int) -> list[Nak]:
    found = []
    for outgoing in member.datagrams(now_ns):
        for frame in Decoder().decode(outgoing.frames, member.me).control:
            if isinstance(frame, Nak):
                assert outgoing.to == EVERYBODY
                found.append(frame)
    return found


def sent(member: Member, now_ns: int) -> list[bytes]:
    return [outgoing.frames for outgoing in member.datagrams(now_ns) if outgoing.to == EVERYBODY]


def one_by_one(sender: Member, count: int) -> list[bytes]:
    """The frames of so many messages, a datagram each."""
    frames = []
    for at in range(count):
        sender.multicast(b"m%d" % at, None, 0)
        frames += sent(sender, 0)
    return frames


def test_a_message_in_order_is_delivered_at_once_and_to_the_sender_too() -> None:
    sender, receiver = make(1), make(2)
    for frames in one_by_one(sender, 3):
        receiver.receive(frames, sender.me, 0)
    assert [message.payload for message in receiver.take(10, 0)] == [b"m0", b"m1", b"m2"]
    assert [message.payload for message in sender.take(10, 0)] == [b"m0", b"m1", b"m2"]


def test_a_gap_is_asked_for_and_the_order_kept() -> None:
    sender, receiver = make(1), make(2)
    first, second, third = one_by_one(sender, 3)
    receiver.receive(first, sender.me, 0)
    receiver.receive(third, sender.me, 0)
    assert [message.seq for message in receiver.take(10, 0)] == [1]
    receiver.on_timer(2 * MS)
    (nak,) = naks_of(receiver, 2 * MS)
    assert (nak.source, nak.target, nak.ranges) == (sender.me, 1, [(2, 2)])
    receiver.receive(second, sender.me, 3 * MS)
    assert [message.seq for message in receiver.take(10, 3 * MS)] == [2, 3]


def test_a_message_that_comes_twice_is_delivered_once() -> None:
    sender, receiver = make(1), make(2)
    for frames in one_by_one(sender, 2) * 2:
        receiver.receive(frames, sender.me, 0)
    assert [message.seq for message in receiver.take(10, 0)] == [1, 2]


def test_only_the_named_member_answers_and_only_once_for_one_loss() -> None:
    """No duplicate retransmissions. SRM §5.3"""
    sender, receiver, other = make(1), make(2), make(3)
    first, second = one_by_one(sender, 2)
    other.receive(first, sender.me, 0)
    receiver.receive(second, sender.me, 0)
    receiver.on_timer(2 * MS)
    (request,) = sent(receiver, 2 * MS)
    for _ in range(2):
        sender.receive(request, receiver.me, 2 * MS)
    other.receive(request, receiver.me, 2 * MS)
    assert len(sent(sender, 2 * MS)) == 1
    assert sent(other, 2 * MS) == []


def test_a_purged_message_is_answered_with_its_cover() -> None:
    """Purged is answered, not chased. SRM §5.3"""
    config = MemberConfig(f=0)
    sender, receiver = make(1, config), make(2, config)
    sender.multicast(b"old", "key", 0)
    sent(sender, 0)
    sender.multicast(b"new", "key", 0)
    (second,) = sent(sender, 0)
    receiver.receive(second, sender.me, 0)
    receiver.on_timer(2 * MS)
    (request,) = sent(receiver, 2 * MS)
    sender.receive(request, receiver.me, 2 * MS)
    (answer,) = sender.datagrams(2 * MS)
    assert answer.to == 2
    (covered,) = Decoder().decode(answer.frames, sender.me).control
    assert covered == Covered(sender.me, [(1, sender.me, 2)])
    receiver.receive(answer.frames, sender.me, 3 * MS)
    assert [message.payload for message in receiver.take(10, 3 * MS)] == [b"new"]


def test_a_full_window_says_so_and_changes_nothing() -> None:
    sender = make(1, MemberConfig(window_messages=2))
    sender.multicast(b"a", None, 0)
    sender.multicast(b"b", None, 0)
    assert not sender.can_multicast()
    with pytest.raises(WindowFullError, match="2 messages held"):
        sender.multicast(b"c", None, 0)
    assert sender.stats()["multicast"] == 2


def test_own_messages_that_nobody_takes_hold_up_the_sender_unless_told_otherwise() -> None:
    config = MemberConfig(delivery_messages=1, window_messages=1, f=0, reliability="sender")
    alone = Member(config, Source(1, 1), View.first([1], 0), random.Random("alone"))
    now_ns = 0
    for payload in (b"delivered", b"waits"):
        alone.multicast(payload, None, now_ns)
        alone.datagrams(now_ns)
        # Two rounds of votes, with itself.
        for _ in range(2):
            now_ns = alone.next_deadline_ns()
            alone.on_timer(now_ns)
    with pytest.raises(WindowFullError, match="take them"):
        alone.multicast(b"too many", None, now_ns)


def test_a_member_that_delivers_nothing_of_its_own_never_asks_for_it() -> None:
    config = MemberConfig(deliver_own=False)
    sender = make(1, config)
    for at in range(2):
        message = sender.multicast(b"m%d" % at, None, 0)
    sent(sender, 0)
    # Somebody sends the second one again, and everybody hears it.
    relay = FrameWriter(Source(2, 1), 1300)
    relay.add_message(message)
    sender.receive(relay.take(), Source(2, 1), 0)
    assert sender.deliverable() == 0
    for now_ns in range(0, 200 * MS, 10 * MS):
        sender.on_timer(now_ns)
        assert naks_of(sender, now_ns) == []


def test_gossip_tells_who_has_what() -> None:
    sender = make(1)
    sender.multicast(b"m", None, 0)
    sent(sender, 0)
    sender.on_timer(30 * MS)
    told = [
        frame
        for outgoing in sender.datagrams(30 * MS)
        for frame in Decoder().decode(outgoing.frames, sender.me).control
    ]
    assert {frame.safety for frame in told if isinstance(frame, Vector)} == {False, True}


def test_an_older_life_of_a_sender_is_not_listened_to() -> None:
    """Nobody mixes the two incarnations."""
    before, after, receiver = make(1), make(1, incarnation=2), make(2)
    (old,) = one_by_one(before, 1)
    (new,) = one_by_one(after, 1)
    receiver.receive(new, after.me, 0)
    receiver.receive(old, before.me, 0)
    assert [message.source for message in receiver.take(10, 0)] == [after.me]
    assert (receiver.view.life(1), receiver.view.number) == (2, 2)


def test_strangers_are_ignored() -> None:
    receiver = make(2)
    view = View.first([9, 10], 1)
    stranger = Member(MemberConfig(), Source(9, 1), view, random.Random("stranger"))
    (frames,) = one_by_one(stranger, 1)
    receiver.receive(frames, stranger.me, 0)
    assert receiver.deliverable() == 0


def test_garbage_raises_our_own_error() -> None:
    with pytest.raises(RemoteProtocolError):
        make(2).receive(b"\x01\x00\xff\xff", Source(1, 1), 0)


@pytest.mark.parametrize(
    ("members", "f", "words"),
    [([2, 3], 1, "must name 1"), ([1, 2, 2], 1, "everybody once"), ([1, 2], 2, "only 2 members")],
)
def test_a_group_that_makes_no_sense_is_refused(members: list[int], f: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Member(MemberConfig(f=f), Source(1, 1), View.first(members, f), random.Random("none"))


def test_a_member_in_another_life_than_the_view_says_is_refused() -> None:
    with pytest.raises(ConfigError, match="must name 1, in this life"):
        Member(MemberConfig(), Source(1, 2), View.first(MEMBERS, 1), random.Random("none"))


def test_own_messages_are_passed_over_when_their_covers_are_forgotten() -> None:
    """Found by the explorer, case 20275027: nobody else can tell what covers them."""
    config = MemberConfig(reliability="sender", delivery_messages=1, window_messages=4)
    member = Member(config, Source(1, 1), View.first([1], config.f), random.Random(1))
    member.multicast(b"taken first", None, 0)
    for at in range(100):
        # Two keys in turn, so that what is purged lies between what waits.
        member.multicast(b"%d" % at, "ab"[at % 2], 0)
        member.on_timer(member.next_deadline_ns())
    found = []
    while member.deliverable():
        found += member.take(1, 0)
    assert [message.payload for message in found] == [b"taken first", b"98", b"99"]


def test_many_are_accepted_while_there_is_room() -> None:
    member = make(1, MemberConfig(window_messages=5, deliver_own=False))
    payloads = [b"%d" % at for at in range(8)]
    assert member.multicast_many(payloads, None, 0, 0) == 5
    assert member.multicast_many(payloads, None, 5, 0) == 0
    assert (member.sent, member.blocked) == (5, True)
    receiver = make(2)
    for frames in sent(member, 0):
        receiver.receive(frames, member.me, 0)
    assert [message.payload for message in receiver.take(10, 0)] == payloads[:5]


def test_others_are_told_at_once_when_many_messages_came() -> None:
    """A window that lasts for less than a period would otherwise stand still for the rest of it."""
    sender = make(1, MemberConfig(deliver_own=False))
    receiver = make(2, MemberConfig(gossip_messages=3))
    receiver.on_timer(0)
    receiver.datagrams(0)
    frames = one_by_one(sender, 3)
    for some in frames[:2]:
        receiver.receive(some, sender.me, MS)
    assert receiver.next_deadline_ns() > MS
    receiver.receive(frames[2], sender.me, MS)
    assert receiver.next_deadline_ns() == MS


def alone(member: Member, now_ns: int) -> int:
    """One message, and time in which nobody but this member votes; says when that is over."""
    member.multicast(b"m", None, now_ns)
    member.datagrams(now_ns)
    for _ in range(3):
        now_ns += 40 * MS
        member.on_timer(now_ns)
        member.datagrams(now_ns)
    return now_ns


def test_a_member_that_is_gone_counts_again_only_in_a_later_life() -> None:
    member = make(1, MemberConfig(deliver_own=False))
    member.remove(2, 0)
    member.remove(3, 0)
    now_ns = alone(member, 0)
    assert member.all_stable()
    (late,) = one_by_one(make(3), 1)
    member.receive(late, Source(3, 1), now_ns)
    assert (member.view.present, member.deliverable()) == ([1], 0)
    now_ns = alone(member, now_ns)
    assert member.all_stable(), "the life that is gone has no vote"
    (again,) = one_by_one(make(3, incarnation=2), 1)
    member.receive(again, Source(3, 2), now_ns)
    assert (member.view.present, member.deliverable()) == ([1, 3], 1)
    alone(member, now_ns)
    assert not member.all_stable(), "the later one has to vote"


def test_what_was_purged_before_it_was_sent_is_told_unasked() -> None:
    """Else receivers would have to ask for each, over a link that is too slow already."""
    config = MemberConfig(reliability="sender", deliver_own=False, bandwidth_bytes_s=1000)
    sender, receiver = make(1, config), make(2, config)
    for at in range(20):
        sender.multicast(b"%d" % at, "key", 0)
        for outgoing in sender.datagrams(0):
            receiver.receive(outgoing.frames, sender.me, 0)
    # The first was sent; the others waited for bandwidth, and all but the last were replaced.
    for outgoing in sender.datagrams(10**9):
        receiver.receive(outgoing.frames, sender.me, 10**9)
    receiver.on_timer(2 * 10**9)
    assert naks_of(receiver, 2 * 10**9) == []
    assert [message.payload for message in receiver.take(10, 0)] == [b"19"]


def test_others_hear_only_of_what_has_left() -> None:
    sender = make(1, MemberConfig(deliver_own=False, bandwidth_bytes_s=1000))
    for _ in range(5):
        sender.multicast(bytes(2000), None, 0)
    sender.on_timer(0)
    newest = [
        row.newest
        for outgoing in sender.datagrams(0)
        for frame in Decoder().decode(outgoing.frames, sender.me).control
        if isinstance(frame, Vector)
        for row in frame.rows
    ]
    assert all(seq <= 1 for seq in newest)


def test_who_rests_tells_those_who_are_behind() -> None:
    """Found by the explorer, case 20304713: all but one had agreed, and rested ever longer."""
    member, other = (make(sender, MemberConfig(deliver_own=False)) for sender in (1, 2))
    for one in (member, other):
        one.remove(3, 0)
    member.multicast(b"m", None, 0)
    now_ns = 0
    for _ in range(30):
        for one, hearer in ((member, other), (other, member)):
            for outgoing in one.datagrams(now_ns):
                hearer.receive(outgoing.frames, one.me, now_ns)
        now_ns = min(member.next_deadline_ns(), other.next_deadline_ns())
        for one in (member, other):
            one.on_timer(now_ns)
    member.datagrams(now_ns)
    now_ns = member.next_deadline_ns()
    member.on_timer(now_ns)
    assert member.all_stable()
    period_ns = member.config.gossip_period_ns
    assert member.next_deadline_ns() > now_ns + 10 * period_ns
    for agreed, rests in ((1, True), (0, False)):
        writer = FrameWriter(Source(2, 1), 1000)
        rows = [Progress(member.me, agreed, agreed, 1)]
        writer.add(Vector(member.view.digest, 1, False, 1, 0b10, rows))
        member.receive(writer.take(), Source(2, 1), now_ns)
        assert (member.next_deadline_ns() > now_ns + period_ns) == rests
