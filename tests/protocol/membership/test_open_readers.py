"""Readers of groups whose members agree on views: members crash, leave and come, by agreement."""

import random
from dataclasses import replace

import pytest
from tests.protocol.membership.network import MS, ORIGIN, Network, Node, S
from tests.protocol.membership.test_readers import (
    MEMBER,
    READS,
    assert_complete,
    begins,
    has_all,
)

from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.newcomer import Newcomer
from semcast.protocol.membership.view import View


class Agreeing(Node):
    """A member of the first view, or a reader."""

    members = 3

    def make(self, config: MemberConfig, view: View, stream: random.Random) -> Member:
        if config.role == "reader":
            return super().make(config, view, stream)
        ids = tuple(range(self.members))
        names = tuple(f"p{at}" for at in ids)
        ones = (1,) * self.members
        f = min(config.f, self.members - 1)
        first = View(1, ids, ones, f, names, 0, ones, ORIGIN)
        return Member(config, self.me, first, stream, self.told)


class Open(Network):
    def __init__(self, members: int, seed: int = 1, loss: float = 0.0) -> None:
        super().__init__(seed, loss)
        Agreeing.members = members
        self.members = [self.add(at, MEMBER) for at in range(members)]
        self.run(50 * MS)

    def add(self, sender: int, config: MemberConfig, life: int = 1) -> Node:
        node = self.nodes[sender] = Agreeing(self, sender, config, life)
        self.send(node)
        return node

    def reader(self, sender: int) -> Node:
        node = self.add(sender, READS)
        self.until(lambda: node.member.inside, 10 * S)
        return node

    def alive(self) -> list[Node]:
        return [one for one in self.members if not one.down]

    def everybody_sends(self, messages: int) -> None:
        for _ in range(messages):
            for node in self.alive():
                self.until(lambda node=node: self.multicast(node), 60 * S)  # type: ignore[misc]
            self.run(MS)


def agreed_without(group: Open, sender: int) -> bool:
    return all(not one.member.view.is_present(sender) for one in group.alive())


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_missed_when_patrons_crash_and_the_members_agree_on_it(seed: int) -> None:
    draw = random.Random(f"open/{seed}")
    group = Open(5, seed, loss=draw.choice([0.0, 0.05]))
    reader = group.reader(100)
    for _ in range(2):
        group.everybody_sends(draw.randrange(5, 30))
        patrons = reader.member._detection.patrons  # type: ignore[attr-defined]
        victim = group.nodes[draw.choice(patrons)]
        gone = int(victim.me.sender)
        group.crash(victim)
        group.until(lambda gone=gone: agreed_without(group, gone), 30 * S)  # type: ignore[misc]
        group.everybody_sends(30)
        group.until(lambda: has_all(reader, group.alive()))
        group.run(5 * S)
    assert_complete(reader, group.alive())
    assert set(begins(reader).values()) == {1}
    # Members that are gone are dropped from the view, and the reader keeps nothing of them.
    group.until(lambda: len(reader.member.view.members) == 3, 30 * S)


def test_a_member_that_comes_is_read_from_its_first_message_on() -> None:
    group = Open(3)
    reader = group.reader(100)
    group.everybody_sends(5)
    node = group.add(7, READS)
    newcomer = Newcomer(node.me, "p7", MEMBER.limits, random.Random(7))
    while newcomer.view is None:
        newcomer.on_timer(group.now)
        for outgoing in newcomer.datagrams(group.now):
            for one in group.alive():
                one.member.receive(outgoing.frames, node.me, group.now)
                for answer in one.member.datagrams(group.now):
                    if answer.to in (-1, 7):
                        newcomer.receive(answer.frames, one.me, group.now)
                    group.put(one, answer)
        group.run(10 * MS)
    config = replace(MEMBER)
    node.member = Member(config, node.me, newcomer.view, random.Random(8), node.told, True)
    group.members.append(node)
    group.until(lambda: node.member.inside, 10 * S)
    group.until(lambda: 7 in reader.member.view.members, 10 * S)
    group.everybody_sends(20)
    group.until(lambda: has_all(reader, group.alive()))
    assert_complete(reader, group.alive())
    assert reader.got(node.me)[0] == 1


def test_readers_do_not_change_what_members_agree_on() -> None:
    group = Open(3)
    before = [one.member.view.number for one in group.members]
    nodes = [group.reader(100 + at) for at in range(5)]
    group.everybody_sends(10)
    for node in nodes[:3]:
        group.crash(node)
    group.leave(nodes[3])
    group.run(10 * S)
    assert [one.member.view.number for one in group.members] == before
    group.everybody_sends(100)
    group.until(lambda: has_all(nodes[4], group.members))
    assert_complete(nodes[4], group.members)


def comes(group: Open, sender: int) -> Node:
    """A process comes in as a member."""
    node = group.add(sender, READS)
    newcomer = Newcomer(node.me, f"p{sender}", MEMBER.limits, random.Random(sender))
    while newcomer.view is None:
        newcomer.on_timer(group.now)
        for outgoing in newcomer.datagrams(group.now):
            for one in group.alive():
                if (sender, int(one.me.sender)) in group.cut:
                    continue
                one.member.receive(outgoing.frames, node.me, group.now)
                for answer in one.member.datagrams(group.now):
                    if answer.to in (-1, sender):
                        newcomer.receive(answer.frames, one.me, group.now)
                    group.put(one, answer)
        group.run(10 * MS)
    stream = random.Random(sender)
    node.member = Member(replace(MEMBER), node.me, newcomer.view, stream, node.told, True)
    return node


def test_a_patron_that_does_not_know_of_a_newcomer_yet_does_not_end_its_stream() -> None:
    group = Open(3)
    reader = group.reader(100)
    group.everybody_sends(5)
    patrons = reader.member._detection.patrons  # type: ignore[attr-defined]
    behind = group.nodes[max(patrons)]
    others = [one for one in group.members if one is not behind]
    # The view does not reach it, but what the reader says does.
    group.split(others, [behind])
    group.cut |= {(7, int(behind.me.sender)), (int(behind.me.sender), 7)}
    node = comes(group, 7)
    group.until(lambda: 7 in reader.member.view.members, 5 * S)
    assert behind.member.view.position(7) < 0
    group.run(200 * MS)
    assert 7 in reader.member.view.members
    group.cut.clear()
    group.members.append(node)
    group.until(lambda: node.member.inside, 30 * S)
    group.everybody_sends(20)
    group.until(lambda: has_all(reader, group.alive()))
    assert reader.got(node.me) == list(range(1, 21))
    group.until(lambda: all(one.member.all_stable() for one in group.alive()))
