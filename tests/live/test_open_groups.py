"""Open groups: processes come and go, over a network in memory, in virtual time."""

from typing import Any

import pytest
from tests.live.open_network import SECRET, gather, news_of, not_pending, payloads, present
from tests.live.recording import OPEN_FRAMES, kinds_of

from semcast.errors import GroupClosedError, OtherKindError
from semcast.live.meeting.open_session import OpenSession
from semcast.live.sockets.address import Address
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.testing import FakeMember, FakeNetwork
from semcast.wire.keys import Keyring

WAYS = pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])
KINDS = pytest.mark.parametrize("reliability", ["group", "sender"])


@WAYS
@KINDS
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_nobody_is_counted_beforehand(multicast: bool, reliability: str, loss: float) -> None:
    network = FakeNetwork(seed=1, multicast=multicast, loss=loss)
    a, b, c = gather(network, 3, reliability=reliability)
    a.send(b"one")
    b.send(b"two")
    assert network.run(lambda: all(one.waiting == 2 for one in (a, b, c)), 10)
    assert {*payloads(c)} == {b"one", b"two"}


@WAYS
@KINDS
def test_who_comes_late_gets_what_stands_and_then_what_is_new(
    multicast: bool, reliability: str
) -> None:
    network = FakeNetwork(seed=2, multicast=multicast)
    a, b = gather(network, 2, reliability=reliability)
    for number in range(9):
        a.send(b"%d" % number, replaces=f"key {number % 3}")
    a.send(b"said once, and never again")
    assert network.run(lambda: a.stable and b.waiting > 0, 10)
    late = network.join("quotes", name="late", secret=SECRET, reliability=reliability)
    assert network.run(lambda: late.complete, 10)
    a.send(b"9", replaces="key 0")
    a.send(b"new")
    taken = []

    def all_there() -> bool:
        taken.extend(late.receive_many())
        return any(message.payload == b"new" for message in taken)

    assert network.run(all_there, 10)
    told = [(message.payload, message.state) for message in taken]
    assert told[-1] == (b"new", False)
    assert [one for one in told if one[1]] == [(b"6", True), (b"7", True), (b"8", True)]
    assert b"said once, and never again" not in [payload for payload, _ in told]


def serve(member: FakeMember, counts: list[bytes]) -> bool:
    """What an application does that remembers all it has received, and saves that for others.
    Returns whether it has its state.
    """
    counts += payloads(member)
    transfer = None if member.session.member is None else member.session.member.transfers()
    if transfer is not None:
        came = transfer.take_snapshot()
        if came is not None:
            counts[:] = came.split()
        if transfer.wants_snapshot:
            transfer.provide(b" ".join(counts), transfer.taken())
    return not_pending(member)


def test_an_application_that_never_receives_does_not_keep_a_snapshot_from_others() -> None:
    network = FakeNetwork(seed=16)
    a, b = gather(network, 2, state="snapshot")
    heard: list[bytes] = []
    assert network.run(lambda: serve(b, heard), 40)
    for number in range(5):
        a.send(b"%d" % number)
    assert network.run(lambda: serve(b, heard) and len(heard) == 5, 10)
    for turn in range(4):  # whom they ask first is left to chance
        late = network.join("quotes", name=f"late {turn}", secret=SECRET, state="snapshot")
        found: list[bytes] = []

        def all_there(late: FakeMember = late, found: list[bytes] = found) -> bool:
            serve(b, heard)
            serve(late, found)
            return len(found) == 5

        assert network.run(all_there, 10)
        assert found == [b"%d" % number for number in range(5)]
        late.leave()
        network.run(seconds=1)


def test_if_no_application_ever_receives_a_newcomer_is_told_so_and_goes_on() -> None:
    network = FakeNetwork(seed=17)
    a = network.join("quotes", name="a", secret=SECRET, state="snapshot")
    assert network.run(lambda: a.complete, 10)
    a.send(b"before")
    network.run(seconds=1)
    late = network.join("quotes", name="late", secret=SECRET, state="snapshot")
    news = news_of(late)
    assert network.run(lambda: not_pending(late), 60)
    assert [kind for kind, _ in news] == ["state-begun", "state-done"]
    assert "no member has saved a snapshot" in news[-1][1]
    a.send(b"after")
    assert network.run(lambda: late.waiting > 0, 10)
    assert payloads(late) == [b"after"]


