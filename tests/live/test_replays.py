"""Recordings of everything that a group ever said, sent to a member that has just begun.

Somebody without a key records all datagrams of a sealed group and sends them again, whenever and to
whomever it likes. A member that was restarted remembers nothing that would give them away.
"""

import random
from functools import cache
from typing import Any

import pytest
from tests.live.fake_world import OTHER_SECRET
from tests.live.recording import (
    NEW_SECRET,
    ROUNDS,
    Seen,
    Watched,
    a_whole_life,
    believed,
    by_kind,
    frame_kinds,
    note_kinds,
    traffic,
)

from semcast.errors import WindowFullError
from semcast.live.meeting import joining
from semcast.live.meeting.roster import member_id
from semcast.testing import FakeMember
from semcast.wire.keys import Keyring

EVERY_KIND = [*note_kinds(), *frame_kinds()]


@cache
def recordings() -> dict[str, list[Seen]]:
    """By kind, what was recorded of two groups of the same members, which are over."""
    found = by_kind([*a_whole_life().recorded, *a_whole_life(**ROUNDS).recorded])
    assert sorted(found) == sorted(EVERY_KIND), "something is said that no recording has"
    return found


def later_world() -> Watched:
    """Some time after all of it."""
    world = Watched(seed=2)
    world.network.now_ns += 10**13
    return world


# -- one that is alone -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_nothing_that_is_replayed_to_a_new_member_is_believed(kind: str) -> None:
    """Not who is there, who left, who was put out, which keys are used, which life it had."""
    world = later_world()
    c = world.join("c")
    c.turn()
    before = believed(c)
    world.replay(recordings()[kind], c)
    world.network.run(seconds=1.0)
    assert believed(c) == before


@pytest.mark.parametrize("how", ["leave", "crash"])
def test_a_recording_of_a_whole_group_is_no_group(how: str) -> None:
    """The member waits, sends nothing that it takes for received, and says that nobody is there."""
    world = Watched()
    members = world.gather()
    traffic(world, members)
    for member in members:
        world.end(member, how)
        world.network.run(seconds=0.1)
    recorded = list(world.recorded)
    world.network.run(seconds=10.0)
    c = world.join("c", address=members[2].session.transport.address)
    for _ in range(3):
        world.replay(recorded, c)
        world.network.run(seconds=1.0)
    assert not c.complete
    with pytest.raises(WindowFullError, match="not complete"):
        c.send(b"never to be lost")
    why = str(joining.incomplete(c.session))
    assert "not heard of: b, a" in why
    assert "hellos of a, b came, but nobody answered from there" in why


# -- one in a group that runs ----------------------------------------------------------------------


def reached(member: FakeMember) -> int:
    """How many datagrams came through to the member, or are notes."""
    return member.session.opener.opened - member.session.refused_unproved


@pytest.mark.parametrize("settings", [{}, ROUNDS], ids=["gossip", "rounds"])
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_nothing_that_is_replayed_to_a_restarted_member_of_a_group_is_believed(
    kind: str, settings: dict[str, Any]
) -> None:
    """It never heard the life that left; and those who are there had lives before."""
    world = later_world()
    world.settings |= settings
    a, b, c = world.gather()
    traffic(world, [a, b, c])
    world.end(b, "leave")
    world.end(c, "crash")
    world.network.run(seconds=0.1)
    overheard = by_kind(world.recorded).get(kind, [])
    c = world.join("c")
    assert world.network.run(lambda: c.complete)
    world.network.run(seconds=5.0)
    before, heard = believed(c), reached(c)
    world.replay(recordings()[kind] + overheard, c)
    assert believed(c) == before
    assert kind not in frame_kinds() or reached(c) == heard
    a.send(b"still here")
    assert world.network.run(lambda: a.stable)
    assert c.receive_many()[-1].payload == b"still here"


