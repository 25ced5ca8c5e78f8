"""A member restarts a hundred times under traffic; real sessions on a network in memory, in virtual
time. Survivors get what every life sent, and keep nothing of the lives that are over.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.live.fake_world import World

from semcast.errors import WindowFullError
from semcast.ids import Source
from semcast.protocol.machine import Machine
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.testing import FakeMember, FakeNetwork

SECRET = "a secret that only tests have"
TIMES = 100
# What each life sends that is never replaced, beside as many values of a key.
EACH = 4
LOSS = 0.05
# Of each member: the stream of its life, and of former ones that somebody still lacks a part of.
SOURCES_MAX = 3 * 3
SETTINGS = {"reliability": "group", "gossip_period_ms": 20.0}


class Reader:
    """What one survivor got, by the life that sent it."""

    def __init__(self, member: FakeMember) -> None:
        self.member = member
        self.got: dict[Source, list[bytes]] = defaultdict(list)

    def read(self) -> None:
        for message in self.member.receive_many():
            if not message.key:
                self.got[message.source].append(message.payload)


class Restarting:
    """A group of a, b and c, of whom a and c send, and c restarts."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.world = World(seed)
        self.world.settings |= SETTINGS | settings
        a, b, self.c = self.world.gather()
        self.readers = [Reader(a), Reader(b)]
        self.sent: dict[Source, list[bytes]] = defaultdict(list)
        self.world.network.loss = LOSS

    def restart(self) -> None:
        """It is gone at once, and back at another address before anybody can have noticed."""
        self.world.end(self.c, "crash")
        self.c = self.world.join("c")
        self.go_on(lambda: self.c.complete)

    def go_on(self, until: Callable[[], bool], seconds: float = 30.0) -> None:
        """Everybody takes what comes while time goes on."""

        def done() -> bool:
            for reader in self.readers:
                reader.read()
            self.c.receive_many()
            return until()

        assert self.world.network.run(done, seconds), "it never came to that"

    def send(self, member: FakeMember) -> None:
        """Some messages, as there is room for them."""
        me = member.session.me
        for number in range(2 * EACH):
            text, key = b"%d" % len(self.sent[me]), None if number % 2 else "key"
            self.go_on(partial(self.accepted, member, text, key))
            if key is None:
                self.sent[me].append(text)

    @staticmethod
    def accepted(member: FakeMember, text: bytes, key: str | None) -> bool:
        try:
            member.send(text, key)
        except WindowFullError:
            return False
        return True

    def all_have_it(self) -> bool:
        """What c sent in this life."""
        return self.c.stable

    def rest(self) -> None:
        """All have everything: nobody keeps a message for others, of whatever life, and the last
        life has got what stood when it came.
        """
        self.world.network.loss = 0.0
        self.go_on(lambda: all(one.stats()["retained_held"] == 0 for one in self.members()))
        self.go_on(lambda: not any(one.stats()["state_pending"] for one in self.members()))
        self.c.receive_many()

    def members(self) -> list[Machine]:
        everybody = [*(reader.member for reader in self.readers), self.c]
        return [one.session.member for one in everybody if one.session.member is not None]

    def forgot_what_is_over(self) -> bool:
        """Nobody keeps anything of lives that are over and that all have everything of."""
        return all(one.stats()["sources_held"] <= SOURCES_MAX for one in self.members())


@pytest.mark.parametrize("stability", ["gossip", "s_coordp"])
def test_a_hundred_restarts_of_a_sender_lose_nothing_and_leave_nothing(stability: str) -> None:
    """Half of its lives end when all have what it sent, and half right after it was sent."""
    group = Restarting(seed=1, stability=stability)
    a, b = group.readers
    whole: list[Source] = [a.member.session.me]
    for time in range(TIMES):
        group.send(group.c)
        group.send(a.member)
        if time % 2:
            whole.append(group.c.session.me)
            group.go_on(group.all_have_it)
        group.restart()
    group.rest()
    for life in whole:
        assert [reader.got[life] for reader in (a, b)] == [group.sent[life]] * 2
    for life, sent in group.sent.items():
        # Once, in order, and the same to both, though the end of it may be lost with its sender.
        assert a.got[life] == b.got[life] == sent[: len(a.got[life])]
    assert len(group.sent) == TIMES + 1
    group.world.check()
    group.go_on(group.forgot_what_is_over)


def test_what_is_held_does_not_grow_with_the_number_of_restarts() -> None:
    group = Restarting(seed=2)
    for _ in range(3):
        for _ in range(10):
            group.send(group.c)
            group.restart()
        group.rest()
        group.go_on(group.forgot_what_is_over)
        group.world.network.loss = LOSS
    group.rest()
    group.world.check()


@pytest.mark.parametrize("stability", STABILITY_PROTOCOLS)
def test_who_comes_back_to_a_group_at_rest_is_in_soon_and_misses_nothing_from_then_on(
    stability: str,
) -> None:
    """Where nobody has ever sent anything there are no rounds, unless it asks for one."""
    for seed, back in enumerate(("a", "b", "c")):
        network = FakeNetwork(seed=seed)
        given: dict[str, Any] = {"members": ["a", "b", "c"], "secret": SECRET}
        given |= {"stability": stability}
        group = {name: network.join("quotes", name=name, **given) for name in given["members"]}
        assert network.run(lambda of=group: all(one.complete for one in of.values()), 10)  # type: ignore[misc]
        network.run(seconds=2)
        group[back].crash()
        network.run(seconds=1)
        began_ns = network.now_ns
        late = network.join("quotes", name=back, **given)
        assert network.run(lambda one=late: one.session.inside, 10)  # type: ignore[misc]
        assert network.now_ns - began_ns < 500_000_000
        other = group["b" if back == "a" else "a"]
        hosts = [one.session.transport.address[0] for one in (other, late)]
        network.severed.add((hosts[0], hosts[1]))
        other.send(b"never replaced")
        network.run(seconds=0.15)
        network.severed.clear()
        network.run(seconds=5)
        assert [message.payload for message in late.receive_many()] == [b"never replaced"]
