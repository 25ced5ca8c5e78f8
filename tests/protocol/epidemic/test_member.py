"""A member that gossips, driven by hand: what goes to whom, what is told, what is refused."""

import random
from functools import partial

import pytest
from tests.protocol.epidemic.making import SECOND, SLOW, Remembering, bid, member, plain

from semcast.errors import ConfigError, GroupClosedError, MessageTooLargeError
from semcast.ids import EVERYBODY, NEVER, Source
from semcast.obsolescence import Predecessors, Ranked
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.config import Composition, GossipConfig, Policy
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.epidemic.targets import FullMembership
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outgoing
from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Ideal, Leave
from semcast.sim.traffic import Chains
from semcast.sim.world import run
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter, encode_whole
from semcast.wire.families.epidemic import Rumour, Stamp
from semcast.wire.message import Message

FROM = Source(3, 1)


def rumour(message: Message, relayed: int = 0, by: Source = FROM) -> bytes:
    writer = FrameWriter(by, 1300)
    assert writer.add(Rumour(message.source, message.seq, relayed, encode_whole(message)))
    return writer.take()


def read(sent: list[Outgoing]) -> list[tuple[int, int, int]]:
    """To whom, which number, in which round."""
    return [
        (one.to, int(frame.seq), int(frame.round))
        for one in sent
        for frame in Decoder().decode(one.frames, Source(0, 1)).control
        if isinstance(frame, Rumour)
    ]


# -- the gossip protocol ---------------------------------------------------------------------------


def test_a_message_goes_to_as_many_others_as_the_fan_out_says() -> None:
    one = member(members=20, gossip=GossipConfig(fanout=6))
    one.multicast(b"hello", None, 0)
    sent = read(one.datagrams(0))
    assert len({to for to, _, _ in sent}) == len(sent) == 6
    assert 0 not in {to for to, _, _ in sent}
    assert {(seq, relayed) for _, seq, relayed in sent} == {(1, 0)}


def test_each_message_has_targets_of_its_own() -> None:
    one = member(members=50, gossip=GossipConfig(fanout=5))
    drawn = set()
    for _ in range(10):
        one.multicast(b"hello", None, 0)
        drawn.add(tuple(to for to, _, _ in read(one.datagrams(0))))
    assert len(drawn) == 10


def test_what_comes_is_relayed_once_in_the_next_round_and_then_never() -> None:
    one = member(gossip=GossipConfig(fanout=3))
    one.receive(rumour(plain(1), 2), FROM, 0)
    assert [(seq, relayed) for _, seq, relayed in read(one.datagrams(0))] == [(1, 3)] * 3
    one.receive(rumour(plain(1), 0), FROM, 0)
    assert not read(one.datagrams(0))
    assert [message.seq for message in one.take(9, 0)] == [1]


def test_after_so_many_relays_a_message_goes_no_further_but_is_delivered() -> None:
    one = member(gossip=GossipConfig(fanout=3, rounds=4))
    one.receive(rumour(plain(1), 4), FROM, 0)
    assert not one.datagrams(0)
    assert one.deliverable() == 1


def test_samples_are_of_different_others_however_many_are_wanted() -> None:
    rng = random.Random(1)
    for me in (0, 4, 8, 99):
        targets = FullMembership(Source(me, 1), View.first(list(range(9)), 0), rng)
        others = set(range(9)) - {me}
        assert targets.links() == len(others)
        for count in range(12):
            drawn = targets.draw(count, EVERYBODY)
            assert len(set(drawn)) == len(drawn) == min(count, len(others))
            assert set(drawn) <= others


# -- purging between gossip and network ------------------------------------------------------------


def test_copies_wait_for_their_links_and_what_is_replaced_is_never_sent() -> None:
    observer = Remembering()
    one = member(members=2, gossip=SLOW, observer=observer)
    for rank in (1, 2, 3):
        one.multicast(b"x", Ranked("k", rank), 0)
    assert read(one.datagrams(0)) == [(1, 1, 0)]
    due_ns = one.next_deadline_ns()
    assert due_ns == SECOND // 10
    one.on_timer(due_ns)
    assert read(one.datagrams(due_ns)) == [(1, 3, 0)]
    assert one.next_deadline_ns() == NEVER
    assert "purge 0#2 from relay by 0#3" in observer.told
    assert one.stats()["purged_relay"] == 1


