"""Real groups: every member gets every unreplaced message, on each of the four ways."""

import random
from contextlib import ExitStack
from typing import Any

import pytest
from tests.live.groups import (
    DEADLINE_S,
    address_of,
    common,
    meeting,
    new_group,
    quiet,
    take,
    wait_until,
    way_settings,
)
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError, MessageTooLargeError, WindowFullError
from semcast.live.config import configure
from semcast.live.meeting import joining
from semcast.obsolescence.tagger import Replaces
from semcast.wire.message import Message


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%d" % number for number in range(count)]


def of(messages: list[Message], sender: str) -> list[bytes]:
    return [message.payload for message in messages if message.sender == sender]


# -- arriving --------------------------------------------------------------------------------------


def test_every_member_gets_every_message_in_the_order_of_its_sender(way: Way) -> None:
    with meeting(way) as members:
        for number in range(100):
            for member in members:
                assert member.send(b"%s %d" % (member.name.encode(), number)) == number + 1
        for member in members:
            got = take(member, 300)
            for sender in "abc":
                assert of(got, sender) == numbered(100, sender.encode() + b" ")
            assert all(not message.skipped and not message.key for message in got)
            assert quiet(member)


def test_many_at_once_arrive_as_one_by_one(way: Way) -> None:
    with meeting(way) as (a, b, c):
        sent = numbered(5000)
        assert a.send_many(tuple(sent), timeout=60) == 5000
        assert a.send_many([], []) == 0
        for member in (a, b, c):
            assert of(take(member, 5000), "a") == sent
            assert quiet(member)


def test_what_is_replaced_is_skipped_and_the_next_says_so(way: Way) -> None:
    """Nobody reads while it is sent, so that all but the last of each key is replaced."""
    with meeting(way) as (a, b, c):
        stream = random.Random("1/replaced")
        marks: list[Replaces] = [stream.choice(["x", "y", None]) for _ in range(60)]
        for number, mark in enumerate(marks):
            a.send(b"%d" % number, replaces=mark)
        a.drain(60)
        last = {mark: number for number, mark in enumerate(marks) if mark is not None}
        kept = [n for n, mark in enumerate(marks) if mark is None or last[mark] == n]
        for member in (a, b, c):
            got = take(member, len(kept))
            assert [int(message.payload) for message in got] == kept
            accounted = [seq for message in got for seq in [*message.skipped, message.seq]]
            assert accounted == list(range(1, got[-1].seq + 1))
            assert quiet(member)


def test_a_reader_that_keeps_up_gets_every_value(way: Way) -> None:
    with meeting(way) as (a, b, _):
        for number in range(20):
            a.send(b"%d" % number, replaces="x")
            (message,) = take(b, 1)
            assert (message.payload, message.key, message.skipped) == (b"%d" % number, b"x", ())


def test_by_key_the_newest_value_takes_the_place_of_the_one_it_replaces(way: Way) -> None:
    with meeting(way, order="key") as (a, b, c):
        a.send(b"old", replaces="x")
        a.send(b"between 1")
        a.send(b"between 2")
        a.send(b"new", replaces="x")
        a.drain(60)
        for member in (b, c):
            got = take(member, 3)
            # What is never replaced comes first.
            assert [m.payload for m in got] == [b"between 1", b"between 2", b"new"]
            assert list(got[2].skipped) == [1]


def test_a_message_says_who_sent_it_when(way: Way) -> None:
    with meeting(way) as (a, b, _):
        before_ns = a._engine.clock.now_ns()
        a.send(b"x", replaces=b"\xff key")
        (message,) = take(b, 1)
        assert (message.sender, message.seq, message.key) == ("a", 1, b"\xff key")
        assert before_ns <= message.sent_ns <= a._engine.clock.now_ns()


@pytest.mark.parametrize("reliability", ["sender", "group"])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "clear"])
def test_both_reliabilities_sealed_or_not(way: Way, reliability: str, sealed: bool) -> None:
    how: dict[str, Any] = {} if sealed else {"secret": None, "insecure": True}
    with meeting(way, reliability=reliability, deliver_own=False, **how) as (a, b, c):
        a.send_many(numbered(200))
        assert of(take(b, 200), "a") == of(take(c, 200), "a") == numbered(200)
        a.drain(60)
        assert quiet(a)


def test_a_group_of_one_talks_to_itself(way: Way) -> None:
    with meeting(way, ("alone",)) as (alone,):
        alone.send(b"anybody?")
        assert take(alone, 1)[0].payload == b"anybody?"
        alone.drain(60)


# -- sizes -----------------------------------------------------------------------------------------


def test_large_messages_arrive_whole(way: Way) -> None:
    """Up to the limit, in many datagrams each, between small ones; also on a small path MTU."""
    stream = random.Random("1/large")
    sent = [stream.randbytes(size) for size in (0, 1, 1_399, 70_000, 5, 1 << 20, 12)]
    with meeting(way, path_mtu_bytes=1500) as (a, b, c):
        for payload in sent:
            a.send(payload, timeout=60)
        for member in (b, c):
            assert of(take(member, len(sent)), "a") == sent


def test_a_message_over_the_limit_is_refused_and_changes_nothing(way: Way) -> None:
    with meeting(way, message_bytes_max=1000) as (a, b, _):
        with pytest.raises(MessageTooLargeError, match="1001 bytes exceeds the limit of 1000"):
            a.send(bytes(1001))
        with pytest.raises(MessageTooLargeError):
            a.send_many([b"fine", bytes(1001), b"not reached"])
        a.send(bytes(1000))
        assert [len(m.payload) for m in take(b, 2)] == [4, 1000]


