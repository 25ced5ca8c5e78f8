"""Sessions over a network in memory, in virtual time: any loss, and the journal is checked."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.check import check_all
from semcast.errors import GroupClosedError, WindowFullError
from semcast.ids import ID_MAX, Source
from semcast.journal import Header, Journal, JournalObserver, node_name
from semcast.live.address import Address
from semcast.live.roster import member_id
from semcast.live.transport import TransportSettings, open_transport
from semcast.testing import FakeMember, FakeNetwork
from semcast.wire.keys import Keyring, group_id
from semcast.wire.note import encode_note
from semcast.wire.seal import Opener, Sealer

SECRET = b"a secret of 32 bytes in a test.."
OTHER_SECRET = b"another secret of the same size."


class World:
    """A fake network, a group on it, and the journal of all its members."""

    def __init__(self, seed: int = 1, names: str = "abc", **network: Any) -> None:
        self.network = FakeNetwork(seed, **network)
        self.names = names
        self.journal: Journal | None = None
        self.settings: dict[str, Any] = {"secret": SECRET, "members": tuple(names)}

    def join(self, name: str, **changed: Any) -> FakeMember:
        settings = self.settings | changed
        return self.network.join("quotes", name=name, observer=self.observer, **settings)

    def gather(self, **changed: Any) -> list[FakeMember]:
        """All members, complete, with an empty journal."""
        members = [self.join(name, **changed) for name in self.names]
        assert self.network.run(lambda: all(one.complete for one in members))
        return members

    def observer(self, me: Source) -> JournalObserver:
        """Members begin one after the other, so all first lives are in the header already."""
        if self.journal is None:
            lives = [node_name(one.session.me) for one in self.network.members]
            one = self.network.members[0]
            config = one.session.config.member_config(len(lives), 1500)
            self.journal = Journal(Header.of(config, lives, "fake"))
        return JournalObserver(self.journal, node_name(me), lambda: self.network.now_ns)

    def end(self, member: FakeMember, event: str) -> None:
        assert self.journal is not None
        if event == "leave":
            member.leave()
        else:
            member.crash()
        self.journal.record(self.network.now_ns, node_name(member.session.me), event)

    def come_to_rest(self, members: list[FakeMember]) -> None:
        """Everything that was sent is everywhere, and taken."""
        assert self.network.run(lambda: all(one.stable for one in members)), "never at rest"
        for one in members:
            one.receive_many()

    def check(self) -> None:
        assert self.journal is not None
        report = check_all(self.journal)
        assert report.ok, str(report)


def payloads(member: FakeMember) -> list[bytes]:
    return [message.payload for message in member.receive_many()]


# -- the life of a group ---------------------------------------------------------------------------


@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])
@pytest.mark.parametrize("how", ["members", "size"])
def test_members_find_each_other(multicast: bool, how: str) -> None:
    world = World(multicast=multicast, loss=0.2)
    if how == "size":
        world.settings |= {"members": (), "size": 3}
    members = world.gather()
    assert len({one.session.roster.members for one in members}) == 1


@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.05, 0.3]),
    order=st.sampled_from(["fifo", "key"]),
    reliability=st.sampled_from(["group", "sender"]),
)
@settings(max_examples=6)
def test_everything_unreplaced_arrives_whatever_the_network_does(
    multicast: bool, seed: int, loss: float, order: str, reliability: str
) -> None:
    world = World(seed, loss=loss, duplication=0.1, delay_ms=(0.1, 10.0), multicast=multicast)
    members = world.gather(order=order, reliability=reliability)
    stream = random.Random(f"{seed}/traffic")
    unmarked: dict[str, list[bytes]] = {name: [] for name in world.names}
    last: dict[bytes, bytes] = {}
    for number in range(60):
        sender = stream.choice(members)
        name = sender.session.config.name
        payload = f"{name}{number}".encode()
        if stream.random() < 0.5:
            key = f"{name}/{stream.randrange(3)}"
            sender.send(payload, replaces=key)
            last[key.encode()] = payload
        else:
            sender.send(payload)
            unmarked[name].append(payload)
        world.network.run(seconds=stream.random() * 0.01)
    assert world.network.run(lambda: all(one.stable for one in members))
    for member in members:
        got = member.receive_many()
        for name in world.names:
            plain = [m.payload for m in got if m.sender == name and not m.key]
            assert plain == unmarked[name]
        newest = {m.key: m.payload for m in got if m.key}
        assert newest == last
    world.check()


def test_a_full_socket_delays_and_loses_nothing() -> None:
    world = World()
    a, b, c = world.gather()
    transport: Any = a.session.transport
    transport.room = 0
    sent = [b"%d" % number for number in range(50)]
    for payload in sent:
        a.send(payload)
    assert world.network.run(lambda: a.session.congested)
    assert not world.network.run(lambda: b.waiting > 0, seconds=0.02)
    transport.room = -1
    assert world.network.run(lambda: a.stable and not a.session.congested)
    assert payloads(b) == payloads(c) == sent


def test_a_pulled_cable_delays_and_loses_nothing() -> None:
    world = World()
    a, b, c = world.gather()
    world.network.unplugged.add(c.session.transport.address[0])
    sent = [b"%d" % number for number in range(50)]
    for payload in sent:
        a.send(payload)
    assert world.network.run(lambda: b.waiting == 50)
    assert not world.network.run(lambda: a.stable or c.waiting > 0, seconds=5)
    world.network.unplugged.clear()
    assert world.network.run(lambda: a.stable)
    assert payloads(c) == sent
    world.come_to_rest([a, b, c])
    world.check()


def test_who_leaves_is_not_waited_for_and_what_it_sent_arrives() -> None:
    world = World(loss=0.1)
    a, b, c = world.gather()
    for number in range(20):
        c.send(b"%d" % number)
    assert world.network.run(lambda: c.stable)
    world.end(c, "leave")
    a.send(b"after")
    assert world.network.run(lambda: a.stable)
    assert payloads(a) == payloads(b) == [*(b"%d" % number for number in range(20)), b"after"]
    with pytest.raises(GroupClosedError, match="has left"):
        c.send(b"no more")
    world.check()


def test_who_is_put_out_is_told_and_the_others_go_on() -> None:
    world = World()
    a, b, c = world.gather()
    a.session.evict(c.session.roster.me, world.network.now_ns)
    a.send(b"after")
    assert world.network.run(lambda: a.stable and b.waiting == 1)
    assert world.network.run(lambda: c.session.ended is not None)
    with pytest.raises(GroupClosedError, match="was put out of group 'quotes'"):
        c.send(b"no more")


@pytest.mark.parametrize(
    ("how", "multicast", "clock_s"),
    [
        ("crash", True, 10.0),
        ("crash", True, -10.0),
        ("crash", False, 10.0),
        ("crash", False, -10.0),
        ("leave", True, 10.0),
        ("leave", True, -10.0),
        ("leave", False, 10.0),
    ],
)
def test_who_comes_back_gets_what_follows(how: str, multicast: bool, clock_s: float) -> None:
    """Under the same name, in a larger incarnation, also if its clock was set back."""
    world = World(loss=0.05, multicast=multicast)
    a, b, c = world.gather()
    for number in range(20):
        a.send(b"%d" % number)
    assert world.network.run(lambda: a.stable)
    former = c.session.me
    world.end(c, how)
    life = world.network.now_ns + round(clock_s * 1e9)
    back = world.join("c", incarnation=life, address=c.session.transport.address)
    assert world.network.run(lambda: back.complete)
    assert back.session.me.incarnation > former.incarnation
    world.network.run(seconds=5)
    for number in range(20):
        a.send(b"new %d" % number)
        back.send(b"mine %d" % number)
    assert world.network.run(lambda: a.stable and back.stable)
    got = [m.payload for m in back.receive_many() if m.sender == "a"]
    assert got[-20:] == [b"new %d" % number for number in range(20)]
    mine = [m.payload for m in b.receive_many() if m.sender == "c"]
    assert mine == [b"mine %d" % number for number in range(20)]
    world.come_to_rest([a, b, back])
    world.check()


def test_who_was_put_out_may_come_back() -> None:
    world = World()
    a, b, c = world.gather()
    a.session.evict(c.session.roster.me, world.network.now_ns)
    assert world.network.run(lambda: c.session.ended is not None)
    world.end(c, "leave")
    back = world.join("c")
    assert world.network.run(lambda: back.complete)
    world.network.run(seconds=5)
    a.send(b"welcome")
    assert world.network.run(lambda: a.stable and back.waiting == 1)
    assert payloads(b)[-1] == b"welcome"


def send_and_wait(world: World, member: FakeMember, *payloads: bytes) -> None:
    for payload in payloads:
        member.send(payload)
        world.network.run(seconds=0.05)


def test_a_window_that_is_full_is_told_and_opens_again() -> None:
    world = World()
    a, b, _ = world.gather(window_messages=4, delivery_messages=4)
    with pytest.raises(WindowFullError) as caught:
        send_and_wait(world, a, *[b"%d" % number for number in range(1000)])
    assert caught.value.window_max == 4
    for member in world.network.members:
        member.receive_many()
    assert world.network.run(lambda: a.stable)
    a.send(b"again")
    assert world.network.run(lambda: b.waiting > 0)


# -- what others send ------------------------------------------------------------------------------


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
    address = a.session.transport.address
    mine = [datagram for source, _, datagram in world.network.seen if source == address]
    before, opened = total_refused(b), b.session.opener.opened
    deliver(world, mine, b, address)
    assert total_refused(b) == before + len(mine)
    assert b.session.opener.opened <= opened + 10  # what the others said meanwhile
    assert payloads(b) == [b"once"]
    goes_on(world, members)


@pytest.mark.parametrize(
    ("group", "secret", "reason"),
    [("quotes", OTHER_SECRET, "tag"), ("trades", SECRET, "group")],
)
def test_another_secret_or_another_group_is_dropped_and_counted(
    group: str, secret: bytes, reason: str
) -> None:
    world = World()
    members = world.gather()
    stranger = world.network.join(group, name="x", size=2, secret=secret)
    named_as_a_member = world.network.join(group, name="b", size=2, secret=secret)
    world.network.run(seconds=2)
    refused = members[0].session.opener.refused
    assert refused[reason] > 10
    assert sum(refused.values()) == refused[reason]
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
    deliver(world, noise, members[1], ("10.9.9.9", 1))
    assert members[1].session.opener.refused.keys() >= {"length", "malformed"}
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
        assert all(value == value for value in member.session.roster.peers.values())
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
    transport = open_transport(TransportSettings(kind="unicast", host=host_here, group_id=1))
    try:
        transport.send((host, port), [b"x"])
    finally:
        transport.close()


def test_a_key_is_changed_without_losing_a_message() -> None:
    world = World(loss=0.05)
    members = world.gather()
    sent = []
    for step in range(40):
        keys = [member.session.keys for member in members]
        assert all(isinstance(one, Keyring) for one in keys)
        for at, one in enumerate(keys):
            assert isinstance(one, Keyring)
            if step == 5 + at:
                one.install(2, OTHER_SECRET)
            elif step == 15 + at:
                one.use(2)
            elif step == 30 + at:
                one.remove(1)
        payload = b"%d" % step
        members[step % 3].send(payload)
        sent.append(payload)
        world.network.run(seconds=0.05)
    assert world.network.run(lambda: all(one.stable for one in members))
    for member in members:
        assert sorted(payloads(member)) == sorted(sent)
    opener = Opener(group_id("quotes"), Keyring(OTHER_SECRET, 2))
    opener.open(world.network.seen[-1][2])
    world.check()
