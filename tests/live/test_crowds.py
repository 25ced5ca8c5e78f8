"""Crowds: many processes look for a group at once, over a network in memory, in virtual time."""

from collections import Counter
from functools import partial

import pytest
from tests.live.busy_network import BusyNetwork
from tests.live.open_network import SECRET, present

from semcast.live.meeting.crowd import Crowd
from semcast.testing import FakeMember, FakeNetwork

SECOND = 1_000_000_000


def all_in(members: list[FakeMember]) -> bool:
    return all(one.complete for one in members)


def crowd(network: FakeNetwork, count: int) -> list[FakeMember]:
    return [network.join("quotes", name=f"m{at}", secret=SECRET) for at in range(count)]


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_crowd_is_one_group_soon(loss: float) -> None:
    network = FakeNetwork(seed=5, loss=loss)
    members = crowd(network, 16)
    assert network.run(lambda: all(one.complete and present(one) == 16 for one in members), 4)
    (origin,) = {one.session.member.view.origin for one in members if one.session.member}
    assert origin != 0


def test_not_each_of_a_crowd_talks_with_each() -> None:
    """What a member sends does not grow with the crowd; who begins the group sends more."""
    sent = {}
    for count in (6, 18):
        network = FakeNetwork(seed=6)
        members = crowd(network, count)
        assert network.run(partial(all_in, members), 4)
        sizes = sorted(one.session.transport.counters["datagrams_out"] for one in members)
        sent[count] = sizes[count // 2]
    assert sent[18] < 2 * sent[6]


@pytest.mark.parametrize(("count", "datagram_us"), [(64, 300.0), (100, 100.0)])
def test_a_crowd_on_a_busy_machine_has_a_vote_soon(count: int, datagram_us: float) -> None:
    """What all say to all is what keeps it busy, so each speaks the less often the longer it waits
    for a processor, and who leaves it to an elder one or is in the view hardly at all.
    """
    network = BusyNetwork(3, datagram_us)
    members = crowd(network, count)
    assert network.run(lambda: all(one.complete and present(one) == count for one in members), 8)
    for one in members:
        assert one.can_send()
        assert one.session.member is not None
        assert one.session.member.view.number <= 4
        assert one.session.transport.counters["datagrams_in"] < 8 * count


def test_only_the_eldest_that_was_heard_is_talked_with() -> None:
    looking = Crowd()
    own = (50, 1)
    assert not looking.is_eldest(60, 2, own, 0)
    assert looking.is_eldest(40, 3, own, 0)
    assert not looking.is_eldest(45, 4, own, 1)
    assert looking.is_eldest(40, 3, own, 2)
    assert looking.is_eldest(30, 5, own, 3)
    assert not looking.is_eldest(40, 3, own, 4)
    # The eldest may have died.
    assert looking.is_eldest(40, 3, own, 10 * SECOND)


def test_who_was_answered_speaks_less_often_and_asks_fewer() -> None:
    spoke: Counter[bool] = Counter()
    insistence = {}
    for answered in (False, True):
        looking = Crowd()
        at_ns = 0
        while at_ns < SECOND:
            pause_ns, insistence[answered] = looking.spoke(answered)
            at_ns += pause_ns
            spoke[answered] += 1
    assert spoke[True] < spoke[False]
    looking = Crowd()
    assert not looking.has_elder(0)
    looking.is_eldest(40, 3, (50, 1), 0)
    assert looking.has_elder(SECOND)
    assert not looking.has_elder(10 * SECOND), "it may have died"
    assert looking.spoke(False, True)[0] > Crowd().spoke(False)[0]
    assert insistence[True] < insistence[False]