@pytest.mark.parametrize("settings", [{}, ROUNDS], ids=["gossip", "rounds"])
@pytest.mark.parametrize("seed", range(3))
def test_replays_while_a_member_comes_back_lose_and_repeat_nothing(
    seed: int, settings: dict[str, Any]
) -> None:
    """Old votes of lives that go on, in the midst of new ones: the journal is judged."""
    world = Watched(seed, loss=0.05)
    world.settings |= settings
    a, b, c = world.gather()
    traffic(world, [a, b, c])
    world.end(c, "crash")
    recorded = list(world.recorded)
    back = world.join("c", address=c.session.transport.address)
    stream = random.Random(seed)
    for number in range(60):
        for seen in stream.choices(recorded, k=20):
            world.network.inject(seen.source, back.session.transport.address, seen.datagram)
        a.send(b"%d" % number)
        world.network.run(seconds=0.02)
    assert world.network.run(lambda: back.complete)
    world.network.run(seconds=5.0)
    back.send(b"mine")
    world.come_to_rest([a, b, back])
    world.check()


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [True, False])
def test_recorded_questions_do_not_roll_keys_back(restarted: bool) -> None:
    """1 to 2, back to 1, 2 removed: whoever replays all that was asked changes nothing."""
    world = Watched(names="ab")
    members = world.gather()
    for what, key_id in [("install", 2), ("use", 2), ("use", 1), ("remove", 2)]:
        for member in members:
            more: dict[str, Any] = {"secret": NEW_SECRET.hex()} if what == "install" else {}
            assert world.ask(member, what, key_id=key_id, **more).body == {"changed": True}
    a, b = members
    if restarted:
        world.end(b, "leave")
        b = world.join("b", address=b.session.transport.address)
        assert world.network.run(lambda: b.complete)
    recorded = list(world.recorded)
    for _ in range(2):
        world.replay(recorded, b)
        world.network.run(seconds=30.0)
    assert ids(a) == ids(b) == [1]
    a.send(b"under the key that all have")
    assert world.network.run(lambda: b.waiting > 0)


def ids(member: FakeMember) -> list[int]:
    assert isinstance(member.session.keys, Keyring)
    return [one.key_id for one in member.session.keys.list()]


# -- what must still work --------------------------------------------------------------------------


def test_a_member_that_really_comes_back_with_all_of_that_in_the_air_joins() -> None:
    """Replays hold nobody up: a whole recording between any two things that are said."""
    world = later_world()
    recorded = a_whole_life().recorded
    members = [world.join(name) for name in world.names]
    stream = random.Random(7)
    for _ in range(40):
        for member in members:
            for seen in stream.choices(recorded, k=25):
                world.network.inject(seen.source, member.session.transport.address, seen.datagram)
        world.network.run(seconds=0.05)
    assert world.network.run(lambda: all(one.complete for one in members))
    assert {one.session.roster.former_incarnation for one in members} == {-1}
    traffic(world, members)
    world.check()


def test_another_process_of_the_same_name_ends_the_first() -> None:
    """It answers challenges, so it is there; a recording of a later life does not."""
    world = Watched()
    _, _, c = world.gather()
    other = world.join("c")
    assert world.network.run(lambda: c.session.ended is not None)
    assert "another process has joined 'quotes' as 'c'" in str(c.session.ended)
    assert world.network.run(lambda: other.complete)
    recorded = [one for one in world.recorded if one.source == other.session.transport.address]
    world.end(other, "crash")
    world.end(c, "crash")
    # Its clock is set back, so what was recorded is of a later life than its own.
    former = world.network.now_ns - 10**12
    world = Watched(seed=3)
    back = world.join("c", incarnation=former)
    back.turn()
    world.replay(recorded, back)
    assert back.session.me.incarnation == former
    assert back.session.ended is None


def test_members_with_another_secret_prove_nothing_to_each_other() -> None:
    world = Watched(names="ab")
    a, b = world.join("a"), world.join("b", secret=OTHER_SECRET)
    world.network.run(seconds=2.0)
    for member in (a, b):
        assert member.session.door.proved == {}
    assert member_id("a") not in b.session.roster.peers
