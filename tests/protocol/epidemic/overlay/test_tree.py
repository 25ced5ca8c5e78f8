"""The tree: each message comes about once, and comes all the same if a link or a member is gone."""

from random import Random

import pytest
from tests.protocol.epidemic.overlay.member_world import SECOND_NS, Dress, MemberWorld

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull, PullConfig
from semcast.protocol.epidemic.overlay.tree import Tree, TreeConfig
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.part import Part
from semcast.wire.families.pull import LAZY, IHave, Want

MEMBERS = 40


def as_tree(overlay: Overlay, random: Random) -> tuple[Targets, tuple[Part, ...]]:
    # Summaries come so rarely that all repair here is the tree's.
    pull = Pull(overlay.me.source, PullConfig(round_ns=10_000 * SECOND_NS), overlay, random, 0)
    return Tree(TreeConfig(), overlay, pull), ()


def as_tree_with_summaries(overlay: Overlay, random: Random) -> tuple[Targets, tuple[Part, ...]]:
    pull = Pull(overlay.me.source, PullConfig(), overlay, random, 0)
    return Tree(TreeConfig(), overlay, pull), ()


def tree_of(world: MemberWorld, number: int) -> Tree:
    tree = world.dressed[number]
    assert isinstance(tree, Tree)
    return tree


def copies(world: MemberWorld) -> int:
    return sum(member.stats()["copies_received"] for member in world.members.values())


def grown(dress: Dress = as_tree) -> MemberWorld:
    """A group whose tree has grown over some messages of one sender."""
    world = MemberWorld(MEMBERS, dress)
    world.run(12 * SECOND_NS)
    for at in range(10):
        world.multicast(1, b"first %d" % at)
        world.run(SECOND_NS // 4)
    return world


def test_a_tree_brings_each_message_about_once_where_a_flood_brings_it_four_times() -> None:
    world = grown()
    before = copies(world)
    for at in range(20):
        world.multicast(1, b"message %d" % at)
        world.run(SECOND_NS // 4)
    each = (copies(world) - before) / (20 * (MEMBERS - 1))
    assert each < 1.2, each
    for number in range(2, MEMBERS + 1):
        got = world.got(number)
        assert len(got) == 30
        assert len(set(got)) == 30


def test_every_link_is_of_the_same_kind_at_both_ends_and_eager_ones_make_a_tree() -> None:
    world = grown()
    world.run(SECOND_NS)
    eager = {
        (number, to)
        for number in world.members
        for to in world.overlays[number].neighbours()
        if to not in tree_of(world, number).lazy
    }
    both = {(one, two) for one, two in eager if (two, one) in eager and one < two}
    reached, grew = {1}, True
    while grew:
        further = {b for pair in both for a, b in (pair, pair[::-1]) if a in reached} - reached
        reached |= further
        grew = bool(further)
    assert len(reached) == MEMBERS
    assert len(both) < MEMBERS * 1.2, "hardly more links than a tree has"


def test_a_torn_tree_is_mended_by_links_that_tell_of_what_does_not_come() -> None:
    world = grown()
    dead = range(2, 12)
    for number in dead:
        del world.members[number]
    for at in range(12):
        world.multicast(1, b"later %d" % at)
        world.run(SECOND_NS // 2)
    world.run(2 * SECOND_NS)
    alive = [number for number in world.members if number != 1]
    grafts = sum(int(tree_of(world, number).grafts) for number in alive)
    assert grafts > 0
    missed = [
        (number, at)
        for number in alive
        for at in range(12)
        if b"later %d" % at not in world.got(number)
    ]
    assert missed == []


def test_over_links_that_lose_a_fifth_the_tree_brings_most_and_digests_the_rest() -> None:
    """If no lazy link leads to somebody who has a message, nobody tells of it."""
    world = grown(as_tree_with_summaries)
    world.loss = 0.2
    for at in range(20):
        world.multicast(1, b"lossy %d" % at)
        world.run(SECOND_NS // 5)
    world.run(8 * SECOND_NS)
    for number in range(2, MEMBERS + 1):
        assert {b"lossy %d" % at for at in range(20)} <= set(world.got(number))


def test_strangers_cannot_make_links_lazy_nor_fill_the_memory_of_missing_messages() -> None:
    world = grown()
    tree = tree_of(world, 1)
    stranger = Source(999, 1)
    tree.on_frame(Want([], LAZY), stranger, world.now_ns)
    assert 999 not in tree.lazy
    for at in range(200):
        told = [(Source(5_000 + at, 1), seq, 1) for seq in range(1, 18)]
        tree.on_frame(IHave(told), stranger, world.now_ns)
    assert len(tree._missing) <= 1_024
    world.run(5 * SECOND_NS)
    assert len(tree._missing) == 0, "nobody has them, so nobody is asked for ever"


def test_settings_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="tree wait_ns is 0"):
        TreeConfig(wait_ns=0)
