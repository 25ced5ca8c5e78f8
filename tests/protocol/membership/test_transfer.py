"""A process that comes late gets what stands: all of it, once, in order, before the stream."""

import pytest
from tests.protocol.membership.newcomers import NewcomerGroup

from semcast.obsolescence.tagger import Keys, Predecessors, Ranked, Replaces
from semcast.protocol.config import MemberConfig

CONFIG = MemberConfig(f=0)


def quotes(group: NewcomerGroup, sender: int, keys: int, rounds: int = 1) -> None:
    """Values of so many keys, each so many times."""
    for turn in range(rounds):
        for key in range(keys):
            while not group.put(sender, b"%d.%d" % (turn, key), f"k{key}"):
                group.run(5)


def test_a_newcomer_gets_the_last_value_of_every_key_before_the_stream() -> None:
    group = NewcomerGroup(CONFIG, 3)
    quotes(group, 0, 5, rounds=2)
    group.put(0, b"never replaced", None)
    group.settle()
    newcomer = group.come_back(2)
    group.until_whole(newcomer)
    group.put(0, b"new", "k1")
    group.settle()
    got = group.taken[newcomer.me]
    assert [message.payload for message in got if message.state] == [
        b"1.0", b"1.1", b"1.2", b"1.3", b"1.4",
    ]  # fmt: skip
    assert [message.payload for message in got if not message.state] == [b"new"]
    assert got[-1].skipped == ()
    group.check(newcomer)
    assert newcomer.stats()["state_messages"] == 5
    assert newcomer.stats()["state_incomplete"] == 0


@pytest.mark.parametrize("reliability", ["group", "sender"])
@pytest.mark.parametrize("order", ["fifo", "key"])
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_values_that_are_replaced_during_the_transfer_come_in_order(
    reliability: str, order: str, loss: float
) -> None:
    config = MemberConfig(f=0, reliability=reliability, order=order)
    group = NewcomerGroup(config, 3, seed=7)
    quotes(group, 0, 300)
    group.settle()
    group.loss = loss
    newcomer = group.come_back(2)
    turn = 0
    while newcomer.transfer.pending or turn < 20:
        turn += 1
        for key in range(0, 300, 17):
            group.put(0, b"%d" % turn, f"k{key}")
        group.put(1, b"%d" % turn, "other")
        group.run(2)
        assert turn < 2_000, newcomer.stats()
    group.settle()
    group.check(newcomer)
    assert group.values(newcomer.me) == group.true_values()


def test_a_newcomer_whose_group_never_sent_anything_waits_for_nothing() -> None:
    group = NewcomerGroup(CONFIG, 3)
    group.run(200)
    newcomer = group.come_back(1)
    group.until_whole(newcomer)
    group.put(0, b"first", "k")
    group.settle()
    assert [(one.payload, one.state) for one in group.taken[newcomer.me]] == [(b"first", False)]


def test_nothing_reaches_the_application_before_the_state_is_there() -> None:
    """Not even what this process multicasts itself."""
    group = NewcomerGroup(CONFIG, 3)
    quotes(group, 0, 3)
    group.settle()
    newcomer = group.come_back(2)
    group.put(2, b"mine", "k")
    group.put(0, b"live", "k0")
    assert newcomer.deliverable() == 0
    assert newcomer.take(10, group.now_ns) == []
    assert newcomer.take_one(group.now_ns) is None
    assert newcomer.oldest() is None
    group.settle()
    payloads = [one.payload for one in group.taken[newcomer.me]]
    assert payloads[:2] in ([b"0.1", b"0.2"], [b"0.0", b"0.1"])
    assert sorted(payloads[-2:]) == [b"live", b"mine"]
    group.check(newcomer)


def test_many_keys_come_in_few_round_trips() -> None:
    """5,000 values, while others are being replaced."""
    config = MemberConfig(f=0, window_messages=8_192, delivery_messages=8_192)
    group = NewcomerGroup(config, 3, seed=3)
    quotes(group, 0, 5_000)
    group.settle()
    newcomer = group.come_back(2)
    # It is in the view, and knows where its streams begin.
    assert group.run(2_000, lambda: len(group.cuts[newcomer.me]) >= 2)
    began_ns = group.now_ns
    for turn in range(10):
        group.put(0, b"new %d" % turn, f"k{turn}")
    group.until_whole(newcomer)
    # Datagrams take half a millisecond, and a link has no bounds here.
    assert group.now_ns - began_ns < 60_000_000
    group.settle()
    group.check(newcomer)
    assert group.values(newcomer.me) == group.true_values()


