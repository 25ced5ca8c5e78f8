"""Readers of groups: served by patrons, complete from join to leave, and in nobody's way."""

import random
from dataclasses import replace

import pytest
from tests.protocol.membership.network import MS, Network, Node, S

from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View

MEMBER = MemberConfig(deliver_own=False, window_messages=64)
READS = replace(MEMBER, role="reader")
SLOW = replace(READS, delivery_messages=8)
BOUND = 4 * S


class Counted(Node):
    """A member of a group whose members are counted beforehand."""

    members = 3

    def make(self, config: MemberConfig, view: View, stream: random.Random) -> Member:
        if config.role == "reader":
            return super().make(config, view, stream)
        names = tuple(f"p{at}" for at in range(self.members))
        f = min(config.f, self.members - 1)
        first = View.first(list(range(self.members)), f, names=names)
        if self.me.incarnation > 1:
            first = first.with_life(int(self.me.sender), int(self.me.incarnation))
        joining = self.me.incarnation > 1
        return Member(replace(config, f=f), self.me, first, stream, self.told, joining)


class Group(Network):
    """Members that are there from the start, and readers that come and go."""

    def __init__(self, members: int = 3, seed: int = 1, loss: float = 0.0) -> None:
        super().__init__(seed, loss)
        Counted.members = members
        self.members = [self.add(at, MEMBER) for at in range(members)]
        self.run(50 * MS)

    def add(self, sender: int, config: MemberConfig, life: int = 1) -> Node:
        node = self.nodes[sender] = Counted(self, sender, config, life)
        self.send(node)
        return node

    def reader(self, sender: int, config: MemberConfig = READS) -> Node:
        node = self.add(sender, config)
        self.until(lambda: node.member.inside, 10 * S)
        return node

    def remove(self, node: Node) -> None:
        """It crashed, and the members agree on that."""
        self.crash(node)
        for one in self.members:
            if not one.down:
                one.member.remove(int(node.me.sender), self.now)
                self.send(one)

    def everybody_sends(self, messages: int, pause_ns: int = MS) -> None:
        for _ in range(messages):
            for node in self.members:
                if not node.down:
                    self.until(lambda node=node: self.multicast(node), 60 * S)  # type: ignore[misc]
            self.run(pause_ns)

    def served(self) -> list[int]:
        """How many readers each member serves."""
        return [readers_of(node) for node in self.members if not node.down]


def readers_of(node: Node) -> int:
    readers = node.member._readers
    assert readers is not None
    return len(readers)


def has_all(reader: Node, members: list[Node]) -> bool:
    return all(reader.got(one.me)[-1:] == [one.member.sent] for one in members)


def begin(reader: Node, of: Node) -> int:
    return max(seq for source, seq in reader.told.joined if source == of.me)


def assert_complete(reader: Node, members: list[Node]) -> None:
    """Everything from its beginnings on, which are no later than its join."""
    reader.check()
    for one in members:
        first = begin(reader, one)
        assert reader.got(one.me) == list(range(first, one.member.sent + 1))


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_a_reader_gets_everything_from_its_join_on(members: int) -> None:
    group = Group(members)
    group.everybody_sends(10)
    reader = group.reader(100)
    before = [one.member.sent for one in group.members]
    group.everybody_sends(50)
    group.until(lambda: has_all(reader, group.members))
    assert_complete(reader, group.members)
    for one, sent in zip(group.members, before, strict=True):
        assert begin(reader, one) <= sent + 1
    assert sum(group.served()) == min(members, 2)
    assert list(reader.member.view.members) == list(range(members))
    assert reader.member.view.names == tuple(f"p{at}" for at in range(members))


def test_a_reader_is_in_no_view_and_has_no_vote() -> None:
    group = Group(3)
    group.reader(100)
    for one in group.members:
        assert 100 not in one.member.view.members
    group.everybody_sends(5)
    group.until(lambda: all(one.member.all_stable() for one in group.members))


