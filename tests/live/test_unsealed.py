"""Groups without a secret promise nothing against forgery, but they are no weapon and no trap.

Somebody who can send from any address forges what it likes: nothing larger than that goes to an
address that has not shown that it is there, nothing at all to others, and a member whose name was
taken is told.
"""

import json
from typing import Any

import pytest
from tests.live.recording import Seen, Watched, by_kind, frame_kinds, note_kinds, traffic

from semcast.ids import ID_MAX, Source
from semcast.live.meeting import control
from semcast.live.meeting.door import NOTHING
from semcast.live.meeting.roster import member_id
from semcast.live.sockets.address import Address
from semcast.testing import FakeMember
from semcast.wire.header import CHECK_BYTES, HEADER_BYTES
from semcast.wire.keys import UNSEALED, group_id
from semcast.wire.note import encode_note
from semcast.wire.seal import Sealer

VICTIM, THIRD = ("10.9.9.9", 99), ("10.8.8.8", 88)
HELLO = {
    "kind": "hello", "name": "b", "roster": "", "members": [], "peers": [], "left": [],
    "evicted": [], "status": {},
}  # fmt: skip


def clear_world(names: str = "abc", **network: Any) -> Watched:
    world = Watched(names=names, **network)
    world.settings |= {"secret": None, "insecure": True}
    return world


def note(said: dict[str, Any]) -> bytes:
    return encode_note(json.dumps(said, separators=(",", ":")).encode())


def forged(name: str, life: int, frames: bytes, packet: int = 1) -> bytes:
    sealer = Sealer(group_id("quotes"), Source(member_id(name), life), UNSEALED)
    sealer._packet = packet - 1
    return sealer.seal(frames)


def sent_to(world: Watched, address: Address) -> list[bytes]:
    return [one.datagram for one in world.recorded if one.to == address]


def strike(world: Watched, datagram: bytes, at: list[FakeMember], source: Address = VICTIM) -> None:
    """It arrives there, from that address; then time goes on for long enough to do anything."""
    world.recorded.clear()
    for member in at:
        world.network.inject(source, member.session.transport.address, datagram)
    world.network.run(seconds=5.0)


def questions() -> dict[str, bytes]:
    """All that can be asked, in as few bytes as it can be."""
    found = {}
    for what in (*control.INQUIRIES, *control.CHANGES):
        for token in (NOTHING, "0123456789abcdef"):
            said = {"kind": "ask", "what": what, "id": "n", "token": token}
            found[f"{what} {token}"] = note(said)
    return found


@pytest.mark.parametrize("frames", questions().values(), ids=questions().keys())
def test_no_answer_is_larger_than_its_question(frames: bytes) -> None:
    world = clear_world()
    members = world.gather()
    question = forged("asker", 1, frames)
    strike(world, question, [members[0]])
    (answer,) = sent_to(world, VICTIM)
    assert len(answer) <= len(question)


def test_a_question_that_is_asked_as_askers_do_is_answered_in_full() -> None:
    """Where somebody shows to be there, an answer may be as large as it has to be."""
    world = clear_world()
    members = world.gather()
    world.network.run(seconds=1.0)
    for what in control.INQUIRIES:
        answer = world.ask(members[0], what, UNSEALED)
        assert answer.name == "a"
        assert answer.ok == (what != "keys")


def everything_said() -> dict[str, list[Seen]]:
    world = clear_world(loss=0.15)
    world.settings |= {"window_messages": 32, "f": 1}
    members = world.gather()
    traffic(world, members)
    world.network.loss = 0.0
    for what in (*control.INQUIRIES, *control.CHANGES):
        world.ask(members[0], what, UNSEALED, key_id=1)
    world.end(members[2], "leave")
    world.network.run(seconds=1.0)
    return by_kind(world.recorded, UNSEALED)


SAID = everything_said()
HERE_TOO = [kind for kind in (*note_kinds(), *frame_kinds()) if kind in SAID]


@pytest.mark.parametrize("who", ["b later", "b now", "stranger"])
@pytest.mark.parametrize("state", ["complete", "seeking"])
@pytest.mark.parametrize("kind", HERE_TOO)
def test_whatever_is_forged_brings_its_victim_no_more_bytes(
    kind: str, state: str, who: str
) -> None:
    """All that is ever said, as a member in a later life or in this one, or as nobody."""
    world = clear_world()
    members = world.gather() if state == "complete" else [world.join(name) for name in "ab"]
    world.network.run(seconds=1.0)
    name, life = {
        "b later": ("b", ID_MAX - 9),
        "b now": ("b", int(members[1].session.me.incarnation)),
        "stranger": ("x", 7),
    }[who]
    for seen in SAID[kind][:3]:
        frames = seen.datagram[HEADER_BYTES:-CHECK_BYTES]
        datagram = forged(name, life, frames, 10**6)
        strike(world, datagram, [members[0]])
        assert sum(map(len, sent_to(world, VICTIM))) <= len(datagram)
        known = {member.session.transport.address for member in world.network.members}
        assert {one.to for one in world.recorded if one.to is not None} <= known | {VICTIM}


