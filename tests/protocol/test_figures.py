"""Ages by two clocks that disagree, and what is counted of being blocked."""

import random
from contextlib import suppress

import pytest

from semcast.errors import WindowFullError
from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.figures import WINDOW_NS, Figures, Transit
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View

MS = 1_000_000
HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, 0, HOUR_NS])
def test_an_age_does_not_depend_on_the_senders_clock(ahead_ns: int) -> None:
    transit, now_ns = Transit(), 2 * HOUR_NS
    for late_ms in (7, 3, 90):
        transit.arrived(now_ns + ahead_ns - late_ms * MS, now_ns)
    assert transit.age_ns(now_ns + ahead_ns - 503 * MS, now_ns) == 500 * MS
    assert transit.age_ns(now_ns + ahead_ns + HOUR_NS, now_ns) == 0


def test_drift_does_not_accumulate() -> None:
    """A clock that loses 0.1 ms a second is 360 ms off after an hour; ages never are."""
    transit, wrong_ns = Transit(), []
    for now_ns in range(0, HOUR_NS, 100 * MS):
        sent_ns = now_ns - now_ns // 10_000
        transit.arrived(sent_ns, now_ns)
        wrong_ns.append(transit.age_ns(sent_ns, now_ns))
    assert max(wrong_ns) <= 2 * WINDOW_NS // 10_000 + 1


def test_messages_that_come_late_for_a_while_look_as_old_as_they_are() -> None:
    """As after a loss, or when the member itself stood still."""
    transit = Transit()
    transit.arrived(0, 1 * MS)
    for at_ns in range(HOUR_NS, HOUR_NS + WINDOW_NS, 100 * MS):
        transit.arrived(at_ns, at_ns + 5001 * MS)
        assert transit.age_ns(at_ns, at_ns + 5001 * MS) == 5000 * MS


def make(sender: int) -> Member:
    config = MemberConfig(window_messages=4, delivery_messages=8)
    return Member(config, Source(sender, 1), View.first([1, 2], config.f), random.Random(1))


def test_own_messages_are_as_old_as_they_are() -> None:
    member = make(1)
    member.multicast(b"x", None, 1000)
    oldest = member.oldest()
    assert oldest is not None
    assert member.age_ns(oldest, 1500) == 500


def test_a_message_of_another_is_as_old_as_its_stay_here() -> None:
    sender, receiver = make(1), make(2)
    sender.multicast(b"x", None, HOUR_NS)
    for outgoing in sender.datagrams(HOUR_NS):
        receiver.receive(outgoing.frames, sender.me, 5 * MS)
    oldest = receiver.oldest()
    assert oldest is not None
    assert receiver.age_ns(oldest, 12 * MS) == 7 * MS


def test_time_without_room_is_counted_until_now() -> None:
    figures = Figures()
    figures.blocked(10)
    assert (figures.blocked_times, figures.blocked_ns(15)) == (1, 5)
    figures.unblocked(20)
    assert figures.blocked_ns(100) == 10
    figures.blocked(100)
    assert (figures.blocked_times, figures.blocked_ns(101)) == (2, 11)


def test_requests_answers_and_times_without_room_are_counted() -> None:
    sender, receiver = make(1), make(2)
    datagrams = []
    for _ in range(2):
        sender.multicast(b"x", None, 0)
        datagrams += [outgoing.frames for outgoing in sender.datagrams(0)]
    receiver.receive(datagrams[1], sender.me, 0)
    receiver.on_timer(2 * MS)
    (request,) = receiver.datagrams(2 * MS)
    sender.receive(request.frames, receiver.me, 2 * MS)
    for _ in range(4):
        with suppress(WindowFullError):
            sender.multicast(b"x", None, 3 * MS)
    assert sender.stats()["blocked_times"] == 1, "the third and the fourth are one time"
    assert sender.blocked_ns(10 * MS) == 7 * MS
    assert receiver.stats()["naks_sent"] == sender.stats()["naks_received"] == 1
    assert sender.stats()["retransmitted"] == 1
    assert receiver.stats()["naks_received"] == receiver.stats()["retransmitted"] == 0
    sender.datagrams(4 * MS)
    sender.remove(2, 4 * MS)
    while not sender.can_multicast():
        sender.on_timer(sender.next_deadline_ns())
    sender.multicast(b"y", None, 1003 * MS)
    assert sender.blocked_ns(2000 * MS) == 1000 * MS