@pytest.mark.parametrize("seed", range(8))
def test_streams_are_complete_with_loss(seed: int) -> None:
    group = Group(4, seed, loss=0.1)
    readers = [group.reader(100 + at) for at in range(3)]
    group.everybody_sends(100)
    group.until(lambda: all(has_all(reader, group.members) for reader in readers))
    for reader in readers:
        assert_complete(reader, group.members)
    group.until(lambda: all(one.member.all_stable() for one in group.members))


def test_the_group_waits_for_a_slow_reader_and_goes_on() -> None:
    group = Group(3)
    reader = group.reader(100, SLOW)
    reader.takes = False
    sender = group.members[0]
    while group.multicast(sender):
        group.run(MS)
    group.run(10 * S)
    assert not group.multicast(sender)
    reader.takes = True
    reader.take()
    group.until(lambda: group.multicast(sender), 5 * S)
    group.until(lambda: has_all(reader, [sender]))
    assert_complete(reader, [sender])


def test_a_dead_reader_blocks_for_no_longer_than_the_bound() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.crash(reader)
    sender = group.members[0]
    while group.multicast(sender):
        group.run(MS)
    assert group.until(lambda: group.multicast(sender), 10 * S) < BOUND
    assert group.served() == [0, 0, 0]


def test_a_dead_reader_of_a_group_at_rest_is_forgotten_too() -> None:
    group = Group(3)
    group.crash(group.reader(100))
    group.until(lambda: group.served() == [0, 0, 0], 15 * S)


def test_readers_at_rest_are_not_forgotten() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.run(60 * S)
    assert sum(group.served()) == 2
    group.everybody_sends(5)
    group.until(lambda: has_all(reader, group.members))
    assert_complete(reader, group.members)
    assert len(reader.told.joined) == 3


def test_a_reader_that_leaves_is_waited_for_no_longer() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.leave(reader)
    group.run(5 * MS)
    assert group.served() == [0, 0, 0]
    group.everybody_sends(100)
    group.until(lambda: all(one.member.all_stable() for one in group.members))


# Patrons


def patrons(reader: Node, group: Group) -> list[Node]:
    return [group.members[at] for at in reader.member._detection.patrons]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_missed_when_patrons_crash_one_after_the_other(seed: int) -> None:
    """A patron crashes while messages flow; the members remove it at once or much later."""
    draw = random.Random(f"patrons/{seed}")
    group = Group(5, seed, loss=draw.choice([0.0, 0.05]))
    reader = group.reader(100)
    for _ in range(3):
        group.everybody_sends(draw.randrange(5, 30))
        victim = draw.choice(patrons(reader, group))
        if draw.random() < 0.5:
            group.crash(victim)
            group.run(draw.randrange(5 * S))
        group.remove(victim)
        group.everybody_sends(30)
        left = [one for one in group.members if not one.down]
        group.until(lambda left=left: has_all(reader, left))  # type: ignore[misc]

        # It finds another patron, and is safe from the next crash again.
        def is_served() -> bool:
            return sum(group.served()) == min(2, len(left))  # noqa: B023

        group.until(is_served, 10 * S)
        group.run(S)
    left = [one for one in group.members if not one.down]
    assert_complete(reader, left)
    assert all(count == 1 for count in begins(reader).values())


def begins(reader: Node) -> dict[object, int]:
    found: dict[object, int] = {}
    for source, _ in reader.told.joined:
        found[source] = found.get(source, 0) + 1
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_a_crashed_member_sent_comes_to_the_reader_as_to_the_members(seed: int) -> None:
    group = Group(4, seed, loss=0.1)
    reader = group.reader(100)
    group.everybody_sends(20)
    sender = group.members[0]
    group.multicast(sender)
    group.remove(sender)
    left = group.members[1:]
    group.everybody_sends(5)
    group.until(lambda: has_all(reader, left))
    group.run(5 * S)
    taken = {tuple(one.got(sender.me)) for one in left}
    assert len(taken) == 1
    # It may have got a last message that no member has: nobody asks a reader for anything.
    last = max(taken.pop())
    assert reader.got(sender.me)[: last - begin(reader, sender) + 1] == list(
        range(begin(reader, sender), last + 1)
    )
    reader.check()
    # Nothing of it is kept, once all have it.
    group.until(lambda: 0 not in reader.member.view.members, 10 * S)
    assert reader.member.stats()["sources_held"] == 3