@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])
@pytest.mark.parametrize("who", ["c", "b later"])
def test_a_forged_hello_sends_nobody_to_the_addresses_it_names(multicast: bool, who: str) -> None:
    """Members that still look for somebody would like to know where it is."""
    world = clear_world(multicast=multicast)
    members = [world.join(name) for name in "ab"]
    world.network.run(seconds=1.0)
    name = who[0]
    peers = [["c" if name == "b" else "b", 5, 5, *THIRD]]
    said = HELLO | {"name": name, "peers": peers}
    strike(world, forged(name, ID_MAX - 9, note(said)), members)
    assert sent_to(world, THIRD) == []


def test_a_forged_hello_of_a_life_that_is_there_is_no_more_than_a_knock() -> None:
    """Whoever hears the group can speak for it; to those it names goes no more than it sent."""
    world = clear_world(multicast=False)
    members = [world.join(name) for name in "ab"]
    world.network.run(seconds=1.0)
    life = int(members[1].session.me.incarnation)
    said = HELLO | {
        "peers": [["c", number, number, "10.8.8.8", 80 + number] for number in range(9)]
    }
    hello = forged("b", life, note(said), 10**6)
    strike(world, hello, [members[0]], members[1].session.transport.address)
    named = [one.datagram for one in world.recorded if one.to is not None and one.to[0] == THIRD[0]]
    assert sum(map(len, named)) <= len(hello)


# -- a name that somebody else takes ---------------------------------------------------------------


def goes_on(world: Watched, members: list[FakeMember]) -> None:
    for member in members:
        member.send(b"still here")
        assert world.network.run(lambda one=member: one.stable)  # type: ignore[misc]


@pytest.mark.parametrize("said", [HELLO, {"kind": "nonsense"}], ids=["hello", "other"])
def test_a_life_that_nobody_answers_for_shuts_nobody_out(said: dict[str, Any]) -> None:
    world = clear_world()
    members = world.gather()
    strike(world, forged("b", ID_MAX - 9, note(said)), members)
    assert len(sent_to(world, VICTIM)) == (3 if said == HELLO else 0)
    goes_on(world, members)
    assert [member.session.ended for member in members] == [None] * 3


def test_frames_of_a_forged_life_shut_nobody_out() -> None:
    world = clear_world()
    members = world.gather()
    for kind in frame_kinds():
        for seen in SAID.get(kind, [])[:3]:
            frames = seen.datagram[HEADER_BYTES:-CHECK_BYTES]
            strike(world, forged("b", ID_MAX - 9, frames), members)
    goes_on(world, members)


def take_name(world: Watched, name: str, life: int, at: FakeMember) -> None:
    """Forge a life, and answer for it."""
    transport = world.network.transport(VICTIM)
    sealer = Sealer(group_id("quotes"), Source(member_id(name), life), UNSEALED)
    address = at.session.transport.address
    transport.send(address, [sealer.seal(note(HELLO | {"name": name}))])
    for _ in range(20):
        world.network.run(seconds=0.01)
        for datagram, source in transport.receive():
            body = datagram[HEADER_BYTES:-CHECK_BYTES]
            if source == address and b'"prove"' in body:
                asked = json.loads(body[4:])
                proof = {"kind": "prove", "token": NOTHING, "proof": asked["token"]}
                transport.send(address, [sealer.seal(note(proof))])


def test_a_member_whose_name_is_taken_is_told() -> None:
    """By a forger that answers challenges, at one member only: that one tells."""
    world = clear_world()
    a, b, _ = world.gather()
    take_name(world, "b", ID_MAX - 9, a)
    assert a.session.door.proved[member_id("b")] == ID_MAX - 9
    assert world.network.run(lambda: b.session.ended is not None)
    assert "another process has joined 'quotes' as 'b'" in str(b.session.ended)
    assert "a secret if it was a forger" in str(b.session.ended)


def test_a_life_that_no_other_can_follow_is_nobodys() -> None:
    world = clear_world()
    members = world.gather()
    take_name(world, "b", ID_MAX, members[0])
    assert members[0].session.door.proved[member_id("b")] < ID_MAX
    goes_on(world, members)


def test_who_has_no_larger_life_to_take_is_told() -> None:
    world = clear_world()
    back = world.join("b", incarnation=1)
    old = {"kind": "old", "you": 1, "knows": ID_MAX - 1}
    strike(world, forged("a", 5, note(old)), [back])
    assert "used up its lives" in str(back.session.ended)