@WAYS
def test_a_reader_comes_and_goes_and_nobody_waits_for_it(multicast: bool) -> None:
    network = FakeNetwork(seed=3, multicast=multicast)
    a, b = gather(network, 2)
    reader = network.join("quotes", name="r", secret=SECRET, role="reader")
    assert network.run(lambda: reader.complete, 10)
    assert present(a) == 2
    a.send(b"one")
    assert network.run(lambda: reader.waiting == 1, 10)
    reader.crash()
    a.send(b"two")
    assert network.run(lambda: a.stable and b.waiting == 2, 15)


@WAYS
@pytest.mark.parametrize("sends", [False, True])
def test_a_reader_gets_what_stands_of_senders_that_have_left(multicast: bool, sends: bool) -> None:
    network = FakeNetwork(seed=20, multicast=multicast)
    a, b, gone = gather(network, 3)
    gone.send(b"stands", replaces="key")
    if sends:
        a.send(b"too", replaces="other")
    assert network.run(lambda: gone.stable and a.stable, 10)
    gone.leave()
    network.members.remove(gone)
    assert network.run(lambda: present(a) == 2 == present(b), 10)
    network.run(seconds=5)
    reader = network.join("quotes", name="r", secret=SECRET, role="reader")
    assert network.run(lambda: reader.complete, 10)
    assert network.run(lambda: reader.waiting == 1 + sends, 10)
    assert sorted(payloads(reader)) == [b"stands", b"too"][: 1 + sends]
    a.send(b"live")
    assert network.run(lambda: payloads(reader) == [b"live"], 10)


@KINDS
def test_a_dead_process_is_forgotten_and_blocks_nobody_for_longer(reliability: str) -> None:
    network = FakeNetwork(seed=4)
    a, b, c = gather(network, 3, reliability=reliability, window_messages=16)
    c.crash()
    sent = 0

    def sends_on() -> bool:
        nonlocal sent
        member = a.session.member
        assert member is not None
        if member.can_multicast():
            a.send(b"%d" % sent)
            sent += 1
        b.receive_many()
        a.receive_many()
        return sent == 100

    assert network.run(sends_on, 15)
    assert network.run(lambda: present(a) == 2, 30)


def test_one_that_was_cut_off_is_put_out_and_comes_back_by_itself() -> None:
    network = FakeNetwork(seed=5)
    members = gather(network, 5)
    cut = members[2]
    lives = cut.session.me.incarnation
    network.unplugged.add(cut.session.transport.address[0])
    others = [one for one in members if one is not cut]
    assert network.run(lambda: all(present(one) == 4 for one in others), 10)
    network.run(seconds=8)
    assert present(cut) == 5, "one of five puts nobody out"
    others[0].send(b"meanwhile", replaces="key")
    network.unplugged.clear()
    assert network.run(lambda: all(present(one) == 5 for one in others), 20)
    assert network.run(lambda: cut.complete, 10)
    assert cut.session.me.incarnation > lives
    assert all(one.session.ended is None for one in members)
    others[0].send(b"after")
    got: list[bytes] = []

    def all_there() -> bool:
        got.extend(payloads(cut))
        return b"after" in got

    assert network.run(all_there, 10)
    assert got == [b"meanwhile", b"after"]


@KINDS
@pytest.mark.parametrize("role", ["member", "reader"])
@pytest.mark.parametrize("cut_off_s", [20, 100])
def test_one_that_was_cut_off_for_so_long_that_all_forgot_it_comes_back(
    reliability: str, role: str, cut_off_s: int
) -> None:
    """It hears the others all the time after that; they know nothing of it any more."""
    network = FakeNetwork(seed=6)
    sender, _ = gather(network, 2, reliability=reliability)
    away = network.join("quotes", name="r", secret=SECRET, reliability=reliability, role=role)
    assert network.run(lambda: away.complete, 10)
    told = news_of(away)
    sender.send(b"before")
    assert network.run(lambda: payloads(away) == [b"before"], 10)
    host = away.session.transport.address[0]
    network.unplugged.add(host)
    for number in range(4 * cut_off_s):
        sender.send(b"%d" % number, replaces="key")
        sender.receive_many()
        network.run(seconds=0.25)
    network.unplugged.clear()
    came: list[bytes] = []
    for number in range(40):
        sender.send(b"back %d" % number, replaces="key")
        network.run(seconds=0.25)
        came += payloads(away)
    assert b"back 39" in came
    assert b"back 20" in came
    another_life = reliability == "group" and role == "member"
    assert ("rejoined" if another_life else "gap") in [kind for kind, _ in told]


