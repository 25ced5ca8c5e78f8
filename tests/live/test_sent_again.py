"""What a member had sent and nobody received when it was put out, it sends again afterwards."""

import pytest
from tests.live.open_network import SECRET, gather, news_of, not_pending, payloads, present
from tests.live.sent_again import Applications, all_once, cut_off, pair_once

from semcast.obsolescence.tagger import Keys, Predecessors, Ranked
from semcast.testing import FakeNetwork

WAYS = pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])


@WAYS
@pytest.mark.parametrize("deliver_own", [True, False])
def test_what_nobody_received_of_one_that_was_put_out_is_sent_again(
    multicast: bool, deliver_own: bool
) -> None:
    network = FakeNetwork(seed=18, multicast=multicast)
    members = gather(network, 5, deliver_own=deliver_own)
    cut, others = members[2], [*members[:2], *members[3:]]
    news = news_of(cut)
    applications = Applications(network, members)
    cut.send(b"all have it")
    assert applications.until(lambda: all(applications.got[at] for at in (0, 1, 3, 4)))
    network.unplugged.add(cut.session.transport.address[0])
    lost = [b"first", b"second", b"third"]
    for payload in lost:
        cut.send(payload)
    cut.send(b"17", replaces="IBM")
    cut.send(b"18", replaces="IBM")
    cut_off(network, cut, others)
    cut.send(b"after")
    heard = [0, 1, 2, 3, 4] if deliver_own else [0, 1, 3, 4]
    assert applications.until(lambda: all(applications.got[at][-1:] == [b"after"] for at in heard))
    for member, got in zip(members, applications.got, strict=True):
        silent = member is cut and not deliver_own
        assert got == ([] if silent else [b"all have it", *lost, b"18", b"after"])
    assert ("resent", "5 messages that nobody had received were sent again") in news


def test_what_is_sent_again_replaces_what_it_replaced() -> None:
    network = FakeNetwork(seed=19)
    members = gather(network, 4, k=8)
    cut, others = members[2], [*members[:2], members[3]]
    applications = Applications(network, members)
    assert applications.until(lambda: all(not_pending(one) for one in members))
    network.unplugged.add(cut.session.transport.address[0])
    first = cut.send(b"never mind")
    cut.send(b"kept")
    cut.send(b"instead", replaces=Predecessors((first,)))
    cut.send(b"5", replaces=Ranked("lot", 5))
    cut.send(b"both", replaces=Keys(("a", "b")))
    cut.send(b"9", replaces=Ranked("lot", 9))
    cut_off(network, cut, others)
    # Nobody takes anything until all is there, so that what is replaced need not come.
    assert network.run(lambda: all(one.waiting == 4 for one in others), 20)
    for other in others:
        got = other.receive_many()
        assert [one.payload for one in got] == [b"kept", b"instead", b"both", b"9"]
        assert [one.keys for one in got] == [(), (), (b"a", b"b"), (b"lot",)]


def test_if_nobody_knows_what_was_received_the_application_is_told() -> None:
    network = FakeNetwork(seed=20)
    members = gather(network, 4)
    cut, others = members[2], [*members[:2], members[3]]
    news = news_of(cut)
    network.unplugged.add(cut.session.transport.address[0])
    cut.send(b"first")
    cut.send(b"second")
    assert network.run(lambda: all(present(one) == 3 for one in others), 15)
    fresh = [network.join("quotes", name=f"f{one}", secret=SECRET) for one in range(3)]
    assert network.run(lambda: all(one.complete and present(one) == 6 for one in fresh), 20)
    network.run(seconds=10)
    for other in others:
        other.leave()
        network.run(seconds=1)
    assert network.run(lambda: all(present(one) == 3 for one in fresh), 20)
    network.unplugged.clear()
    assert network.run(lambda: present(fresh[0]) == 4 and cut.complete, 30)
    assert network.run(lambda: any(kind == "unsure" for kind, _ in news), 10)
    assert next(text for kind, text in news if kind == "unsure").startswith("2 messages")
    cut.send(b"after")
    assert network.run(lambda: all(one.waiting > 0 for one in fresh), 10)
    assert [payloads(one) for one in fresh] == [[b"after"]] * 3


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("stability", ["gossip", "coordp"])
def test_whatever_was_lost_nothing_of_one_that_was_put_out_comes_twice_or_never(
    seed: int, stability: str
) -> None:
    all_once(seed, stability)


@pytest.mark.parametrize("order", ["fifo", "key"])
@pytest.mark.parametrize("seed", range(6))
def test_two_that_were_cut_off_together_get_nothing_of_each_other_twice(
    seed: int, order: str
) -> None:
    pair_once(seed, order)
