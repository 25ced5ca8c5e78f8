"""Overlays of many members, in virtual time: formed, crashed, cut in two, under churn and loss."""

from collections.abc import Callable
from random import Random

import pytest
from bench.overlay_shape import faults, shape_of
from bench.overlay_world import SECOND_NS, OverlayWorld

from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.overlay import ALONE, DOWN, SPLIT, UP
from semcast.wire.families.overlay import (
    ANSWERS,
    ASKS,
    URGENT,
    Disconnect,
    Neighbor,
    Pulse,
)
from semcast.wire.frames import ControlFrame


def formed(
    members: int, seed: int = 1, config: OverlayConfig | None = None, loss: float = 0.0
) -> OverlayWorld:
    """An overlay of so many, all of which came through the first, within three seconds."""
    world = OverlayWorld(seed, config, loss)
    world.add_all(range(1, members + 1), 1, 3 * SECOND_NS)
    world.run(15 * SECOND_NS)
    return world


def cut(world: OverlayWorld) -> None:
    """Nothing goes between the members with odd and those with even numbers."""
    world.sides = {number: number % 2 for number in world.members}


def kinds(world: OverlayWorld, kind: str) -> int:
    return sum(
        event.kind == kind for overlay in world.members.values() for event in overlay.events()
    )


# Forming


def test_a_thousand_members_form_one_overlay_through_one_contact() -> None:
    world = formed(1_000)
    assert faults(world.members) == []
    shape = shape_of(world.members)
    assert shape.degree_mean > 4.7
    assert min(shape.degrees) >= 2
    assert shape.passive_size_mean > 29
    assert shape.passive_in_min >= 1, "everybody is known to somebody who is no neighbour"
    # A random graph of this size has 0.005 and 4.7.
    assert shape.clustering < 0.02
    assert shape.path_mean < 6
    flood = world.flood(17)
    world.run(SECOND_NS)
    assert len(flood.hops) == 1_000
    assert flood.copies < 4.2 * 1_000