def test_one_that_comes_back_gets_nothing_twice_that_stands() -> None:
    """Also not of senders that have left, whose values go on standing."""
    network = FakeNetwork(seed=16)
    members = gather(network, 5)
    cut, gone, sender = members[2], members[4], members[0]
    for number in range(3):
        gone.send(b"gone %d" % number, replaces=f"key {number}")
        sender.send(b"here %d" % number, replaces=f"key {number}")
    assert network.run(lambda: cut.waiting == 6 and gone.stable, 10)
    gone.leave()
    network.members.remove(gone)
    assert network.run(lambda: present(cut) == 4, 10)
    network.run(seconds=5)
    assert len(payloads(cut)) == 6
    network.unplugged.add(cut.session.transport.address[0])
    assert network.run(lambda: present(sender) == 3, 10)
    sender.send(b"changed", replaces="key 1")
    network.run(seconds=1)
    network.unplugged.clear()
    assert network.run(lambda: present(sender) == 4 and cut.complete, 20)
    network.run(seconds=2)
    assert payloads(cut) == [b"changed"]


def test_lives_of_one_that_came_back_go_by_the_time() -> None:
    """A process that is started later has a larger life, though nobody remembers the former one."""
    network = FakeNetwork(seed=17)
    members = gather(network, 4)
    cut = members[3]
    network.unplugged.add(cut.session.transport.address[0])
    assert network.run(lambda: present(members[0]) == 3, 10)
    network.unplugged.clear()
    assert network.run(lambda: present(members[0]) == 4 and cut.complete, 20)
    assert cut.session.me.incarnation < network.now_ns + 2_000_000


@pytest.mark.parametrize("back_s", [0, 1000])
def test_a_newcomer_gets_the_state_whatever_lives_its_sender_had(back_s: int) -> None:
    """One whose clock was set back comes again in an earlier life than the one that has ended."""
    network = FakeNetwork(seed=18)
    a, b = gather(network, 2)
    ahead_ns = back_s * 1_000_000_000
    first = network.join("quotes", name="x", secret=SECRET, incarnation=network.now_ns + ahead_ns)
    assert network.run(lambda: first.complete, 10)
    first.send(b"stands", replaces="old")
    assert network.run(lambda: first.stable, 10)
    first.leave()
    network.members.remove(first)
    assert network.run(lambda: present(a) == 2, 10)
    network.run(seconds=15)
    again = network.join("quotes", name="x", secret=SECRET)
    assert network.run(lambda: again.complete and present(b) == 3, 10)
    again.send(b"too", replaces="new")
    late = network.join("quotes", name="late", secret=SECRET)
    assert network.run(lambda: late.complete and late.waiting == 2, 10)
    assert payloads(late) == [b"stands", b"too"]


def test_what_waits_comes_before_the_state_of_a_stream_that_begins_anew() -> None:
    """A reader that was away for long was forgotten, and its application is behind."""
    network = FakeNetwork(seed=19)
    a, b = gather(network, 2, reliability="sender")
    a.send(b"one")
    a.send(b"1", replaces="key")
    a.send(b"two")
    assert network.run(lambda: b.waiting == 3 and a.stable, 10)
    network.unplugged.add(b.session.transport.address[0])
    for number in range(2, 9):
        a.send(b"%d" % number, replaces="key")
        network.run(seconds=1)
    assert network.run(lambda: present(a) == 1, 20)
    network.unplugged.clear()
    assert network.run(lambda: present(a) == 2, 20)
    network.run(seconds=2)
    a.send(b"live")
    assert network.run(lambda: a.stable, 10)
    got = b.receive_many()
    assert [message.payload for message in got] == [b"one", b"1", b"two", b"8", b"live"]
    assert [message.state for message in got] == [False, False, False, True, False]


def test_who_is_hopelessly_slow_may_be_put_out() -> None:
    network = FakeNetwork(seed=15)
    a, b, c = gather(network, 3)
    a.session.evict(c.session.me.sender, network.now_ns)
    b.session.evict(c.session.me.sender, network.now_ns)
    assert network.run(lambda: present(a) == 2 == present(b), 10)
    # It is not dead, so it comes back by itself.
    assert network.run(lambda: c.complete and present(a) == 3, 20)