# -- full ------------------------------------------------------------------------------------------


def test_a_full_window_is_told_and_opens_when_the_slow_one_reads(way: Way) -> None:
    with meeting(way, window_messages=8, delivery_messages=8, deliver_own=False) as (a, b, c):
        sent = (
            16  # 8 wait at each reader, 8 wait for room there: for no more, however slowly they go
        )
        assert a.send_many(numbered(sent), timeout=DEADLINE_S) == sent
        with pytest.raises(WindowFullError) as caught:
            a.send_nowait(b"x")
        assert (caught.value.held, caught.value.window_max) == (8, 8)
        with pytest.raises(TimeoutError, match="no room to send in time"):
            a.send(b"x", timeout=0.05)
        for member in (b, c):
            assert of(take(member, sent), "a") == numbered(sent)
        a.send(b"again", timeout=60)
        assert take(b, 1)[0].payload == take(c, 1)[0].payload == b"again"


def test_what_is_replaced_needs_no_room_at_members_that_do_not_read(way: Way) -> None:
    """One slow member costs what cannot be purged, nothing more. SRM §4.2"""
    with meeting(
        way, deliver_own=False, window_messages=64, delivery_messages=64, gossip_period_ms=5.0
    ) as (a, b, c):
        for number in range(600):
            a.send(b"%d" % number, replaces=f"{number % 8}", timeout=DEADLINE_S)
            if number % 30 == 29:  # so that none is replaced before anybody has it
                a.drain(DEADLINE_S)
        for member in (b, c):
            got = take(member, 8)
            assert [int(m.payload) for m in got] == list(range(592, 600))
            assert list(got[0].skipped) == list(range(1, 593))


# -- several groups --------------------------------------------------------------------------------


def others_refused(member: semcast.blocking.Group) -> bool:
    """Those of the other name; and of the other secret, where they have this group's name. Of one
    who has the name of a member, but began before it, not even the seal is looked at.
    """
    refused = member.stats()
    unopened = refused["refused_tag"] + refused["refused_old_incarnation"]
    alone = member.config.group.endswith("-too")
    return refused["refused_group"] > 0 and (unopened > 0) is not alone


def test_two_groups_at_the_same_place_do_not_mix(way: Way) -> None:
    """Another name, or another secret: neither sees the other, even at one address and port."""
    group = new_group()
    place: dict[str, Any] = {}
    if way.kind == "multicast":
        place = {"group_address": "ff15::8000:7" if way.ipv6 else "239.192.7.7", "port": 20_007}
    other: dict[str, Any] = {"secret": "another secret of tests........."}
    with (
        meeting(way, group=group, **place) as ours,
        meeting(way, group=group, **place, **other) as theirs,
        meeting(way, group=group + "-too", **place) as thirds,
    ):
        for which, members in enumerate((ours, theirs, thirds)):
            members[0].send_many(numbered(50, b"%d/" % which))
        for which, members in enumerate((ours, theirs, thirds)):
            for member in members:
                assert of(take(member, 50), "a") == numbered(50, b"%d/" % which)
                assert quiet(member)
                if way.kind == "multicast":
                    wait_until(lambda one=member: others_refused(one), "others are heard")  # type: ignore[misc]


def test_the_wrong_secret_fails_in_one_line_that_says_so(way: Way) -> None:
    """The others are told where it is, so that it hears them."""
    settings = common("abc") | way_settings(way) | {"group": new_group(), "join_timeout_s": 1.0}
    with ExitStack() as stack:
        wrong = semcast.blocking.Group(configure(settings | {"name": "c", "secret": "x" * 32}))
        stack.callback(wrong.leave, 0.0)
        peers = [] if way.kind == "multicast" else [address_of(wrong)]
        for name in "ab":
            config = configure(settings | {"name": name, "peers": peers})
            stack.callback(semcast.blocking.Group(config).leave, 0.0)
        wait_until(lambda: wrong.stats()["refused_tag"] > 0, "it hears the others")
        with pytest.raises(GroupClosedError, match="same secret") as caught:
            joining.wait_complete(wrong._engine)
    assert "\n" not in str(caught.value)
    assert wrong.stats()["refused_tag"] > 0


def test_a_comer_with_the_wrong_secret_does_not_disturb_a_group(way: Way) -> None:
    with meeting(way) as members:
        config = members[2].config
        peers = [address_of(one) for one in members]
        changed: semcast.Settings = {"secret": "x" * 32, "join_timeout_s": 0.5, "peers": peers}
        with pytest.raises(GroupClosedError, match=r"not complete after 0\.5 s"):
            semcast.blocking.join(config.group, config=config, **changed)
        wait_until(lambda: members[0].stats()["refused_tag"] > 0, "it is heard")
        members[0].send(b"still here")
        assert take(members[1], 1)[0].payload == b"still here"


def test_a_member_that_never_comes_is_named(way: Way) -> None:
    settings: dict[str, Any] = {"members": ["a", "nobody"], "join_timeout_s": 0.3}
    alone = meeting(way, ("a",), **settings)
    with pytest.raises(GroupClosedError, match="not heard of: nobody"):
        alone.__enter__()