def test_a_patron_that_leaves_sends_its_readers_elsewhere() -> None:
    group = Group(4)
    reader = group.reader(100)
    group.everybody_sends(5)
    (patron, _) = patrons(reader, group)
    patron.member.begin_leaving(group.now)
    group.send(patron)
    group.until(lambda: patron.member.may_leave([], group.now), 10 * S)
    group.remove(patron)
    left = [one for one in group.members if not one.down]
    group.everybody_sends(20)
    group.until(lambda: has_all(reader, left))
    assert_complete(reader, left)
    assert len(reader.told.joined) == 4
    group.until(lambda: sum(group.served()) == 2)


# Stops and lives


def test_a_reader_that_was_stopped_goes_on_or_begins_anew_and_is_told() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.everybody_sends(10)
    group.stop(reader)
    group.everybody_sends(100)
    group.run(5 * S)
    reader.queued.clear()
    group.resume(reader)
    group.until(lambda: sum(group.served()) == 2, 10 * S)
    group.run(S)
    group.everybody_sends(20)
    group.until(lambda: has_all(reader, group.members))
    reader.check()
    assert set(begins(reader).values()) == {2}


def test_a_reader_that_was_stopped_for_a_moment_misses_nothing() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.everybody_sends(10)
    group.stop(reader)
    group.run(2 * S)
    reader.queued.clear()
    group.resume(reader)
    group.everybody_sends(20)
    group.until(lambda: has_all(reader, group.members))
    assert_complete(reader, group.members)
    assert set(begins(reader).values()) == {1}


def test_a_reader_in_a_later_life_begins_anew() -> None:
    group = Group(3)
    group.crash(group.reader(100))
    again = group.add(100, READS, life=2)
    group.until(lambda: again.member.inside, 10 * S)
    group.everybody_sends(100)
    group.until(lambda: has_all(again, group.members))
    assert_complete(again, group.members)


def test_a_member_that_comes_back_is_read_again() -> None:
    group = Group(3)
    reader = group.reader(100)
    group.everybody_sends(10)
    victim = group.members[0]
    group.remove(victim)
    group.everybody_sends(5)
    group.run(S)
    node = group.members[0] = group.add(0, MEMBER, life=2)
    group.until(lambda: node.member.inside, 10 * S)
    group.until(lambda: reader.member.view.life(0) == 2, 10 * S)
    group.everybody_sends(30)
    group.until(lambda: has_all(reader, group.members))
    assert_complete(reader, group.members)


# Many


def test_a_hundred_readers_come_and_go_while_members_send() -> None:
    group = Group(3, loss=0.01)
    steady = group.reader(99)
    draw = random.Random("come and go")
    nodes: list[Node] = []
    for at in range(100):
        nodes.append(group.add(100 + at, READS))
        group.everybody_sends(3)
        if len(nodes) > 10:
            gone = nodes.pop(draw.randrange(len(nodes)))
            gone.check()
            group.leave(gone)
    group.until(lambda: all(has_all(node, group.members) for node in [steady, *nodes]))
    for node in [steady, *nodes]:
        assert_complete(node, group.members)


def test_nothing_grows_when_many_readers_come_and_go() -> None:
    group = Group(3)
    for at in range(300):
        node = group.add(100 + at, READS)
        group.run(3 * MS)
        group.multicast(group.members[0])
        if at % 10 == 0:
            group.crash(node)
        else:
            group.leave(node)
    group.run(15 * S)
    assert group.served() == [0, 0, 0]
    for one in group.members:
        # Beside the members: none, with which lists of what stands begin.
        assert len(one.member._decoder.sources) <= 3 + 1
        assert len(one.member._asking._peers) == 2
        assert one.member._readers is not None
        assert not one.member._readers._held
    group.until(lambda: all(one.member.all_stable() for one in group.members))