def test_two_groups_that_were_begun_apart_become_one() -> None:
    network = FakeNetwork(seed=6)
    a = network.join("quotes", name="a", secret=SECRET, address=("10.9.0.1", 7400))
    b = network.join("quotes", name="b", secret=SECRET, address=("10.9.0.2", 7400))
    network.unplugged.add("10.9.0.2")
    assert network.run(lambda: a.complete and b.complete, 10)
    assert (present(a), present(b)) == (1, 1)
    network.unplugged.clear()
    assert network.run(lambda: present(a) == 2 == present(b) and a.complete and b.complete, 20)


def test_many_that_come_at_once_are_in_soon() -> None:
    network = FakeNetwork(seed=7)
    members = [network.join("quotes", name=f"m{one}", secret=SECRET) for one in range(32)]
    began_ns = network.now_ns
    assert network.run(lambda: all(one.complete and present(one) == 32 for one in members), 10)
    assert network.now_ns - began_ns < 3_000_000_000, "of virtual time"


def test_a_process_that_leaves_is_gone_at_once() -> None:
    network = FakeNetwork(seed=8)
    a, b, c = gather(network, 3)
    c.leave()
    began_ns = network.now_ns
    assert network.run(lambda: present(a) == 2 == present(b), 10)
    assert network.now_ns - began_ns < 500_000_000, "of virtual time, so nobody had to be accused"


def test_members_that_come_and_go_leave_nothing_behind() -> None:
    network = FakeNetwork(seed=9)
    a, _ = gather(network, 2)
    session = a.session
    assert isinstance(session, OpenSession)
    for number in range(30):
        comer = network.join("quotes", name=f"comer {number}", secret=SECRET)
        assert network.run(lambda comer=comer: comer.complete, 10)  # type: ignore[misc]
        comer.leave()
        network.members.remove(comer)
        network.run(seconds=1)
    network.run(seconds=15)
    a.send(b"news")
    network.run(seconds=15)
    assert len(session.roster.peers) < 5
    assert len(session.door.proved) < 5
    assert session.member is not None
    assert len(session.member.view.members) < 6


@pytest.mark.parametrize("stability", STABILITY_PROTOCOLS)
def test_a_newcomer_is_in_soon_though_nobody_has_ever_sent_anything(stability: str) -> None:
    """Whoever of them is to begin the rounds: ids decide, so it may be the newcomer."""
    for seed in range(8):
        network = FakeNetwork(seed=seed)
        given: dict[str, Any] = {"secret": SECRET, "stability": stability}
        first = network.join("quotes", name=f"first{seed}", **given)
        assert network.run(lambda one=first: one.complete, 10)  # type: ignore[misc]
        network.run(seconds=5)
        began_ns = network.now_ns
        late = network.join("quotes", name="late", **given)
        assert network.run(lambda one=late: one.complete, 10)  # type: ignore[misc]
        assert network.now_ns - began_ns < 1_000_000_000
        first.send(b"new")
        network.run(seconds=2)
        assert payloads(late) == [b"new"]


def test_of_two_the_younger_cannot_go_on_alone_and_the_error_says_what_to_do() -> None:
    network = FakeNetwork(seed=23)
    first, _ = gather(network, 2)
    first.crash()
    network.run(seconds=5)
    again = network.join("quotes", name="m0", secret=SECRET)
    assert not network.run(lambda: again.complete, 10)
    assert isinstance(again.session, OpenSession)
    assert "though m1 answered" in again.session.why_not_in()
    assert "of two members the older one" in again.session.why_not_in()


@pytest.mark.parametrize("victim", [0, 1])
def test_where_one_is_a_quorum_either_of_two_goes_on_alone(victim: int) -> None:
    network = FakeNetwork(seed=24)
    members = gather(network, 2, quorum="one")
    members.pop(victim).crash()
    assert network.run(lambda: present(members[0]) == 1, 10)
    again = network.join("quotes", name=f"m{victim}", secret=SECRET, quorum="one")
    assert network.run(lambda: again.complete, 10)


@KINDS
@pytest.mark.parametrize("role", ["member", "reader"])
def test_messages_say_the_names_of_their_senders(reliability: str, role: str) -> None:
    """Also in a feed, where processes meet before they have said their names."""
    network = FakeNetwork(seed=22)
    members = gather(network, 3, reliability=reliability)
    for member in members:
        member.send(b"before", replaces="key")
    network.run(seconds=2)
    late = network.join("quotes", name="r", secret=SECRET, reliability=reliability, role=role)
    assert network.run(lambda: late.complete, 10)
    for member in members:
        member.send(b"after")
    network.run(seconds=2)
    for one in (late, members[0]):
        senders = sorted(message.sender for message in one.receive_many())
        assert senders == ["m0", "m0", "m1", "m1", "m2", "m2"]


