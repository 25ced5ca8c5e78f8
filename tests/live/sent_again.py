"""Members that are put out and come back, and what every application must have received then."""

from collections.abc import Callable

from tests.live.open_network import gather, not_pending, payloads, present

from semcast.testing import FakeMember, FakeNetwork


def cut_off(network: FakeNetwork, cut: FakeMember, others: list[FakeMember]) -> None:
    """Pull a member's cable until the others have gone on without it; then put it back."""
    network.unplugged.add(cut.session.transport.address[0])
    there = len(others)
    assert network.run(lambda: all(present(one) == there for one in others), 15)
    network.unplugged.clear()
    assert network.run(lambda: present(others[0]) > there, 20)
    assert network.run(lambda: cut.complete, 10)


class Applications:
    """What each member's application has received, in order."""

    def __init__(self, network: FakeNetwork, members: list[FakeMember]) -> None:
        self._network = network
        self._members = members
        self.got: list[list[bytes]] = [[] for _ in members]

    def take(self) -> None:
        for member, got in zip(self._members, self.got, strict=True):
            got += payloads(member)

    def until(self, true: Callable[[], bool], seconds: float = 20) -> bool:
        def look() -> bool:
            self.take()
            return true()

        return self._network.run(look, seconds)


def all_once(seed: int, stability: str) -> None:
    """Of one that is put out, some messages reached all, some reached some, and some nobody. In the
    end every application has each of them once, in order.
    """
    network = FakeNetwork(seed=100 + seed)
    members = gather(network, 4, stability=stability, order="fifo")
    cut, others = members[1], [members[0], *members[2:]]
    applications = Applications(network, members)
    sent = [b"%d" % number for number in range(30)]
    assert applications.until(lambda: all(not_pending(one) for one in members))
    for at, payload in enumerate(sent):
        cut.send(payload)
        if at == 10:
            network.loss = 0.6
        if at == 20:
            network.unplugged.add(cut.session.transport.address[0])
        network.run(seconds=0.002)
    network.loss = 0.0
    cut_off(network, cut, others)
    assert network.run(cut.can_send, 20), "it can send again"
    cut.send(b"after")
    assert applications.until(lambda: all(got[-1:] == [b"after"] for got in applications.got))
    for got in applications.got:
        assert got == [*sent, b"after"], f"{len(sent) + 1} messages, each once: {got}"


def host(member: FakeMember) -> str:
    return member.session.transport.address[0]


def pair_once(seed: int, order: str) -> None:
    """Two that are cut off together have messages of each other that nobody else has. In the end
    every application has each of them once.
    """
    network = FakeNetwork(seed=200 + seed)
    members = gather(network, 5, order=order)
    pair, others = members[1:3], [members[0], *members[3:]]
    applications = Applications(network, members)
    assert applications.until(lambda: all(not_pending(one) for one in members))
    for one in pair:
        for other in others:
            network.severed.update(((host(one), host(other)), (host(other), host(one))))
    for at, one in enumerate(pair):
        one.send(b"%d first" % at)
        one.send(b"%d second" % at)
    assert applications.until(lambda: all(len(applications.got[at]) == 4 for at in (1, 2)))
    pair[0].send(b"only now", replaces="key")
    assert applications.until(lambda: all(present(one) == 3 for one in others), 15)
    network.severed.clear()
    assert applications.until(lambda: all(present(one) == 5 for one in others), 20)
    assert applications.until(lambda: all(one.complete and one.can_send() for one in pair), 20)
    for at, one in enumerate(pair):
        one.send(b"%d after" % at)
    wanted = {b"only now"}
    wanted |= {b"%d %s" % (at, what) for at in (0, 1) for what in (b"first", b"second", b"after")}
    assert applications.until(lambda: all(wanted <= set(got) for got in applications.got))
    network.run(seconds=2)
    applications.take()
    for got in applications.got:
        assert sorted(got) == sorted(wanted), "each once"
