"""What others wait for is told at once, and without a storm of hellos."""

import pytest
from tests.live.fake_world import World

from semcast.live.meeting.notes import NEWS_NS, SEEKING_NS
from semcast.testing import FakeMember

NAMES = "abcdefghijklmnopqrst"


def hellos(world: World, members: list[FakeMember]) -> list[int]:
    """How many datagrams to everybody each of them sent; nobody multicasts anything else yet."""
    sent = [source for source, to, _ in world.network.seen if to is None]
    return [sent.count(one.session.transport.address) for one in members]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_members_that_come_together_need_not_wait_for_the_next_hello(count: int) -> None:
    world = World(names=NAMES[:count])
    began_ns = world.network.now_ns
    world.gather()
    assert world.network.now_ns - began_ns < SEEKING_NS


def test_one_that_comes_last_is_not_kept_waiting() -> None:
    world = World()
    members = [world.join(name) for name in "ab"]
    # Not a multiple of what lies between two hellos: those would do it too.
    world.network.run(seconds=1.013)
    members.append(world.join("c"))
    began_ns = world.network.now_ns
    assert world.network.run(lambda: all(one.complete for one in members))
    assert world.network.now_ns - began_ns < SEEKING_NS // 2


def test_one_that_comes_back_to_a_running_group_is_not_kept_waiting() -> None:
    world = World()
    _, _, c = world.gather()
    world.network.run(seconds=0.613)
    world.end(c, "crash")
    world.network.run(seconds=0.107)
    again = world.join("c")
    began_ns = world.network.now_ns
    assert world.network.run(lambda: again.complete)
    # Others say hello twice a second only.
    assert world.network.now_ns - began_ns < 2 * SEEKING_NS


def test_news_of_many_make_no_storm() -> None:
    """However much is new, nobody says hello more often than the pause allows."""
    world = World(names=NAMES)
    members: list[FakeMember] = []
    began_ns = world.network.now_ns
    for name in NAMES:
        members.append(world.join(name))
        world.network.run(seconds=0.003)
    assert world.network.run(lambda: all(one.complete for one in members))
    took_ns = world.network.now_ns - began_ns
    assert took_ns < 6 * SEEKING_NS
    # One more at the beginning, and one when the group is complete.
    assert max(hellos(world, members)) <= took_ns // NEWS_NS + 2


def test_a_group_with_nothing_new_says_hello_twice_a_second() -> None:
    world = World()
    members = world.gather()
    world.network.run(seconds=1.0)
    world.network.seen.clear()
    world.network.run(seconds=5.0)
    told = [source for source, _, datagram in world.network.seen if len(datagram) > 200]
    for one in members:
        assert told.count(one.session.transport.address) <= 11