# -- recordings ------------------------------------------------------------------------------------


def frames_of(datagrams: list[bytes]) -> set[str]:
    """The kinds of frames in these."""
    found: set[str] = set()
    for datagram in datagrams:
        found |= kinds_of(datagram, Keyring(SECRET.encode()))
    return found


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_recordings_of_an_open_group_do_nothing(reliability: str) -> None:
    """Everything that was ever said is said again, to members and to one that is new."""
    network = FakeNetwork(seed=14, loss=0.05)
    a, b, c = gather(network, 3, reliability=reliability)
    reader = network.join("quotes", name="r", secret=SECRET, role="reader", reliability=reliability)
    assert network.run(lambda: reader.complete, 10)
    for number in range(30):
        a.send(b"%d" % number, replaces=f"key {number % 5}")
        network.run(seconds=0.01)
    late = network.join("quotes", name="late", secret=SECRET, reliability=reliability)
    assert network.run(lambda: late.complete, 10)
    c.crash()
    assert network.run(lambda: present(a) == (4 if reliability == "sender" else 3), 30)
    network.run(seconds=1)
    if reliability == "sender":
        assert {"SUBSCRIBE", "BEGIN", "HAVE", "NEED", "CHUNK"} <= frames_of(
            [datagram for _, _, datagram in network.seen]
        )
    else:
        wanted = OPEN_FRAMES - {"LACK", "TELL", "PAST"}
        assert wanted <= frames_of([datagram for _, _, datagram in network.seen])
    for member in (a, b, reader, late):
        member.receive_many()
    a.send(b"before", replaces="key 0")
    network.run(seconds=1)
    views = [member.session.member.view.digest for member in (a, b, late) if member.session.member]
    recorded = list(network.seen)
    fresh = network.join("quotes", name="fresh", secret=SECRET, reliability=reliability)
    for source, _, datagram in recorded:
        for member in (a, b, reader, late, fresh):
            network.inject(source, member.session.transport.address, datagram)
    assert network.run(lambda: fresh.complete, 10)
    network.run(seconds=2)
    assert [payloads(member) for member in (b, reader, late)] == [[b"before"]] * 3
    assert all(member.session.ended is None for member in (a, b, reader, late, fresh))
    if reliability == "group":
        assert all(present(member) == 4 for member in (a, b, late, fresh))
        assert len(set(views)) == 1
    got = [message.payload for message in fresh.receive_many()]
    assert sorted(got) == sorted([b"before", b"26", b"27", b"28", b"29"])


# -- what goes wrong -------------------------------------------------------------------------------


def error_of(network: FakeNetwork, member: FakeMember) -> str:
    assert network.run(lambda: member.session.ended is not None, 10)
    assert isinstance(member.session.ended, GroupClosedError)
    return str(member.session.ended)


def test_another_secret_is_said_to_be_one() -> None:
    network = FakeNetwork(seed=10)
    gather(network, 2)
    other = network.join("quotes", name="other", secret="another secret of sixteen bytes")
    assert "do not open: is this the group's secret" in error_of(network, other)