USES: dict[str, list[Replaces]] = {
    "keys": [Keys(("a", "b")), "a", Keys(("b", "c")), "c", Keys(("a",)), "d", Keys(("c", "d"))],
    "ranked": [Ranked("x", 3), Ranked("x", 1), Ranked("y", 2), "x", Ranked("y", 5)],
    "named": ["a", "b", Predecessors((1,)), "c", "a", Predecessors((4,)), None],
}


@pytest.mark.parametrize("replacement", ["key", "bitmap"])
@pytest.mark.parametrize("uses", USES)
def test_every_way_to_replace_is_respected(uses: str, replacement: str) -> None:
    config = MemberConfig(f=1, replacement=replacement, k=16)
    group = NewcomerGroup(config, 4, seed=5)
    for turn in range(3):
        for sender in (0, 1):
            for replaces in USES[uses]:
                if isinstance(replaces, Predecessors):
                    sent = len(group.history[group.members[sender].me])
                    replaces = Predecessors((sent - 1,))
                group.put(sender, b"%d" % turn, replaces)
        group.run(40)
    newcomer = group.come_back(3)
    for replaces in USES[uses][:3]:
        group.put(0, b"late", replaces if not isinstance(replaces, Predecessors) else "late")
        group.run(1)
    group.settle()
    group.check(newcomer)


def test_values_of_senders_that_are_gone_still_stand_in_a_group() -> None:
    """Also those of a life of which the newcomer never heard."""
    group = NewcomerGroup(MemberConfig(f=1), 4)
    quotes(group, 1, 4)
    group.settle()
    for other in (0, 2, 3):
        group.members[other].remove(1, group.now_ns)
    del group.members[1]
    assert group.run(5_000, lambda: group.followed_by(0) < 4)
    newcomer = group.come_back(3)
    group.until_whole(newcomer)
    group.run(500)
    assert {one.payload for one in group.taken[newcomer.me]} == {b"0.0", b"0.1", b"0.2", b"0.3"}
    assert all(one.state for one in group.taken[newcomer.me])
    group.check(newcomer)


def test_a_newcomer_of_a_newcomer_gets_the_same() -> None:
    """Who came late holds all that stands for those who come later."""
    group = NewcomerGroup(MemberConfig(f=0), 2)
    quotes(group, 0, 30)
    group.settle()
    second = group.come_back(1)
    group.until_whole(second)
    group.settle()
    third = group.come_back(0)
    group.until_whole(third)
    group.settle()
    group.check(third)
    assert group.values(third.me) == group.true_values()


