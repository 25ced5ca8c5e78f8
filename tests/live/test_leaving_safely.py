"""Leaving takes nothing along: it waits until the others have what a member took, or says so."""

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import DEADLINE_S, meeting, take, wait_until
from tests.live.material import Way
from tests.live.namespace import lan
from tests.live.test_namespaces import Hosts

import semcast.blocking
from semcast.check import History
from semcast.errors import GroupClosedError
from semcast.journal import Journal, read_journal, runs_in

WAY = Way("unicast", ipv6=False)
# Whoever does not read has room for four messages; and for a few more that wait for those.
TIGHT: dict[str, Any] = {"window_messages": 8, "delivery_messages": 4, "deliver_own": False}
HOSTS = "abcde"


def unsafe(group: semcast.blocking.Group) -> list[str]:
    return [event.text for event in group.past_events() if event.kind == "unsafe"]


def test_who_leaves_when_all_have_everything_is_told_so() -> None:
    with meeting(WAY) as (a, b, c):
        a.send_many([b"x"] * 100)
        for member in (a, b, c):
            take(member, 100)
        for member in (b, a, c):
            assert member.leave(DEADLINE_S) is True
            assert not unsafe(member)


def test_who_took_what_another_lacks_waits_for_that_one_to_have_it() -> None:
    """Only its sender was waited for; now also whoever else takes a copy along."""
    with meeting(WAY, **TIGHT) as (a, b, c):
        sending = threading.Thread(target=a.send_many, args=([b"x"] * 9,), daemon=True)
        sending.start()
        take(b, 8)  # of which c has no room for the last
        safe: list[bool] = []
        leaving = threading.Thread(target=lambda: safe.append(b.leave(DEADLINE_S)), daemon=True)
        leaving.start()
        leaving.join(1.0)
        assert leaving.is_alive(), "b leaves although c lacks what it took"
        take(c, 8)
        leaving.join(DEADLINE_S)
        assert safe == [True]
        assert not unsafe(b)
        take(c, 1)


def test_who_leaves_too_early_is_told_so_and_so_are_logs_and_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with meeting(WAY, **TIGHT) as (a, b, _):
        a.send_many([b"x"] * 8)
        take(b, 8)
        listener = b.events(timeout=DEADLINE_S)
        told: list[str] = []
        listening = threading.Thread(
            target=lambda: told.extend(event.kind for event in listener), daemon=True
        )
        listening.start()
        wait_until(lambda: len(b._feed._listeners) == 1, "b listens")
        assert b.leave(0.2) is False
        (text,) = unsafe(b)
        assert text.startswith("b left before all others had what it sent and took: ")
        assert text in caplog.text
        listening.join(DEADLINE_S)
        assert "unsafe" in told
        assert b.leave() is False  # as before


def test_a_member_that_leaves_sends_no_more_and_delivers_nothing_new() -> None:
    with meeting(WAY, **TIGHT) as (a, b, c):
        a.send_many([b"x"] * 8)
        take(b, 8)
        leaving = threading.Thread(target=b.leave, args=(DEADLINE_S,), daemon=True)
        leaving.start()
        member = b._engine.session.member
        assert member is not None
        wait_until(lambda: member.leaving, "b leaves")
        for send in (b.send_nowait, b.send):
            with pytest.raises(GroupClosedError, match="is leaving"):
                send(b"too late")
        # What comes next it keeps for others, and does not deliver: it need not wait for that.
        take(c, 4)
        a.send(b"y")
        give_up_s = time.monotonic() + 1.0
        while leaving.is_alive() and time.monotonic() < give_up_s:
            with pytest.raises((TimeoutError, GroupClosedError)):
                b.receive(0.05)
        take(c, 5)
        leaving.join(DEADLINE_S)
        assert b.closed


def test_a_group_that_never_came_together_is_left_at_once() -> None:
    """There is nothing to wait for; it used to take as long as draining may."""
    with meeting(WAY, "a") as (a,):
        a._engine.session.member = None
        assert a.leave(3600.0) is True


# -- the sender is killed --------------------------------------------------------------------------


def received(journal: Journal) -> dict[str, set[int]]:
    """By the name of a member: what it had in the end. All of it is of one sender."""
    names = dict(one.split() for one in journal.header.names)
    found: defaultdict[str, set[int]] = defaultdict(set)
    for event in journal:
        if event.event == "receive" and event.seq is not None:
            found[names[event.node]].add(event.seq)
    return found


def test_survivors_of_a_killed_sender_that_leave_soon_do_not_differ(tmp_path: Path) -> None:
    """The sender filled its window under loss, and took the only whole copy of it along. They leave
    at once, so that nothing is repaired by then, however fast that is.
    """
    way = Way("multicast", ipv6=False)
    settings = {"reliability": "group", "window_messages": 512, "record": str(tmp_path)}
    with lan(HOSTS) as network:
        for host in HOSTS:
            network.lose(host, percent=8)
        with Hosts(network, way, **settings) as nodes:
            for name in "bcde":
                nodes[name].call("collect")
            nodes["a"].call("traffic", count=1_000_000, size=64)
            wait_until(lambda: nodes["b"].call("count", sender="a") > 500, "b has some", 60)
            nodes["a"].kill()
            for host in HOSTS[1:]:
                network.heal(host)
            for name in "bcd":
                nodes[name].start("depart", drain_s=300.0)
            assert [nodes[name].finish(320.0) for name in "bcd"] == [True] * 3
            got = [[one[2] for one in nodes[name].call("collected")] for name in "bcde"]
            nodes["e"].call("leave", drain_s=0.0)
        (run,) = runs_in(tmp_path)
        journal = read_journal(tmp_path, run)
        everything = received(journal)
        assert everything["b"] == everything["c"] == everything["d"] == everything["e"]
        # And applications got it in order; what they had no time for was there for them.
        for one in got:
            assert one == list(range(1, len(one) + 1))
        assert got[3][-1] >= max(one[-1] for one in got[:3])
        assert History(journal).run.settled.bit_count() == 3
