"""Floods from without: a sealed group derives few keys, and who comes gets in (virtual time)."""

import random
from collections.abc import Callable

import pytest
from bench.flood import KINDS, forger
from tests.live.fake_world import World, payloads

from semcast.ids import Source
from semcast.live.meeting.asker_ids import asker_id
from semcast.live.meeting.joining import incomplete
from semcast.live.meeting.notes import CHECK_NS
from semcast.testing import FakeMember
from semcast.wire.keys import Keyring, group_id
from semcast.wire.newcomers import EXPECTED_BURST, EXPECTED_PER_S, OTHERS_BURST, OTHERS_PER_S
from semcast.wire.note import encode_note
from semcast.wire.seal import Sealer

ATTACKER = ("10.9.9.9", 1)
PER_MS = 20  # 20,000 a second
CHECKS_PER_S = 1_000_000_000 // CHECK_NS

# How many keys a second of a flood may cost, when it begins with all budgets full.
DERIVED_MAX = {
    "garbage": 0,
    # Bits flip in the sender's id, in its incarnation and in the key's; and few budgets are full.
    "mutations": EXPECTED_BURST + EXPECTED_PER_S + OTHERS_BURST + OTHERS_PER_S + CHECKS_PER_S,
    "replays": CHECKS_PER_S,
    "unknown ids": OTHERS_BURST + OTHERS_PER_S,
    "new lives": EXPECTED_BURST + EXPECTED_PER_S,
}


def recorded(world: World) -> list[bytes]:
    return [datagram for _, _, datagram in world.network.seen]


def flood(
    world: World,
    make: Callable[[], bytes],
    until: Callable[[], bool] = lambda: False,
    seconds: float = 1.0,
) -> bool:
    """20,000 datagrams a second to everybody who is there, until this is so; whether it is."""
    for _ in range(round(1000 * seconds)):
        if until():
            return True
        for member in world.network.members:
            if member.running:
                for _ in range(PER_MS):
                    member.session.transport.arrive(make(), ATTACKER)  # type: ignore[attr-defined]
        world.network.run(seconds=0.001)
    return until()


def keep_talking(members: list[FakeMember], sent: list[bytes]) -> bool:
    """One more message, now and then: an `until` that is never so."""
    sent.append(b"%d" % len(sent))
    members[0].send(sent[-1])
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_costs_a_bounded_number_of_keys_and_what_is_sent_arrives(kind: str) -> None:
    world = World()
    members = world.gather()
    members[0].send(b"first")
    assert world.network.run(lambda: members[0].stable)
    for member in members:
        assert payloads(member) == [b"first"]
    before = [member.session.opener.derived for member in members]
    make, sent = forger(kind, recorded(world), random.Random(1)), list[bytes]()
    flood(world, make, lambda: keep_talking(members, sent))
    assert world.network.run(lambda: members[0].stable)
    for member, derived in zip(members, before, strict=True):
        opener = member.session.opener
        assert opener.derived - derived <= DERIVED_MAX[kind]
        assert sum(opener.refused.values()) > 1000 * PER_MS * 0.6  # some claim to be its own
        assert payloads(member) == sent
        assert len(member.session.roster.peers) == 2
        assert member.session.roster.strangers == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [True, False])
def test_a_group_comes_together_under_a_flood(kind: str, named: bool) -> None:
    """Before it is complete, too; whether it was told its members' names or only how many."""
    model = World(seed=2)
    model.gather()
    world = World(seed=3)
    if not named:
        world.settings = {"secret": world.settings["secret"], "size": 3}
    members = [world.join(name) for name in "abc"]
    make = forger(kind, recorded(model), random.Random(1))
    assert flood(world, make, lambda: all(one.complete for one in members), seconds=30)
    assert all(one.session.opener.derived <= 32 * (EXPECTED_PER_S + 1000) for one in members)


@pytest.mark.parametrize("kind", ["unknown ids", "new lives"])
def test_a_member_that_starts_again_gets_in_under_a_flood(kind: str) -> None:
    world = World()
    a, b, c = world.gather()
    make = forger(kind, recorded(world), random.Random(2))
    flood(world, make, seconds=2)  # what was saved is spent by now
    world.end(c, "crash")
    again = world.join("c")
    assert flood(world, make, lambda: again.complete, seconds=30)
    a.send(b"welcome")
    assert flood(world, make, lambda: again.waiting > 0, seconds=10)
    assert payloads(again)[-1] == b"welcome"
    assert (
        b.session.roster.peers[again.session.me.sender].incarnation == again.session.me.incarnation
    )


def test_who_asks_is_expected_and_heard_under_a_flood_of_unknown_ids() -> None:
    world = World()
    a, *_ = world.gather()
    asked: list[object] = []
    a.session.handlers["ask"] = lambda said, *_: asked.append(said)
    make = forger("unknown ids", recorded(world), random.Random(2))
    flood(world, make, seconds=2)
    me = Source(asker_id(7), world.network.now_ns)
    sealer = Sealer(group_id("quotes"), me, Keyring(world.settings["secret"]))
    question = sealer.seal(encode_note(b'{"kind":"ask"}'))
    world.network.inject(ATTACKER, a.session.transport.address, question)
    assert flood(world, make, lambda: bool(asked))


def test_a_group_that_is_flooded_and_not_complete_says_so() -> None:
    model = World(seed=2)
    model.gather()
    world = World(seed=3)
    alone = world.join("a")
    flood(world, forger("new lives", recorded(model), random.Random(1)))
    text = str(incomplete(alone.session))
    assert "does somebody flood this group?" in text
    assert "same secret" not in text
