"""A vote that is lost holds a sender up for a few milliseconds, not for a period of gossip."""

import random

import pytest

from semcast.errors import WindowFullError
from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.stability.gossip.detection import GossipDetection
from semcast.wire.decode import Decoder
from semcast.wire.families.votes import Progress, Vector

MS = 1_000_000
PERIOD_NS = 10_000 * MS
CONFIG = MemberConfig(
    window_messages=8,
    gossip_messages=1,
    gossip_period_ns=PERIOD_NS,
    reliability="sender",
    deliver_own=False,
)


def make(sender: int, members: int) -> Member:
    ids = list(range(1, members + 1))
    return Member(CONFIG, Source(sender, 1), View.first(ids, CONFIG.f), random.Random(sender))


def go_on(members: list[Member], now_ns: int, lost: int = 0) -> int:
    """One step: everybody says what it has to say, all hear it but what `lost` says."""
    for one in members:
        if one.next_deadline_ns() <= now_ns:
            one.on_timer(now_ns)
    for one in members:
        for outgoing in one.datagrams(now_ns):
            for other in members:
                if other is not one and one.me.sender != lost:
                    other.receive(outgoing.frames, one.me, now_ns)
    for one in members:
        one.take(100, now_ns)
    return max(now_ns + MS, min(one.next_deadline_ns() for one in members))


def blocked(sender: Member, now_ns: int) -> None:
    with pytest.raises(WindowFullError):
        sender.multicast(b"one too many", None, now_ns)


def test_who_has_no_room_gets_a_lost_vote_soon() -> None:
    members = [make(1, 2), make(2, 2)]
    sender = members[0]
    now_ns = PERIOD_NS
    for _ in range(8):
        sender.multicast(b"m", None, now_ns)
    go_on(members, now_ns, lost=2)
    go_on(members, now_ns, lost=2)
    blocked(sender, now_ns)
    begin_ns = now_ns
    while not sender.can_multicast():
        now_ns = go_on(members, now_ns)
        assert now_ns - begin_ns < PERIOD_NS // 10, "it waits for the next period"


def test_who_was_heard_is_not_asked_again() -> None:
    """Else everybody would answer for the one whose vote is missing."""
    sender, heard, silent = (make(sender, 3) for sender in (1, 2, 3))
    now_ns = PERIOD_NS
    for _ in range(8):
        sender.multicast(b"m", None, now_ns)
    for _ in range(3):
        go_on([sender, heard], now_ns)
        now_ns += MS
    blocked(sender, now_ns)
    before = len(spoken(heard, sender, now_ns))
    answers = sum(len(spoken(heard, sender, now_ns + at * MS)) for at in range(1, 40))
    assert before + answers <= 1
    assert silent.deliverable() == 0


def spoken(reader: Member, sender: Member, now_ns: int) -> list[bytes]:
    """What a reader says when the sender, who waits for somebody else, tells what it knows."""
    if sender.next_deadline_ns() <= now_ns:
        sender.on_timer(now_ns)
    for outgoing in sender.datagrams(now_ns):
        reader.receive(outgoing.frames, sender.me, now_ns)
    if reader.next_deadline_ns() <= now_ns:
        reader.on_timer(now_ns)
    return [outgoing.frames for outgoing in reader.datagrams(now_ns)]


def test_only_who_has_no_room_says_so() -> None:
    sender = make(1, 2)
    for _ in range(8):
        sender.multicast(b"m", None, 0)
    assert not any(vector.waits for vector in vectors_of(sender, 0))
    blocked(sender, PERIOD_NS)
    assert all(vector.waits for vector in vectors_of(sender, 2 * PERIOD_NS))


def vectors_of(member: Member, now_ns: int) -> list[Vector]:
    member.on_timer(now_ns)
    decoder = Decoder()
    return [
        control
        for outgoing in member.datagrams(now_ns)
        for control in decoder.decode(outgoing.frames, member.me).control
        if isinstance(control, Vector)
    ]


@pytest.mark.parametrize(
    ("round_number", "voters", "lacks"), [(1, 0b01, True), (1, 0b11, False), (7, 0b01, True)]
)
def test_a_vote_is_missed_by_who_does_not_name_the_voter(
    round_number: int, voters: int, lacks: bool
) -> None:
    reader = make(2, 2)
    detection = reader._detection
    assert isinstance(detection, GossipDetection)
    rows = [Progress(Source(1, 1), 0, 8, 8)]
    vector = Vector(reader.view.digest, 1, False, round_number, voters, rows)
    assert detection._stability.lacks_vote(vector) == lacks
