"""Readers of groups that were forgotten: they get what stands of senders that ended meanwhile."""

import pytest
from tests.protocol.membership.network import MS, Node, S
from tests.protocol.membership.test_readers import MEMBER, Group, has_all

from semcast.ids import Source


def values(group: Group, node: Node, *keys: str) -> None:
    for key in keys:
        group.until(lambda key=key: group.multicast(node, b"v", key))  # type: ignore[misc]
    group.run(200 * MS)


def ends(group: Group, node: Node) -> None:
    """A member crashes, and in the end nothing is kept of it."""
    group.remove(node)
    group.run(3 * S)


def forgotten(group: Group, reader: Node) -> None:
    """Stop a reader until nobody serves it any more."""
    group.stop(reader)
    values(group, group.members[1], "own")
    group.until(lambda: group.served()[-1] == 0 and sum(group.served()) == 0, 20 * S)


def back(group: Group, reader: Node) -> None:
    reader.queued.clear()
    group.resume(reader)
    group.until(lambda: sum(group.served()) == 2, 20 * S)
    group.until(lambda: not reader.member.transfer.pending, 20 * S)
    group.run(S)


def got(reader: Node, source: Source) -> list[int]:
    found = reader.got(source)
    assert len(found) == len(set(found)), "nothing comes twice"
    return found


def test_a_reader_that_comes_gets_what_stands_of_senders_that_have_ended() -> None:
    group = Group(3)
    values(group, group.members[0], "a", "b", "a")
    ends(group, group.members[0])
    reader = group.reader(100)
    back(group, reader)
    assert got(reader, Source(0, 1)) == [2, 3]


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_one_that_was_forgotten_gets_what_stands_of_senders_that_came_and_ended(
    loss: float,
) -> None:
    group = Group(3, loss=loss)
    values(group, group.members[0], "a", "b")
    reader = group.reader(100)
    group.run(S)
    assert got(reader, Source(0, 1)) == [1, 2]
    forgotten(group, reader)
    ends(group, group.members[0])
    again = group.members[0] = group.add(0, MEMBER, life=2)
    group.until(lambda: again.member.inside, 10 * S)
    values(group, again, "c", "d", "c")
    ends(group, again)
    back(group, reader)
    assert got(reader, Source(0, 2)) == [2, 3]
    assert got(reader, Source(0, 1)) == [1, 2], "of what it has, nothing comes again"
    values(group, group.members[1], "e", "f")
    group.until(lambda: has_all(reader, [group.members[1]]))


def test_one_that_was_forgotten_gets_what_changed_of_senders_that_have_ended() -> None:
    group = Group(3)
    values(group, group.members[0], "a", "b")
    reader = group.reader(100)
    group.run(S)
    group.stop(reader)
    values(group, group.members[0], "b", "c")
    forgotten(group, reader)
    ends(group, group.members[0])
    back(group, reader)
    assert got(reader, Source(0, 1)) == [1, 2, 3, 4]


def test_one_that_was_forgotten_gets_all_that_stands_of_a_sender_that_had_been_silent() -> None:
    group = Group(4)
    reader = group.reader(100)
    group.run(S)
    forgotten(group, reader)
    values(group, group.members[3], "a", "b", "a")
    ends(group, group.members[3])
    back(group, reader)
    assert got(reader, Source(3, 1)) == [2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_one_that_is_forgotten_again_and_again_lacks_nothing_that_stands(seed: int) -> None:
    group = Group(3, seed, loss=0.05)
    reader = group.reader(100)
    expected: set[tuple[int, int]] = set()
    for life in range(2, 6):
        forgotten(group, reader)
        sender = group.members[0]
        keys = [f"{life} {at}" for at in range(seed)]
        values(group, sender, "x", *keys)
        expected.update((int(sender.me.incarnation), 2 + at) for at in range(len(keys)))
        if (seed + life) % 2:
            back(group, reader)
        ends(group, sender)
        group.members[0] = group.add(0, MEMBER, life)
        group.until(lambda: group.members[0].member.inside, 10 * S)
        back(group, reader)
    for one in range(1, 6):
        assert {(one, seq) for seq in got(reader, Source(0, one))} >= {
            (life, seq) for life, seq in expected if life == one
        }


def test_one_that_was_not_forgotten_asks_for_nothing() -> None:
    group = Group(3)
    values(group, group.members[0], "a", "b")
    reader = group.reader(100)
    group.run(S)
    begun = reader.member.transfer.begun
    values(group, group.members[0], "b", "c")
    ends(group, group.members[0])
    values(group, group.members[1], "d")
    assert got(reader, Source(0, 1)) == [1, 2, 3, 4]
    assert reader.member.transfer.begun == begun
