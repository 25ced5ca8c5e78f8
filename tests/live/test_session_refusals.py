"""What a session must not take: replayed, forged, of others, or nonsense from somebody inside."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.fake_world import OTHER_SECRET, SECRET, World, payloads

from semcast.ids import ID_MAX, Source
from semcast.live.meeting.roster import member_id
from semcast.live.sockets.address import Address
from semcast.live.sockets.transport import TransportSettings, open_transport
from semcast.testing import FakeMember
from semcast.wire.keys import Keyring, group_id
from semcast.wire.note import encode_note
from semcast.wire.seal import Sealer


def total_refused(member: FakeMember) -> int:
    return sum(member.session.opener.refused.values())


def deliver(world: World, datagrams: list[bytes], to: FakeMember, source: Address) -> None:
    for datagram in datagrams:
        world.network.inject(source, to.session.transport.address, datagram)
    world.network.run(seconds=0.1)


def goes_on(world: World, members: list[FakeMember]) -> None:
    """The group works, and nobody but its members is known."""
    members[0].send(b"still here")
    assert world.network.run(lambda: members[0].stable)
    for member in members:
        assert payloads(member)[-1] == b"still here"
        assert len(member.session.roster.peers) == len(members) - 1


def test_datagrams_that_come_again_are_dropped_and_counted() -> None:
    world = World()
    members = world.gather()
    a, b, _ = members
    a.send(b"once")
    assert world.network.run(lambda: a.stable)
    address, at_b = a.session.transport.address, b.session.transport.address
    sent = [(to, one) for source, to, one in world.network.seen if source == address]
    mine = [one for to, one in sent if to in (None, at_b)]
    before, opened = total_refused(b), b.session.opener.opened
    deliver(world, mine, b, address)
    assert total_refused(b) == before + len(mine)
    assert b.session.opener.opened <= opened + 10  # what the others said meanwhile
    assert payloads(b) == [b"once"]
    goes_on(world, members)


def test_a_replay_is_answered_to_nobody() -> None:
    """Else whoever recorded one datagram could have hellos sent to anybody."""
    world = World(names="ab")
    members = world.gather()
    a, b = members
    a.send(b"once")
    assert world.network.run(lambda: a.stable)
    at_a, victim = a.session.transport.address, ("10.9.9.9", 1)
    genuine = next(seen[2] for seen in reversed(world.network.seen) if seen[0] == at_a)
    forged = genuine[:-1] + bytes([genuine[-1] ^ 1])
    refused = dict(b.session.opener.refused)
    deliver(world, [forged] * 3 + [genuine], b, victim)
    assert not [to for _, to, _ in world.network.seen if to == victim]
    assert b.session.opener.refused == refused | {"seen": refused["seen"] + 4}
    goes_on(world, members)


@pytest.mark.parametrize("genuine", [True, False])
def test_an_old_life_is_told_so_only_if_it_is_genuine(genuine: bool) -> None:
    """And then in no more bytes than it sent, so that recordings of it are no weapon."""
    world = World(names="ab")
    a, b = world.gather()
    at_a, elsewhere = a.session.transport.address, ("10.9.9.9", 1)
    hello = next(one for source, _, one in world.network.seen if source == at_a)
    world.end(a, "crash")
    back = world.join("a")
    assert world.network.run(lambda: back.complete)
    world.network.seen.clear()
    deliver(world, [hello if genuine else hello[:-1] + bytes([hello[-1] ^ 1])] * 9, b, elsewhere)
    told = [len(one) for _, to, one in world.network.seen if to == elsewhere]
    assert len(told) == (1 if genuine else 0)
    assert sum(told) <= len(hello)
    goes_on(world, [back, b])


def test_what_opens_and_makes_no_sense_is_counted_apart_from_what_does_not_open() -> None:
    world = World(names="ab")
    _, b = world.gather()
    deliver(world, [b"noise" * 20] * 3, b, ("10.9.9.9", 1))
    assert b.session.refused_notes == 0
    deliver(world, [insider(world).seal(encode_note(b"no JSON"))], b, ("10.9.9.9", 1))
    assert b.session.refused_notes == 1


@pytest.mark.parametrize(
    ("group", "secret", "reason"),
    [("quotes", OTHER_SECRET, "tag"), ("trades", SECRET, "group")],
)
def test_another_secret_or_another_group_is_dropped_and_counted(
    group: str, secret: bytes, reason: str
) -> None:
    world = World()
    members = world.gather()
    # What was overtaken by the proof that its sender is there counts as refused.
    before = total_refused(members[0])
    stranger = world.network.join(group, name="x", size=2, secret=secret)
    named_as_a_member = world.network.join(group, name="b", size=2, secret=secret)
    world.network.run(seconds=2)
    refused = members[0].session.opener.refused
    assert refused[reason] > 10
    assert sum(refused.values()) == refused[reason] + before
    if group == "trades":
        assert stranger.complete
        assert named_as_a_member.complete
    goes_on(world, members)


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3
    ),
    cut=st.integers(0, 200),
)
@settings(max_examples=40)
def test_altered_datagrams_are_dropped_and_counted(
    changes: list[tuple[int, int]], cut: int
) -> None:
    world = World(names="ab")
    members = world.gather()
    a, b = members
    a.send(b"original" * 10)
    assert world.network.run(lambda: a.stable)
    address = a.session.transport.address
    source, _, datagram = next(seen for seen in reversed(world.network.seen) if seen[0] == address)
    altered = bytearray(datagram[: max(1, len(datagram) - cut)])
    for at, flip in changes:
        altered[at % len(altered)] ^= flip
    if bytes(altered) == datagram:
        return
    before = total_refused(b)
    deliver(world, [bytes(altered)], b, source)
    assert total_refused(b) == before + 1 or altered[12:28] == b.session._mine
    goes_on(world, members)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
@settings(max_examples=40)
def test_noise_is_dropped_and_costs_nothing(noise: list[bytes]) -> None:
    world = World(names="ab")
    members = world.gather()
    before = total_refused(members[1])
    deliver(world, noise, members[1], ("10.9.9.9", 1))
    assert total_refused(members[1]) == before + len(noise)
    goes_on(world, members)


def insider(world: World, name: str = "a") -> Sealer:
    """What seals as a member does, in a later life: someone who has the secret and means harm."""
    me = Source(member_id(name), world.network.now_ns + 10**12)
    return Sealer(group_id("quotes"), me, Keyring(SECRET))


FINE = {
    "kind": "hello", "name": "a", "roster": "", "members": [], "peers": [],
    "left": [], "evicted": [], "status": {},
}  # fmt: skip
HARMFUL = {
    "no JSON": b"\xff\xfe{",
    "deep": b"[" * 60_000,
    "no object": b"[]",
    "no kind": b"{}",
    "odd kind": b'{"kind": 7}',
    "unknown kind": b'{"kind": "nonsense"}',
    "infinite": json.dumps(FINE | {"status": {"held": 1e999, "behind_ms": 1e999}}).encode(),
    "huge": json.dumps(FINE | {"status": {"held": 10**400}}).encode(),
    "last life": json.dumps(FINE | {"peers": [["b", ID_MAX, "10.0.0.2", 1]]}).encode(),
    "odd host": json.dumps(FINE | {"peers": [["z", 1, "fe80::1%a\0b", 1]]}).encode(),
}


@pytest.mark.parametrize("note", HARMFUL.values(), ids=HARMFUL.keys())
@pytest.mark.parametrize("seeking", [False, True], ids=["complete", "seeking"])
def test_notes_that_make_no_sense_raise_nothing(note: bytes, seeking: bool) -> None:
    """Also from somebody who has the secret; and a group that is there goes on."""
    world = World(names="abc")
    members = [world.join(name) for name in ("abc" if not seeking else "bc")]
    world.network.run(lambda: all(one.complete for one in members), seconds=1)
    sealed = insider(world).seal(encode_note(note))
    for member in members:
        deliver(world, [sealed], member, ("10.9.9.9", 1))
    for member in members:
        assert member.session.ended is None
        assert json.loads(member.session.roster.hello({}))["kind"] == "hello"
    world.network.run(seconds=2)


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_frames_that_make_no_sense_raise_nothing(frames: bytes) -> None:
    world = World(names="ab")
    members = world.gather()
    deliver(world, [insider(world).seal(frames)], members[1], ("10.9.9.9", 1))
    members[1].send(b"still here")
    assert members[1].session.ended is None


ODD_HOSTS = ["", "x", "fe80::1%a\0b", "fe80::1%\ud800", "::1%99999999999", "1.2.3.4.5", "é", "::%"]


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
@given(host=st.sampled_from(ODD_HOSTS) | st.text(max_size=64), port=st.integers(1, 65_535))
def test_an_address_that_somebody_names_raises_nothing(ipv6: bool, host: str, port: int) -> None:
    """A hello may name any host; sending there is counted as refused, or done."""
    if not any(character in host for character in "\0\ud800%é") and host.count(".") == 3:
        return  # it may be an address: nobody is to be bothered
    host_here = "::1" if ipv6 else "127.0.0.1"
    transport = open_transport(TransportSettings(transport="unicast", host=host_here, group_id=1))
    try:
        transport.send((host, port), [b"x"])
    finally:
        transport.close()
