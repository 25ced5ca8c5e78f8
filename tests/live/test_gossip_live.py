"""Groups that gossip over real sockets: the same calls, journal, questions and errors as others."""

import asyncio
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import wait_until

import semcast
import semcast.blocking
from semcast.check import History, check_all
from semcast.errors import ConfigError, GroupClosedError, MessageTooLargeError
from semcast.journal import read_journal
from semcast.live.blocking import Group
from semcast.live.config import GroupConfig
from semcast.live.meeting.asker import Asker
from semcast.obsolescence import Ranked

SECRET = "a secret that only tests have"


@pytest.fixture
def name() -> str:
    return f"gossip-{uuid.uuid4().hex[:8]}"


def enter(stack: ExitStack, group: str, who: str, **more: Any) -> Group:
    settings = {"name": who, "secret": SECRET, "interface": "lo", "reliability": "gossip"} | more
    return stack.enter_context(semcast.blocking.join(group, **settings))


def take(group: Group, wanted: set[bytes]) -> None:
    """Receive until all of these have come."""
    missing = set(wanted)
    while missing:
        missing.discard(group.receive(timeout=30).payload)


def test_ten_members_get_everything_and_their_journal_holds(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    with ExitStack() as stack:
        recorded = {"record": str(folder), "record_run": "run"}
        members = [enter(stack, name, f"m{number}", **recorded) for number in range(10)]
        sent = {b"%d %d" % (at, count) for at in range(10) for count in range(3)}
        for at, member in enumerate(members):
            for count in range(3):
                member.send(b"%d %d" % (at, count))
                member.send(b"quote", replaces="AAPL")
        for member in members:
            take(member, sent)
        stats = members[0].stats()
        assert 1 <= stats["neighbours"] <= 5
        assert stats["members"] == stats["neighbours"] + 1
        wait_until(lambda: "neighbour" in [one.kind for one in members[0].past_events()], "told")
    history = History(read_journal(folder, "run"))
    report = check_all(history)
    assert report.ok, str(report)
    assert history.header.reliability == "gossip"
    assert report.judged["Relaying"] > 0
    assert history.counts["deliver"] >= 300


def test_asyncio_and_blocking_members_meet(name: str) -> None:
    async def both() -> bytes:
        settings: dict[str, Any] = {"secret": SECRET, "interface": "lo", "reliability": "gossip"}
        async with semcast.join(name, name="a", **settings) as a:
            with await asyncio.to_thread(semcast.blocking.join, name, name="b", **settings) as b:
                await a.send(b"101.25", replaces=Ranked("AAPL", 1))
                return (await asyncio.to_thread(b.receive, 30)).payload

    assert asyncio.run(both()) == b"101.25"


def test_one_peer_is_enough_without_multicast(name: str) -> None:
    with ExitStack() as stack:
        unicast: dict[str, Any] = {"transport": "unicast", "interface": "", "host": "127.0.0.1"}
        first = enter(stack, name, "first", peers=("127.0.0.1:9",), **unicast)
        port = first.view[0].address.rpartition(" ")[2]
        others = [
            enter(stack, name, f"m{number}", peers=(f"127.0.0.1:{port}",), **unicast)
            for number in range(4)
        ]
        wait_until(lambda: all(one.stats()["neighbours"] >= 2 for one in others), "they know more")
        others[0].send(b"to all")
        for member in (first, *others):
            take(member, {b"to all"})


def test_questions_are_answered_by_all_who_are_found(name: str) -> None:
    with ExitStack() as stack:
        for number in range(4):
            enter(stack, name, f"m{number}")
        config = GroupConfig(name, name="asker", secret=SECRET, interface="lo", size=1)
        with Asker(config) as asker:
            answers = asker.ask("members", 10)
        assert answers.sample
        assert sorted(answers.by_name) == ["m0", "m1", "m2", "m3"]


def test_another_secret_is_said(name: str) -> None:
    with ExitStack() as stack:
        enter(stack, name, "a")
        with pytest.raises(GroupClosedError, match="do not open"):
            enter(stack, name, "b", secret="another secret of enough bytes")


def test_a_message_has_to_fit_a_datagram(name: str) -> None:
    with ExitStack() as stack:
        only = enter(stack, name, "a", path_mtu_bytes=1400)
        with pytest.raises(MessageTooLargeError):
            only.send(bytes(2_000))
        assert only.send(bytes(1_000)) == 1


def test_a_member_gets_only_what_it_wants_and_passes_all_on(name: str) -> None:
    with ExitStack() as stack:
        a = enter(stack, name, "a")
        b = enter(stack, name, "b", only="A")
        for key in ("AAPL", "IBM", "AMD"):
            a.send(key.encode(), replaces=key)
        a.send(b"to all")
        assert {b.receive(timeout=30).payload for _ in range(3)} == {b"AAPL", b"AMD", b"to all"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"role": "reader"}, "role is 'reader' with reliability 'gossip': there everybody relays"),
        ({"order": "key"}, "order is 'key' with reliability 'gossip'"),
        ({"quorum": "one"}, "quorum is 'one' with reliability 'gossip'"),
        ({"size": 3}, "size is 3 with reliability 'gossip'"),
        ({"members": ("a", "b")}, "members is"),
        ({"total_messages": 100}, "choose delivery_messages and relay_messages"),
        ({"evict_after_s": 1.0}, "nobody waits for others"),
        ({"stability": "train"}, "stability is 'train'"),
        ({"purging": False}, "choose relay_policy 'random'"),
        ({"relay_tree": True, "relay_repair": False}, "what the tree does not bring is asked for"),
        ({"relay_policy": "nicely"}, "relay_policy"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        GroupConfig("bids", name="a", secret=SECRET, reliability="gossip", **settings)


def test_functions_for_state_are_refused() -> None:
    with pytest.raises(ConfigError, match="nobody keeps state for newcomers"):
        semcast.blocking.join(
            "bids", secret=SECRET, reliability="gossip", snapshot=bytes, restore=len
        )


def test_settings_of_gossip_are_for_gossip() -> None:
    with pytest.raises(ConfigError, match="relay_fanout is 3 with reliability 'group'"):
        GroupConfig("bids", name="a", secret=SECRET, relay_fanout=3)
