"""Sessions over a network in memory, in virtual time: any loss, and the journal is checked."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.fake_world import OTHER_SECRET, World, payloads

from semcast.errors import GroupClosedError, WindowFullError
from semcast.testing import FakeMember
from semcast.wire.keys import Keyring, group_id
from semcast.wire.opener import Opener

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