def test_if_nobody_has_any_state_a_newcomer_goes_on_and_says_so() -> None:
    """Both members of a group come back at once."""
    group = NewcomerGroup(MemberConfig(f=0), 2)
    quotes(group, 0, 3)
    group.settle()
    first, second = group.come_back(0), group.come_back(1)
    group.until_whole(first)
    group.until_whole(second)
    group.put(0, b"on", "k")
    group.settle()
    assert [one.payload for one in group.taken[second.me]] == [b"on"]
    assert second.stats()["state_incomplete"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_if_the_provider_dies_another_goes_on(seed: int) -> None:
    config = MemberConfig(f=1, window_messages=4_096, delivery_messages=4_096)
    group = NewcomerGroup(config, 4, seed)
    quotes(group, 0, 2_000)
    group.settle()
    group.loss = 0.05
    newcomer = group.come_back(3)
    # Some of the state has come, and not all.
    assert group.run(5_000, lambda: newcomer.transfer.came > 100 * (seed + 1))
    assert newcomer.transfer.pending
    dead = newcomer.transfer.asks
    del group.members[dead]
    for sender in sorted(group.members):
        group.members[sender].remove(dead, group.now_ns)
    group.until_whole(newcomer)
    group.settle()
    group.check(newcomer)
    assert newcomer.stats()["state_incomplete"] == 0


def test_a_member_whose_application_sleeps_is_not_asked_if_another_is_there() -> None:
    config = MemberConfig(f=0, delivery_messages=16)
    group = NewcomerGroup(config, 4, seed=2)
    group.asleep.add(1)
    for key in range(16):
        group.put(0, b"v", f"k{key}")
    group.run(300)
    newcomer = group.come_back(3)
    group.until_whole(newcomer)
    assert group.members[1].deliverable() == 16
    assert {len(group.taken[newcomer.me])} == {16}
    group.check(newcomer)


def test_if_all_others_sleep_one_of_them_is_asked_all_the_same() -> None:
    config = MemberConfig(f=0, delivery_messages=16)
    group = NewcomerGroup(config, 3, seed=2)
    group.asleep.update((0, 1))
    for key in range(16):
        group.put(0, b"v", f"k{key}")
    group.run(300)
    newcomer = group.come_back(2)
    group.until_whole(newcomer)
    group.check(newcomer)
    assert len(group.taken[newcomer.me]) == 16


def test_a_message_larger_than_a_datagram_stands_too() -> None:
    config = MemberConfig(f=0)
    group = NewcomerGroup(config, 3, seed=9)
    for key in range(4):
        group.put(0, bytes([key]) * 300_000, f"large{key}")
        group.put(0, b"small", f"small{key}")
    group.settle()
    group.loss = 0.1
    newcomer = group.come_back(2)
    group.until_whole(newcomer, 60_000)
    group.settle()
    group.check(newcomer)
    assert group.values(newcomer.me) == group.true_values()


def test_keys_that_found_no_room_are_told_of() -> None:
    group = NewcomerGroup(MemberConfig(f=0, standing_keys_max=10), 3)
    quotes(group, 0, 40)
    group.settle()
    newcomer = group.come_back(2)
    group.until_whole(newcomer)
    got = group.taken[newcomer.me]
    assert 8 <= len(got) <= 10
    assert got[-1].payload == b"0.39"
    assert newcomer.stats()["state_incomplete"] == 1
    assert group.members[0].stats()["standing_dropped"] >= 30


def test_without_state_a_newcomer_gets_the_stream_only() -> None:
    group = NewcomerGroup(MemberConfig(f=0, state="none"), 3)
    quotes(group, 0, 5)
    group.settle()
    assert group.members[0].stats()["standing_keys"] == 0
    newcomer = group.come_back(2)
    assert not newcomer.transfer.pending
    group.run(500)
    group.put(0, b"live", "k0")
    group.settle()
    assert [one.payload for one in group.taken[newcomer.me]] == [b"live"]


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_one_that_was_here_before_gets_what_changed_since(reliability: str) -> None:
    group = NewcomerGroup(MemberConfig(f=0, reliability=reliability), 3, seed=4)
    quotes(group, 0, 10)
    group.settle()
    former = group.members[2]
    had = {group.members[0].me: 10}
    group.put(0, b"changed", "k3")
    group.put(0, b"added", "k10")
    group.run(300)
    newcomer = group.begin(2, int(former.me.incarnation) + 1)
    newcomer.transfer.resume(had)
    group.until_whole(newcomer)
    group.put(0, b"live", "k1")
    group.settle()
    got = [(one.payload, one.state) for one in group.taken[newcomer.me]]
    assert got == [(b"changed", True), (b"added", True), (b"live", False)]


def test_one_that_was_put_out_before_its_state_came_still_needs_all_of_it() -> None:
    group = NewcomerGroup(MemberConfig(f=0), 3, seed=4)
    quotes(group, 0, 10)
    group.settle()
    newcomer, source = group.come_back(2), group.members[0].me
    assert group.run(1000, lambda: group.cuts[newcomer.me].get(source) == 10)
    assert newcomer.transfer.pending, "the stream begins after the tenth, which has not come yet"
    assert newcomer.transfer.had().get(source, 0) == 0
    group.until_whole(newcomer)
    assert newcomer.transfer.had()[source] == 10


def test_one_that_had_more_than_is_stable_gets_nothing_twice() -> None:
    group = NewcomerGroup(MemberConfig(f=0), 3, seed=4)
    quotes(group, 0, 10)
    group.settle()
    # It had three more, which another lacks for long.
    group.cut.add((0, 1))
    for turn in range(3):
        group.put(0, b"unstable %d" % turn, f"u{turn}")
    group.run(20)
    newcomer = group.begin(2, 2)
    newcomer.transfer.resume({group.members[0].me: 13})
    group.cut.clear()
    group.until_whole(newcomer)
    group.put(0, b"live", "k1")
    group.settle()
    got = [one.payload for one in group.taken[newcomer.me]]
    assert got == [b"live"]
    assert group.taken[newcomer.me][0].skipped == ()


def test_a_member_that_leaves_delivers_what_stood_before_it_goes() -> None:
    group = NewcomerGroup(CONFIG, 3)
    quotes(group, 0, 4)
    group.settle()
    newcomer = group.come_back(2)
    group.asleep.add(2)
    group.until_whole(newcomer)
    newcomer.begin_leaving(group.now_ns)
    assert newcomer.deliverable() == 1
    assert [one.payload for one in newcomer.take(10, group.now_ns)] == [
        b"0.0", b"0.1", b"0.2", b"0.3",
    ]  # fmt: skip