@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("role", ["member", "reader"])
@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_another_secret_is_not_taken_for_a_free_name_though_the_group_is_at_rest(
    reliability: str, role: str, multicast: bool
) -> None:
    network = FakeNetwork(seed=15, multicast=multicast)
    given: dict[str, Any] = {"reliability": reliability, "role": role}
    members = gather(network, 3, reliability=reliability)
    network.run(seconds=60)
    secret = "another secret of sixteen bytes"
    other = network.join("quotes", name="o", secret=secret, **given)
    began_ns = network.now_ns
    assert "is this the group's secret" in error_of(network, other)
    assert network.now_ns - began_ns < 1_000_000_000
    assert all(present(one) == 3 for one in members)


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_another_version_is_said_to_be_one(
    reliability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = FakeNetwork(seed=16)
    gather(network, 2, reliability=reliability)
    network.run(seconds=60)
    strange, inject = ("10.0.9.9", 7400), network.inject

    def inject_other(source: Address, to: Address, datagram: bytes) -> None:
        """What the newcomer sends and gets is of different versions."""
        inject(source, to, b"\x63" + datagram[1:] if strange in (source, to) else datagram)

    monkeypatch.setattr(network, "inject", inject_other)
    other = network.join(
        "quotes", name="other", secret=SECRET, reliability=reliability, address=strange
    )
    assert "another version of semcast" in error_of(network, other)


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_groups_that_share_a_name_and_no_secret_leave_each_other_alone(reliability: str) -> None:
    """Each says to whom it cannot read that it is there; that is not answered in turn."""
    network = FakeNetwork(seed=17)
    one = network.join("quotes", name="one", secret=SECRET, reliability=reliability)
    other = network.join("quotes", name="other", secret=SECRET[::-1], reliability=reliability)
    hosts = [member.session.transport.address[0] for member in (one, other)]
    network.severed.update({(hosts[0], hosts[1]), (hosts[1], hosts[0])})
    assert network.run(lambda: one.complete and other.complete, 10)
    network.severed.clear()
    network.run(seconds=30)
    network.seen.clear()
    network.run(seconds=60)
    assert len(network.seen) < 600


@pytest.mark.parametrize("role", ["member", "reader"])
def test_who_wants_to_join_a_closed_group_is_told_so(role: str) -> None:
    network = FakeNetwork(seed=11)
    closed = [network.join("quotes", name=name, secret=SECRET, size=2) for name in "ab"]
    assert network.run(lambda: all(one.complete for one in closed), 10)
    other = network.join("quotes", name="other", secret=SECRET, role=role)
    began_ns = network.now_ns
    assert "says that its members are counted" in error_of(network, other)
    assert network.now_ns - began_ns < 1_000_000_000


@pytest.mark.parametrize("stability", ["gossip", "coordp"])
def test_who_counts_votes_otherwise_is_told_so(stability: str) -> None:
    network = FakeNetwork(seed=18)
    members = gather(network, 2, stability=stability)
    network.run(seconds=30)
    own = "train" if stability == "gossip" else "gossip"
    other = network.join("quotes", name="other", secret=SECRET, stability=own)
    assert f"join with stability={stability!r}" in error_of(network, other)
    assert all(present(one) == 2 for one in members)
    # Readers have no vote.
    reader = network.join("quotes", name="r", secret=SECRET, stability=own, role="reader")
    assert network.run(lambda: reader.complete, 10)


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_nobody_waits_for_a_process_whose_name_another_has_taken(reliability: str) -> None:
    network = FakeNetwork(seed=19)
    gather(network, 3, reliability=reliability)
    network.run(seconds=1)
    again = network.join("quotes", name="m1", secret=SECRET, reliability=reliability)
    assert network.run(lambda: again.complete, 10)
    again.leave()
    late = network.join("quotes", name="late", secret=SECRET, reliability=reliability)
    began_ns = network.now_ns
    assert network.run(lambda: late.complete, 10)
    assert network.now_ns - began_ns < 1_000_000_000


@pytest.mark.parametrize("role", ["member", "reader"])
def test_another_reliability_is_said_to_be_one(role: str) -> None:
    network = FakeNetwork(seed=12)
    gather(network, 2)
    network.run(seconds=30)
    other = network.join("quotes", name="other", secret=SECRET, reliability="sender", role=role)
    network.run(seconds=3)
    assert isinstance(other.session.ended, OtherKindError)
    assert other.session.ended.reliability == "group"
    assert "join with reliability='group'" in str(other.session.ended)


@pytest.mark.parametrize("role", ["member", "reader"])
def test_a_feed_at_rest_is_not_taken_for_a_free_name(role: str) -> None:
    network = FakeNetwork(seed=14)
    for name in "ab":
        one = network.join("quotes", name=name, secret=SECRET, reliability="sender")
        assert network.run(lambda one=one: one.complete, 10)  # type: ignore[misc]
    network.run(seconds=30)
    other = network.join("quotes", name="other", secret=SECRET, role=role)
    network.run(seconds=2)
    assert isinstance(other.session.ended, OtherKindError)
    assert other.session.ended.reliability == "sender"


def test_a_reader_that_finds_nobody_says_so() -> None:
    network = FakeNetwork(seed=13)
    reader = network.join("quotes", name="r", secret=SECRET, role="reader")
    assert not network.run(lambda: reader.complete, 5)
    assert isinstance(reader.session, OpenSession)
    assert "nobody is there in group 'quotes'" in reader.session.why_not_in()
