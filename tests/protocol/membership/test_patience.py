"""Patience: whoever answers is never given up; whoever does not is, within a bound."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.membership.network import MS, Network, Node, S
from tests.protocol.membership.test_feed import READS, feed
from tests.protocol.membership.test_readers import Group

from semcast.ids import NEVER
from semcast.protocol.membership.patience import (
    FORGET_NS_MAX,
    FORGET_NS_MIN,
    Awaited,
    Patience,
)

ANSWER, SIGN = 500 * MS, 5 * S
# It is looked twice a second who is silent.
LOOK = 500 * MS


def heard_every(one: Awaited, gaps_ns: list[int], now_ns: int = 0) -> int:
    """Of one that owes answers all the time. Returns when it was last heard."""
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        one.heard(now_ns)
    return now_ns


def owing() -> Awaited:
    one = Awaited(ANSWER, SIGN, 0)
    one.owes(0)
    return one


# -- one process -----------------------------------------------------------------------------------


def test_one_that_owes_nothing_may_be_silent_for_longer() -> None:
    patience, one = Patience(), Awaited(ANSWER, SIGN, 0)
    assert not patience.owes_too_long(one, 15 * S)
    assert not patience.is_silent(one, 20 * S)
    assert patience.is_silent(one, 20 * S + 1)
    one.owes(14 * S)
    assert not patience.owes_too_long(one, 14 * S + FORGET_NS_MIN)
    assert patience.owes_too_long(one, 14 * S + FORGET_NS_MIN + 1)
    one.owes(NEVER)
    assert not patience.owes_too_long(one, 18 * S)


def test_one_whose_answers_come_late_is_given_longer_and_later_less_again() -> None:
    patience, one = Patience(), owing()
    now_ns = heard_every(one, [10 * MS] * 500)
    assert patience.answer_after_ns(one) == FORGET_NS_MIN
    now_ns = heard_every(one, [2 * S, 300 * MS, 2500 * MS, 100 * MS] * 4, now_ns)
    patient_ns = patience.answer_after_ns(one)
    assert FORGET_NS_MIN < patient_ns <= FORGET_NS_MAX
    heard_every(one, [100 * MS] * 4_000, now_ns)
    assert patience.answer_after_ns(one) < patient_ns


def test_a_burst_is_one_sign_of_life() -> None:
    """Or ten thousand datagrams in a second would make a pause of two seconds look like death."""
    patience, one = Patience(), owing()
    now_ns = heard_every(one, [2 * S, 2 * S, 3 * S, 2 * S])
    before_ns = patience.answer_after_ns(one)
    heard_every(one, [MS // 100] * 10_000, now_ns)
    assert patience.answer_after_ns(one) > before_ns - 500 * MS


def test_gaps_in_which_it_owed_nothing_say_nothing_of_its_answers() -> None:
    patience, one = Patience(), Awaited(ANSWER, SIGN, 0)
    heard_every(one, [5 * S] * 50)
    assert patience.answer_after_ns(one) == FORGET_NS_MIN


@given(
    st.lists(st.integers(0, 20 * S), max_size=60),
    st.lists(st.integers(0, 30 * S), max_size=20),
)
def test_there_is_a_bound_whatever_was_observed(gaps: list[int], late: list[int]) -> None:
    patience, one = Patience(), owing()
    now_ns = heard_every(one, gaps)
    for late_ns in late:
        now_ns += late_ns
        patience.woke(now_ns - late_ns, now_ns)
    assert FORGET_NS_MIN <= patience.answer_after_ns(one) <= FORGET_NS_MAX
    assert patience.owes_too_long(one, now_ns + FORGET_NS_MAX + 1)
    assert patience.is_silent(one, now_ns + 12 * SIGN + 1)


def test_who_is_slow_itself_gives_others_more_time() -> None:
    patience, one = Patience(), owing()
    assert patience.woke(S, S + 20 * MS) == 0
    assert patience.answer_after_ns(one) == FORGET_NS_MIN
    assert patience.woke(S, S + 400 * MS) == 400 * MS
    assert patience.answer_after_ns(one) > FORGET_NS_MIN
    for second in range(300):
        patience.woke(second * S, second * S)
    assert patience.answer_after_ns(one) == FORGET_NS_MIN


def test_nobody_is_silent_while_this_process_slept() -> None:
    patience, one = Patience(), owing()
    one.heard(S)
    one.slept(60 * S, 61 * S)
    assert not patience.owes_too_long(one, 61 * S + FORGET_NS_MIN)
    assert one.clock_ns == 61 * S


def test_a_closed_port_counts_only_if_questions_are_not_answered() -> None:
    patience, one = Patience(), owing()
    one.refused(MS)
    one.refused(MS)
    assert not patience.is_silent(one, MS), "it was not asked yet"
    assert patience.is_doubted(one, MS)
    for _ in range(3):
        assert patience.is_to_ask(one)
    assert patience.is_silent(one, MS)
    one.heard(2 * MS)
    assert not patience.is_silent(one, 2 * MS)
    assert not patience.is_to_ask(one)


def test_a_report_that_proved_wrong_is_not_believed_again_for_a_while() -> None:
    patience, one = Patience(), owing()
    one.refused(MS)
    one.heard(2 * MS)
    one.refused(5 * S)
    assert not patience.is_to_ask(one)
    one.refused(2 * MS + 5 * S)
    assert patience.is_to_ask(one)


def test_of_one_closed_port_nobody_asks_for_ever() -> None:
    patience, one = Patience(), owing()
    one.refused(MS)
    asked = 0
    while patience.is_to_ask(one):
        asked += 1
        assert not patience.is_silent(one, MS), "one report is not enough"
    assert 3 <= asked < 20
    assert not patience.is_to_ask(one)


# -- feeds -----------------------------------------------------------------------------------------


def blocked(net: Network, sender: Node) -> None:
    while net.multicast(sender):
        net.run(MS)


def test_a_dead_reader_of_a_feed_is_forgotten_at_once_where_its_port_is_closed() -> None:
    net, sender, (_, other) = feed(2)
    net.refuses = True
    net.run(S)
    net.crash(other)
    blocked(net, sender)
    assert net.until(lambda: net.multicast(sender), 10 * S) < S
    assert sender.member.stats()["readers"] == 1


def test_a_dead_sender_of_a_feed_is_forgotten_where_its_port_is_closed() -> None:
    net, sender, (reader, _) = feed(2)
    net.refuses = True
    net.crash(sender)
    # A reader at rest says something every five seconds.
    net.until(lambda: len(reader.member.view.members) == 1, 12 * S)


@pytest.mark.parametrize("busy", [True, False])
def test_reports_of_closed_ports_that_are_wrong_change_nothing(busy: bool) -> None:
    net, sender, readers = feed(3)
    for _ in range(100):
        for node in [sender, *readers]:
            for other in range(4):
                node.member.refused(other, net.now)
        if busy:
            net.until(lambda: net.multicast(sender), 5 * S)
        net.run(20 * MS)
    net.run(S)
    assert sender.member.stats()["readers"] == 3
    assert all(len(reader.told.joined) == 1 for reader in readers)
    assert not any(node.member.suspects() for node in [sender, *readers])


def test_a_reader_whose_machine_is_overloaded_is_not_forgotten() -> None:
    """Again and again it is stopped, first for a short time, then for one that would be too long
    for a reader which always answered at once.
    """
    net, sender, (one, other) = feed(2)
    for stop_ns in [2 * S, 2500 * MS, 2800 * MS] * 3 + [FORGET_NS_MIN + 2 * LOOK]:
        net.run(300 * MS)
        net.multicast(sender)
        net.stop(other)
        net.run(stop_ns)
        net.resume(other)
        net.run(100 * MS)
    assert len(other.told.joined) == 1, "it was never told that it is forgotten"
    calm = net.add(9, READS)
    net.until(lambda: calm.member.inside)
    net.stop(calm)
    net.multicast(sender)
    net.until(lambda: sender.member.stats()["readers"] == 2, FORGET_NS_MIN + 3 * LOOK)
    one.check()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_came_before_a_dead_reader_blocks_a_feed_no_longer_than_the_bound(
    seed: int,
) -> None:
    net, sender, (one, other) = feed(2, seed)
    draw = random.Random(f"patience/{seed}")
    for _ in range(15):
        node = draw.choice([one, other, sender])
        net.stop(node)
        net.run(draw.randrange(4 * S))
        net.resume(node)
        net.run(draw.randrange(S))
        net.multicast(sender)
    net.crash(other)
    blocked(net, sender)
    assert net.until(lambda: net.multicast(sender), 20 * S) <= FORGET_NS_MAX + 2 * LOOK


def test_who_waits_for_a_silent_reader_suspects_it() -> None:
    net, sender, (_, other) = feed(2)
    net.stop(other)
    net.multicast(sender)
    assert sender.member.suspects() == []
    net.until(lambda: sender.member.suspects() == [int(other.me.sender)], FORGET_NS_MIN)
    net.resume(other)
    net.until(lambda: sender.member.suspects() == [], 2 * LOOK)


# -- readers of groups -----------------------------------------------------------------------------


def test_a_dead_reader_of_a_group_is_forgotten_at_once_where_its_port_is_closed() -> None:
    group = Group(3)
    group.refuses = True
    reader = group.reader(100)
    group.run(S)
    group.crash(reader)
    blocked(group, group.members[0])
    assert group.until(lambda: group.multicast(group.members[0]), 10 * S) < S
    assert group.served() == [0, 0, 0]


def test_a_reader_finds_another_patron_at_once_where_a_port_is_closed() -> None:
    group = Group(3)
    group.refuses = True
    reader = group.reader(100)
    patron = next(node for node, count in zip(group.members, group.served(), strict=True) if count)
    group.run(S)
    group.crash(patron)
    assert group.until(lambda: sum(group.served()) == 2, 10 * S) < 2 * S
    assert reader.member.inside


def test_wrong_reports_of_closed_ports_cost_no_reader_its_patrons() -> None:
    group = Group(3)
    reader = group.reader(100)
    before = group.served()
    for _ in range(50):
        for node in group.members:
            node.member.refused(100, group.now)
            reader.member.refused(int(node.me.sender), group.now)
        group.run(30 * MS)
    group.run(S)
    assert group.served() == before
    assert len(reader.told.joined) == 3


@pytest.mark.parametrize("seed", range(4))
def test_wrong_reports_of_closed_ports_under_loss_cost_nobody_a_reader(seed: int) -> None:
    """Again and again three questions in a row may be lost, so reports that come again and again
    must not be believed each time.
    """
    net, sender, readers = feed(3, seed, loss=0.3)
    joined = [len(reader.told.joined) for reader in readers]
    for _ in range(500):
        for reader in readers:
            sender.member.refused(int(reader.me.sender), net.now)
            reader.member.refused(int(sender.me.sender), net.now)
        net.multicast(sender)
        net.run(20 * MS)
    assert sender.member.stats()["readers"] == 3
    assert [len(reader.told.joined) for reader in readers] == joined
