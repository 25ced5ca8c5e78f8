"""Anything may happen to a feed or to a group's readers; then it heals, and all is as it should be.

Readers crash, come back, leave, are stopped and cut off, while messages flow over a network that
loses and reorders. Every application's stream is complete from each beginning on, nothing comes
twice, nobody waits for ever, and in the end all who are there have the last message.
"""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.protocol.membership.network import MS, Network, Node, S
from tests.protocol.membership.test_feed import READS, SENDS, SLOW
from tests.protocol.membership.test_open_readers import Open
from tests.protocol.membership.test_readers import READS as GROUP_READS

from semcast.protocol.config import MemberConfig


class Chaos:
    """What befalls the readers of some senders."""

    def __init__(
        self, net: Network, senders: list[Node], reads: list[MemberConfig], seed: int
    ) -> None:
        self.net = net
        self.senders = senders
        self.reads = reads
        self.draw = random.Random(f"chaos/{seed}")
        self.lives: dict[int, int] = {}
        self.here: list[Node] = []
        self.all: list[Node] = []
        self.steps: list[Callable[[], None]] = [
            self.comes,
            self.comes,
            self.crashes,
            self.leaves,
            self.stops,
            self.goes_on,
            self.is_cut_off,
            self.heals,
        ]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.draw.choice(self.steps)()
            for _ in range(self.draw.randrange(40)):
                self.net.multicast(self.draw.choice(self.senders))
                self.net.run(self.draw.choice([0, MS, 5 * MS]))
            self.net.run(self.draw.choice([0, 50 * MS, S, 5 * S]))
        self.net.cut.clear()
        self.net.loss = 0.0
        for node in self.here:
            if node.stopped:
                self.net.resume(node)

    def comes(self) -> None:
        if len(self.here) < 8:
            sender = 100 + self.draw.randrange(12)
            if all(node.me.sender != sender for node in self.here):
                life = self.lives[sender] = self.lives.get(sender, 0) + 1
                node = self.net.add(sender, self.draw.choice(self.reads), life)
                self.here.append(node)
                self.all.append(node)

    def _one(self) -> Node | None:
        running = [node for node in self.here if not node.stopped]
        return self.draw.choice(running) if running else None

    def crashes(self) -> None:
        node = self._one()
        if node is not None:
            self.here.remove(node)
            self.net.crash(node)

    def leaves(self) -> None:
        node = self._one()
        if node is not None:
            self.here.remove(node)
            self.net.leave(node)

    def stops(self) -> None:
        node = self._one()
        if node is not None:
            self.net.stop(node)

    def goes_on(self) -> None:
        for node in self.here:
            if node.stopped:
                if self.draw.random() < 0.5:
                    node.queued.clear()
                self.net.resume(node)

    def is_cut_off(self) -> None:
        node = self._one()
        if node is not None:
            ids = int(node.me.sender), int(self.draw.choice(self.senders).me.sender)
            self.net.cut.add(ids)
            if self.draw.random() < 0.7:
                self.net.cut.add((ids[1], ids[0]))

    def heals(self) -> None:
        self.net.cut.clear()

    def judge(self) -> None:
        """Everybody is served again, the senders go on, and all get the last message."""
        net = self.net
        net.until(lambda: all(node.member.inside for node in self.here), 60 * S)
        net.run(30 * S)
        for sender in self.senders:
            net.until(lambda sender=sender: net.multicast(sender), 20 * S)  # type: ignore[misc]
        net.until(self._all_caught_up, 30 * S)
        for node in self.all:
            node.check()

    def _all_caught_up(self) -> bool:
        return all(
            node.got(sender.me)[-1:] == [sender.member.sent]
            for node in self.here
            for sender in self.senders
        )


# In case 104 a stream begins anew while it is asked for what is gone.
@pytest.mark.parametrize("seed", [*range(10), 104])
def test_a_feed(seed: int) -> None:
    draw = random.Random(seed)
    net = Network(seed, draw.choice([0.0, 0.05, 0.2]), draw.choice([MS, 20 * MS]))
    senders = [net.add(at, SENDS) for at in range(draw.choice([1, 2, 3]))]
    net.until(lambda: all(node.member.inside for node in senders))
    chaos = Chaos(net, senders, [READS, SLOW, replace(READS, order="key")], seed)
    chaos.run(40)
    chaos.judge()


@pytest.mark.parametrize("seed", range(6))
def test_readers_of_a_group(seed: int) -> None:
    draw = random.Random(seed)
    group = Open(draw.choice([1, 2, 3, 5]), seed, draw.choice([0.0, 0.05]))
    chaos = Chaos(group, group.members, [GROUP_READS], seed)
    chaos.run(30)
    chaos.judge()