def test_in_the_naive_composition_messages_wait_for_the_period_even_if_links_are_idle() -> None:
    """PSRM §2.3, §4.3"""
    naive = GossipConfig(fanout=1, composition=Composition.NAIVE, period_ns=SECOND)
    one = member(members=2, gossip=naive)
    one.multicast(b"x", Ranked("k", 1), 0)
    one.multicast(b"x", Ranked("k", 2), 0)
    assert not one.datagrams(0)
    due_ns = one.next_deadline_ns()
    assert 0 < due_ns <= SECOND
    one.on_timer(due_ns)
    assert read(one.datagrams(due_ns)) == [(1, 2, 0)]
    assert one.stats()["purged_gossip"] == 1


def test_with_windows_datagrams_bear_stamps_and_several_copies() -> None:
    one = member(members=2, gossip=GossipConfig(fanout=1))
    for _ in range(3):
        one.multicast(b"x", None, 0)
    (sent,) = one.datagrams(0)
    frames = Decoder().decode(sent.frames, Source(0, 1)).control
    assert [type(frame) for frame in frames] == [Stamp, Rumour, Rumour, Rumour]


def test_no_more_datagrams_than_the_network_takes() -> None:
    one = member(members=9, gossip=GossipConfig(fanout=8, link_bytes_s=1e6))
    for _ in range(2):
        one.multicast(bytes(900), None, 0)
        one.datagrams(0)
    later_ns = SECOND
    assert len(one.datagrams(later_ns, 3)) == 3
    assert one.unsent
    assert len(one.datagrams(later_ns)) == 5
    assert not one.unsent


# -- what the application is told ------------------------------------------------------------------


def test_what_waits_is_purged_and_the_next_message_says_so_with_its_cover() -> None:
    observer = Remembering()
    one = member(observer=observer)
    source = Source(1, 1)
    for seq in (1, 2, 3):
        one.receive(rumour(bid(seq, seq=seq)), FROM, 0)
    (last,) = one.take(9, 0)
    assert (last.seq, last.skipped) == (3, (1, 2))
    assert one.cover_of(source, 1) == (source, 2)
    assert one.cover_of(source, 2) == (source, 3)
    one.receive(rumour(plain(4)), FROM, 0)
    taken = one.take_one(0)
    assert taken is not None
    assert taken.skipped == ()


def test_what_never_came_is_told_as_missed_or_if_it_was_named_as_skipped() -> None:
    observer = Remembering()
    one = member(observer=observer, gossip=GossipConfig(patience_ns=SECOND))
    source = Source(1, 1)
    one.receive(rumour(plain(1)), FROM, 0)
    # Replaces number 2; of 3 nothing is known.
    one.receive(rumour(Message(source, 4, b"x", 0, 0b10)), FROM, 0)
    one.receive(rumour(plain(5)), FROM, 3 * SECOND)
    skipped = [list(message.skipped) for message in one.take(9, 0)]
    assert skipped[0] == [2, 3]
    assert skipped[1:] == [[], []]
    assert "skip 1#2 by 1#4" in observer.told
    assert "miss 1#3" in observer.told
    assert one.cover_of(source, 2) == (source, 4)
    assert one.cover_of(source, 3) is None
    one.receive(rumour(plain(3)), FROM, 3 * SECOND)
    assert one.deliverable() == 0, "it was told as missed"
    assert (one.stats()["skipped"], one.stats()["missed"]) == (1, 1)


def test_what_never_came_is_told_even_if_its_sender_falls_silent() -> None:
    observer = Remembering()
    one = member(observer=observer, gossip=GossipConfig(patience_ns=SECOND))
    one.receive(rumour(plain(1)), FROM, 0)
    one.receive(rumour(plain(3)), FROM, 0)
    one.take(9, 0)
    now_ns = 0
    while "miss 1#2" not in observer.told:
        assert now_ns < 2 * SECOND
        now_ns = one.next_deadline_ns()
        one.on_timer(now_ns)
    assert now_ns > SECOND
    assert one.stats()["missed"] == 1
    assert one.take_silent() == [(Source(1, 1), [2])]
    assert one.take_silent() == []
    # Should the sender speak again, its message says so as any other does.
    one.receive(rumour(plain(4)), FROM, now_ns)
    (last,) = one.take(9, now_ns)
    assert list(last.skipped) == [2]


def test_a_full_queue_of_the_application_drops_what_comes_and_tells_so() -> None:
    observer = Remembering()
    config = MemberConfig(delivery_messages=2)
    one = member(observer=observer, config=config)
    for seq in (1, 2, 3):
        one.receive(rumour(plain(seq)), FROM, 0)
    assert "drop 1#3 from delivery/overflow" in observer.told
    first = one.take_one(0)
    assert first is not None
    assert list(first.skipped) == [3]


