"""Federations on a network in memory, and what is asked of all orders."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semcast.live.meeting.federation_session import FederationSession
from semcast.protocol.propagation.federated import Federated
from semcast.testing import FakeNetwork
from semcast.testing.network import FakeMember
from semcast.wire.message import Message

SECRET = "a secret that all of them share"
# A group, a sender, in which life, and the number of its message.
Place = tuple[str, str, int, int]
# PROP Figure 6.
FIGURE6 = {
    "a": ("alpha", "gamma"), "b": ("alpha", "gamma"), "c": ("alpha", "beta"),
    "d": ("alpha", "beta"), "e": ("alpha", "beta"),
}  # fmt: skip


class FakeSite:
    """A site on a fake network, whose application takes all that comes and undoes what it must."""

    def __init__(self, network: FakeNetwork, name: str, **settings: Any) -> None:
        self.name = name
        self.network = network
        self._settings = settings
        # What its application has dealt with, and not undone.
        self.taken: list[Place] = []
        self.undone: list[Place] = []
        self.told: list[tuple[str, str]] = []
        self.member = self._join()

    def _join(self, **more: Any) -> FakeMember:
        given = {"secret": SECRET, "reliability": "federation"} | self._settings | more
        member = self.network.join("bank", name=self.name, **given)
        member.session.on_news = lambda kind, text, _: self.told.append((kind, text))
        return member

    def restart(self, **more: Any) -> None:
        """Another process takes this place."""
        self.member = self._join(**more)

    @property
    def session(self) -> FederationSession:
        assert isinstance(self.member.session, FederationSession)
        return self.member.session

    @property
    def site(self) -> Federated:
        assert self.session.site is not None
        return self.session.site

    @property
    def inside(self) -> bool:
        return self.member.complete

    def send(self, group: str, payload: bytes, replaces: str | None = None) -> None:
        self.member.send(payload, replaces, group)

    def take(self) -> None:
        """Undo what has to be undone, and take what waits."""
        undo = self.session.to_undo()
        for message in undo:
            assert self.taken.pop() == place(message), "the last one that was taken comes first"
            self.undone.append(place(message))
        self.session.undid(undo)
        self.taken += [place(message) for message in self.member.receive_many()]


def place(message: Message) -> Place:
    return message.group, message.sender, int(message.source.incarnation), int(message.seq)


def formed(
    network: FakeNetwork, sites: Mapping[str, Sequence[str]], **settings: Any
) -> list[FakeSite]:
    """All of these, one federation."""
    found = [
        FakeSite(network, name, groups=tuple(groups), **settings) for name, groups in sites.items()
    ]
    assert network.run(lambda: all(one.inside for one in found), 30)
    assert network.run(lambda: same_graph(found, len(found)), 30)
    return found


def same_graph(sites: Iterable[FakeSite], count: int) -> bool:
    """Whether all have the same graph, and it has so many sites."""
    graphs = [one.site.graph() for one in sites]
    numbers = {None if graph is None else graph.number for graph in graphs}
    views = {len(one.site.view.present) for one in sites}
    return len(numbers) == 1 and None not in numbers and views == {count}


def run_and_take(network: FakeNetwork, sites: Sequence[FakeSite], seconds: float) -> None:
    """Let time go on while all applications take what comes."""
    end_ns = network.now_ns + round(seconds * 1e9)
    while network.now_ns < end_ns:
        network.run(seconds=0.01)
        for one in sites:
            if one.member.running:
                one.take()


def assert_agree(sites: Sequence[FakeSite]) -> None:
    """Any two have what both took in the same order, and members of a group all of it."""
    for one, other in itertools.combinations(sites, 2):
        both = set(one.taken) & set(other.taken)
        ours = [at for at in one.taken if at in both]
        assert ours == [at for at in other.taken if at in both], f"{one.name} and {other.name}"
        for group in set(one.site.groups()) & set(other.site.groups()):
            assert of(one, group) == of(other, group), f"{one.name} and {other.name} in {group}"


def of(site: FakeSite, group: str) -> list[Place]:
    return [at for at in site.taken if at[0] == group]