def test_eight_in_ten_crash_and_the_rest_gets_everything_five_rounds_later() -> None:
    """HyParView claims it for 10,000 members; `bench.overlay` measures that."""
    world = formed(1_000)
    world.crash(Random("crash").sample(sorted(world.members), 800))
    alive = sorted(world.members)
    world.run(5 * world.config.round_ns)
    shares = []
    for number in Random("senders").sample(alive, 20):
        flood = world.flood(number)
        world.run(SECOND_NS // 2)
        shares.append(len(flood.hops) / len(alive))
    assert min(shares) >= 0.99, shares
    world.run(35 * world.config.round_ns)
    assert faults(world.members) == []


@pytest.mark.parametrize("members", [2, 3, 5, 7])
def test_a_few_members_all_know_each_other(members: int) -> None:
    world = formed(members)
    assert faults(world.members) == []
    for overlay in world.members.values():
        assert len(overlay.known()) == members - 1


def test_an_overlay_forms_where_a_tenth_of_the_datagrams_is_lost() -> None:
    world = formed(300, loss=0.1)
    world.run(10 * SECOND_NS)
    shape = shape_of(world.members)
    assert shape.islands == 1
    # A link may be torn at one end at the moment, but none stays so.
    assert shape.symmetric > 0.98


def test_traffic_and_memory_of_a_member_do_not_grow_with_the_group() -> None:
    """Frames and bytes in ten rounds at rest, of 100 members and of 800."""
    figures = []
    for members in (60, 480):
        world = formed(members)
        frames, size = world.frames_sent, world.bytes_sent
        world.run(10 * world.config.round_ns)
        figures.append(
            ((world.frames_sent - frames) / members, (world.bytes_sent - size) / members)
        )
        for overlay in world.members.values():
            assert len(overlay.known()) <= 35
            assert len(overlay.views.exiles) <= 16
    assert figures[1][0] < figures[0][0] * 1.2
    assert figures[1][1] < figures[0][1] * 1.2
    # Pulses, the steps of one shuffle, a question and its answer, each round.
    assert figures[1][0] < 10 * 20


def test_members_come_and_go_all_the_time() -> None:
    """A twentieth of the group each second, for twenty seconds; half of them crash."""
    world = formed(200)
    random, coming = Random("churn"), 1_000
    for at in range(20):
        gone = random.sample(sorted(world.members), 10)
        world.crash(gone[:5])
        for number in gone[5:]:
            world.members[number].goodbye()
            world._after(number, world.members[number])
            del world.members[number]
        for number in range(10):
            world.add(coming + 10 * at + number, random.choice(sorted(world.members)))
        world.run(SECOND_NS)
    world.run(40 * SECOND_NS)
    assert faults(world.members) == []
    assert len(world.members) == 200


def test_members_that_restart_are_neighbours_in_their_new_lives_only() -> None:
    world = formed(100)
    again = list(range(10, 60))
    world.crash(again)
    for number in again:
        world.add(number, 1)
    world.run(30 * SECOND_NS)
    assert faults(world.members, 0.02) == []


def test_the_same_seed_gives_the_same_overlay() -> None:
    first, second = formed(60), formed(60)
    assert shape_of(first.members) == shape_of(second.members)
    assert first.frames_sent == second.frames_sent
    assert [m.neighbours() for m in first.members.values()] == [
        m.neighbours() for m in second.members.values()
    ]


# Splits


def test_a_network_that_was_cut_for_a_minute_is_one_overlay_again() -> None:
    """By then neither side knows anybody of the other, but for those that were lost."""
    world = formed(100)
    cut(world)
    world.run(60 * SECOND_NS)
    apart = shape_of(world.members)
    assert (apart.islands, apart.largest_island, apart.symmetric) == (2, 50, 1.0)
    assert all(
        entry.source.sender % 2 == number % 2
        for number, overlay in world.members.items()
        for entry in overlay.views.passive.all()
    )
    kinds(world, SPLIT)
    world.sides = {}
    world.run(30 * SECOND_NS)
    assert faults(world.members) == []
    assert kinds(world, SPLIT) > 0, "it is told"
    flood = world.flood(1)
    world.run(SECOND_NS)
    assert len(flood.hops) == 100


def test_two_overlays_that_were_begun_apart_become_one_when_one_member_hears_of_the_other() -> None:
    world = OverlayWorld(3)
    world.add_all(range(1, 61), 1, SECOND_NS)
    world.add_all(range(101, 161), 101, SECOND_NS)
    world.run(40 * SECOND_NS)
    assert shape_of(world.members).islands == 2
    # Full views take nobody; only that they are apart makes them.
    world.members[30].enter(world.entry(130), world.now_ns)
    world.run(20 * SECOND_NS)
    assert faults(world.members) == []
    beacons = {overlay.island.beacon.sender for overlay in world.members.values()}
    assert beacons == {1}


def test_no_split_is_told_where_there_is_none_even_if_the_root_dies() -> None:
    world = formed(80)
    world.run(40 * SECOND_NS)
    kinds(world, SPLIT)
    world.crash([1])
    world.run(60 * SECOND_NS)
    assert {overlay.island.beacon.sender for overlay in world.members.values()} == {2}
    assert kinds(world, SPLIT) == 0


def test_a_member_without_neighbours_says_so_and_enters_again_when_it_can() -> None:
    world = formed(20)
    world.sides = {7: 1}
    world.run(30 * SECOND_NS)
    assert world.members[7].neighbours() == []
    told = [event.kind for event in world.members[7].events()]
    assert told.count(ALONE) == 1
    assert told.count(DOWN) == told.count(UP)
    world.sides = {}
    world.run(30 * SECOND_NS)
    assert faults(world.members) == []


# Broken variants, each of which `faults` finds

Tamper = Callable[[OverlayWorld], Callable[[int, int, ControlFrame], ControlFrame | None]]


def without_disconnect(
    world: OverlayWorld,  # noqa: ARG001
) -> Callable[[int, int, ControlFrame], ControlFrame | None]:
    """Who drops a neighbour does not say so: views are no longer symmetric."""

    def tamper(number: int, to: int, frame: ControlFrame) -> ControlFrame | None:  # noqa: ARG001
        return None if isinstance(frame, Disconnect) else frame

    return tamper


def with_ghosts(world: OverlayWorld) -> Callable[[int, int, ControlFrame], ControlFrame | None]:
    """Entries of passive views are never checked: whoever is asked seems to live."""

    def tamper(number: int, to: int, frame: ControlFrame) -> ControlFrame | None:
        if isinstance(frame, Pulse) and frame.marks == ASKS and to not in world.members:
            answer = Pulse(ANSWERS, frame.number, frame.beacon, frame.beat, 0)
            asked = world.members[number]._doubts.get(to)
            if asked is not None:
                world._push(world.now_ns + 1, number, asked.entry.source, answer)
            return None
        return frame

    return tamper


def without_urgency(
    world: OverlayWorld,  # noqa: ARG001
) -> Callable[[int, int, ControlFrame], ControlFrame | None]:
    """Full views make room for nobody: a split stays."""

    def tamper(number: int, to: int, frame: ControlFrame) -> ControlFrame | None:  # noqa: ARG001
        if isinstance(frame, Neighbor) and frame.marks == URGENT:
            return Neighbor(0, frame.number, frame.sender)
        return frame

    return tamper


def without_roots(
    world: OverlayWorld,
) -> Callable[[int, int, ControlFrame], ControlFrame | None]:
    """Pulses do not say on which island their sender is: a split is not noticed."""

    def tamper(number: int, to: int, frame: ControlFrame) -> ControlFrame | None:
        if isinstance(frame, Pulse):
            beacon = world.members[to].island.beacon if to in world.members else frame.beacon
            return Pulse(frame.marks, frame.number, beacon, world.now_ns // SECOND_NS, frame.steady)
        assert number
        return frame

    return tamper


def crash_half(world: OverlayWorld) -> None:
    world.crash(range(2, 61, 2))
    # Only checks find who is dead: nobody lacks a neighbour for long.
    world.run(60 * SECOND_NS)


def join_many(world: OverlayWorld) -> None:
    world.add_all(range(201, 301), 50, 2 * SECOND_NS)
    world.run(10 * SECOND_NS)


def begin_apart(world: OverlayWorld) -> None:
    world.add_all(range(201, 251), 201, SECOND_NS)
    world.run(40 * SECOND_NS)
    world.members[30].enter(world.entry(230), world.now_ns)
    world.run(30 * SECOND_NS)


@pytest.mark.parametrize(
    ("broken", "story", "finding"),
    [
        (without_disconnect, join_many, "at one end only"),
        (with_ghosts, crash_half, "entries are dead"),
        (without_urgency, begin_apart, "2 islands"),
        (without_roots, begin_apart, "2 islands"),
    ],
)
def test_broken_variants_are_found(
    broken: Tamper, story: Callable[[OverlayWorld], None], finding: str
) -> None:
    sound, ill = formed(60), formed(60)
    ill.tamper = broken(ill)
    story(sound)
    story(ill)
    assert faults(sound.members) == []
    assert any(finding in one for one in faults(ill.members)), faults(ill.members)