def test_its_own_messages_are_delivered_once_or_not_at_all() -> None:
    for own in (True, False):
        one = member(config=MemberConfig(deliver_own=own))
        message = one.multicast(b"x", None, 0)
        one.receive(rumour(message), FROM, 0)
        assert len(one.take(9, 0)) == own


# -- what is refused -------------------------------------------------------------------------------


def test_a_message_fits_into_one_datagram_or_is_refused_and_changes_nothing() -> None:
    one = member()
    with pytest.raises(MessageTooLargeError):
        one.multicast(bytes(2000), Predecessors(()), 0)
    assert one.sent == 0
    assert one.multicast(bytes(1000), None, 0).seq == 1


def test_what_a_member_may_send_others_may_pass_on() -> None:
    """A relayed message takes more room, because it says whose it is."""
    one, other = member(0, gossip=GossipConfig(fanout=3)), member(1, gossip=GossipConfig(fanout=3))
    with pytest.raises(MessageTooLargeError) as refused:
        one.multicast(bytes(2000), None, 0)
    one.multicast(bytes(refused.value.bytes_max), None, 0)
    for sent in one.datagrams(0):
        if sent.to == 1:
            other.receive(sent.frames, one.me, 0)
    assert len(read(other.datagrams(0))) == 3
    with pytest.raises(MessageTooLargeError):
        one.multicast(bytes(refused.value.bytes_max + 1), None, 0)
    assert other.stats()["too_large"] == 0


def test_strangers_and_former_lives_are_not_heard() -> None:
    one = member(members=4)
    stranger = Source(77, 1)
    one.receive(rumour(plain(1), by=stranger), stranger, 0)
    one.receive(rumour(Message(Source(0, 0), 5, b"mine, before"), 0), FROM, 0)
    assert one.deliverable() == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fanout": 0}, "fanout is 0"),
        ({"rounds": 256}, "rounds is 256"),
        ({"buffer_messages": 0}, "buffer_messages is 0"),
        ({"period_ns": 5}, "nothing waits for a period"),
        ({"copy_bytes": 5}, "copy_bytes without link_bytes_s"),
        ({"patience_ns": -1}, "patience_ns is -1"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        GossipConfig(**changes)  # type: ignore[arg-type]


# -- leaving, and others that leave ----------------------------------------------------------------


def test_it_may_leave_when_all_was_sent() -> None:
    one = member(members=2)
    one.multicast(b"x", None, 0)
    one.multicast(b"y", None, 0)
    one.datagrams(0)
    one.begin_leaving(0)
    assert one.leaving
    with pytest.raises(GroupClosedError):
        one.multicast(b"z", None, 0)
    assert not one.may_leave([], 0)
    one.datagrams(SECOND)
    assert one.may_leave([], SECOND)


def test_nothing_is_drawn_or_kept_for_those_who_are_gone() -> None:
    one = member(members=3, gossip=SLOW)
    for _ in range(3):
        one.multicast(b"x", None, 0)
    one.datagrams(0)
    one.remove(1, 0)
    one.remove(1, 0)
    assert one.stats()["retained_held"] == 2
    one.multicast(b"x", None, 0)
    assert {to for to, _, _ in read(one.datagrams(9 * SECOND))} == {2}


@pytest.mark.parametrize("policy", [Policy.EAGER, Policy.RANDOM])
def test_it_stands_where_any_member_stands(policy: Policy) -> None:
    """In the general world: losses, a crash, one that leaves; the group comes to rest."""
    scenario = ProtocolScenario(
        members=8,
        duration_s=2.0,
        warm_up_s=0.2,
        senders=tuple(range(8)),
        traffic=Chains(rate_msg_s=60, size_bytes=20),
        network=Ideal(),
        faults=Faults(loss=0.05),
        processes=(Crash(1, 0.7), Leave(2, 1.0)),
        detection_ms=50.0,
    )
    gossip = GossipConfig(fanout=4, policy=policy, link_bytes_s=4_000, buffer_messages=3)
    outcome = run(scenario, 1, make=partial(EpidemicMember, gossip=gossip))
    assert outcome.quiescent
    assert outcome.journal is not None
    kinds = {event.event for event in outcome.journal.events}
    assert {"multicast", "receive", "deliver", "relay", "settled"} <= kinds
