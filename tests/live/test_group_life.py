"""The life of a group: slow and stopped members, eviction, keys, forks, the interpreter's end."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import (
    DEADLINE_S,
    Node,
    Nodes,
    has_event,
    meeting,
    payloads,
    take,
    wait_until,
)
from tests.live.journals import check_journals, leave_all
from tests.live.material import Way

import semcast.blocking
from semcast.errors import ConfigError, GroupClosedError
from semcast.live.meeting.health import Event, MemberView


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%d" % number for number in range(count)]


def view_of(group: semcast.blocking.Group, name: str) -> MemberView:
    (found,) = [view for view in group.view if view.name == name]
    return found


def events_of(group: semcast.blocking.Group, kind: str, member: str) -> list[Event]:
    found = group.past_events()
    return [event for event in found if (event.kind, event.member) == (kind, member)]


# -- slow members ----------------------------------------------------------------------------------


def test_a_slow_member_is_reported_and_so_is_that_it_recovers(way: Way) -> None:
    with meeting(way, slow_after_ms=300.0, deliver_own=False) as (a, b, c):
        before_ns = a._engine.clock.now_ns()
        a.send_many(numbered(50), ["x"] * 25 + [None] * 25)
        take(b, 26)  # b keeps up, as far as the machine lets it; c does not
        wait_until(lambda: bool(events_of(a, "slow", "c")), "c is reported as slow")
        (event,) = events_of(a, "slow", "c")
        assert before_ns < event.since_ns <= a._engine.clock.now_ns()
        assert event.behind_messages >= 25
        assert event.behind_ms > 300
        assert "c is slow" in event.text
        assert view_of(a, "c").slow
        wait_until(lambda: not view_of(a, "b").slow, "b is not slow")
        take(c, 26)
        wait_until(lambda: bool(events_of(a, "recovered", "c")), "c recovers")
        assert not view_of(a, "c").slow
        wait_until(lambda: view_of(a, "c").purge_ratio > 0.3, "c tells how much was replaced")


def states_at(node: Node) -> dict[str, str]:
    return {view["name"]: view["state"] for view in node.call("view")}


def test_by_default_everybody_waits_for_a_stopped_member_and_goes_on_with_it(
    tmp_path: Path,
) -> None:
    """Slow is not dead: nobody is put out, and nothing is lost."""
    way = Way("multicast", ipv6=False)
    small: dict[str, Any] = {"window_messages": 32, "delivery_messages": 32}
    with Nodes(way, deliver_own=False, slow_after_ms=300.0, record=str(tmp_path), **small) as nodes:
        for node in nodes:
            node.call("collect")
        nodes["c"].pause()
        nodes["a"].call("traffic", count=200)
        wait_until(lambda: has_event(nodes["a"], "suspected", "c"), "c is silent to a")
        wait_until(lambda: has_event(nodes["a"], "blocked", "a"), "a says that it is blocked")
        assert len(nodes["a"].call("sent")) < 200
        nodes["c"].resume()
        wait_until(lambda: len(nodes["c"].call("collected")) == 200, "c has everything")
        wait_until(lambda: has_event(nodes["a"], "recovered", "c"), "c is back to a")
        wait_until(lambda: has_event(nodes["a"], "unblocked", "a"), "a is no longer blocked")
        wanted = [f"{number}:" for number in range(200)]
        for name in "bc":
            assert payloads(nodes[name].call("collected"), "a") == wanted
        here = {"a": "here", "b": "here", "c": "here"}
        wait_until(lambda: states_at(nodes["b"]) == here, "b sees everybody")
        leave_all(nodes)
    check_journals(tmp_path, rested=3)


def test_a_stopped_member_is_put_out_if_the_configuration_says_so(tmp_path: Path) -> None:
    way = Way("unicast", ipv6=False)
    with Nodes(
        # Long enough that b, on a busy machine, is not put out as well.
        way,
        deliver_own=False,
        evict_after_s=5.0,
        window_messages=32,
        delivery_messages=32,
        record=str(tmp_path),
    ) as nodes:
        for node in nodes:
            node.call("collect")
        nodes["c"].pause()
        nodes["a"].call("traffic", count=200)
        wanted = [f"{number}:" for number in range(200)]
        wait_until(lambda: len(nodes["b"].call("collected")) == 200, "b gets everything")
        assert payloads(nodes["b"].call("collected"), "a") == wanted
        wait_until(lambda: has_event(nodes["a"], "evicted", "c"), "a tells that c was put out")
        wait_until(lambda: has_event(nodes["b"], "evicted", "c"), "b tells that c was put out")
        nodes["a"].call("drain")
        nodes["c"].resume()

        def is_told() -> bool:
            try:
                nodes["c"].call("send", payloads=["x"], timeout=0.1)
            except Exception as error:
                return "was put out of group" in str(error)
            return False

        wait_until(is_told, "c is told that it was put out")
        leave_all(nodes, "ab")
        # Its log has an end, behind all that it did not get; but it did not end by itself.
        nodes["c"].call("leave")
    (history,) = check_journals(tmp_path, rested=2)
    put_out = {event.sender for event in history.journal.select(event="evict")}
    assert put_out == {event.node for event in history.journal.select(event="leave")}
    assert len(put_out) == 1


# -- keys ------------------------------------------------------------------------------------------


def test_keys_change_on_a_running_group_without_losing_a_message(way: Way, tmp_path: Path) -> None:
    with meeting(way, record=str(tmp_path)) as members:
        steps: list[Callable[[semcast.blocking.Group], object]] = [
            lambda one: one.install_key(2, "the second secret of this test.."),
            lambda one: one.use_key(2),
            lambda one: one.remove_key(1),
        ]
        sent: list[bytes] = []
        for step in steps:
            for member in members:
                for sender in members:
                    batch = numbered(20, b"%d/" % len(sent))
                    sender.send_many(batch)
                    sent += batch
                step(member)
        for member in members:
            member.drain(DEADLINE_S)
        for member in members:
            assert sorted(m.payload for m in take(member, len(sent))) == sorted(sent)
        known = {member.keys() for member in members}
        assert [[(key.key_id, key.in_use) for key in keys] for keys in known] == [[(2, True)]]
    check_journals(tmp_path, rested=3)


def test_a_group_in_the_clear_has_no_keys_to_change(way: Way) -> None:
    with meeting(way, ("a", "b"), secret=None, insecure=True) as (a, _):
        with pytest.raises(ConfigError, match="not sealed"):
            a.install_key(2, "x" * 32)
        with pytest.raises(ConfigError, match="not sealed"):
            a.keys()


# -- processes -------------------------------------------------------------------------------------


def test_a_forked_child_may_not_use_its_parents_group(way: Way) -> None:
    """It is told so; and the parent goes on, also after the child's end."""
    with meeting(way) as (a, b, _):
        a.send(b"before")
        read_fd, write_fd = os.pipe()
        child = os.fork()
        if child == 0:
            told = b""
            for call in (lambda: a.send(b"x"), lambda: b.receive(1), lambda: a.drain(1)):
                try:
                    call()
                except GroupClosedError as error:
                    told = told or str(error).encode()
                except BaseException as error:
                    told = f"not that: {error!r}".encode()
                    break
            os.write(write_fd, told or b"nothing was raised")
            os._exit(0)
        os.close(write_fd)
        try:
            answers = bool(select.select([read_fd], [], [], DEADLINE_S)[0])
            told = os.read(read_fd, 1000) if answers else b"nothing: the child hangs"
        finally:
            os.close(read_fd)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert b"joined by the parent process" in told
        a.send(b"after")
        assert [message.payload for message in take(b, 2)] == [b"before", b"after"]
        a.drain(DEADLINE_S)
        assert not [event for event in a.past_events() if event.kind == "left"]


def test_a_fork_after_leaving_closes_nobodys_files(way: Way) -> None:
    """The numbers of the group's files are others' by then."""
    with meeting(way):
        pass
    pipes = [os.pipe() for _ in range(32)]
    child = os.fork()
    if child == 0:
        closed = 0
        for fileno in (one for pipe in pipes for one in pipe):
            try:
                os.fstat(fileno)
            except OSError:
                closed += 1
        os._exit(closed)
    _, status = os.waitpid(child, 0)
    for fileno in (one for pipe in pipes for one in pipe):
        os.close(fileno)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("kind", ["multicast", "unicast"])
def test_the_end_of_the_interpreter_is_prompt_and_others_see_that_it_left(kind: str) -> None:
    with Nodes(Way(kind, ipv6=False)) as nodes:
        nodes["c"].call("send", payloads=["last words"])
        nodes["c"].call("drain")
        nodes["c"].call("exit")
        assert nodes["c"].process.wait(DEADLINE_S) == 0
        assert nodes["c"].errors() == ""
        wait_until(lambda: has_event(nodes["a"], "left", "c"), "a sees that c left")
        nodes["a"].call("send", payloads=["to those who are left"])
        nodes["a"].call("drain")
        assert payloads(nodes["b"].call("receive", count=2)) == [
            "last words",
            "to those who are left",
        ]


def test_an_application_that_computes_does_not_stop_its_member() -> None:
    """Its thread holds the interpreter nearly all the time, and yet its member acknowledges."""
    with Nodes(Way("multicast", ipv6=False)) as nodes:
        nodes["c"].start("compute", seconds=4.0)
        for _ in range(3):
            nodes["a"].call("send", payloads=["x"] * 10)
            nodes["a"].call("drain")
        assert not nodes["c"].has_answered(), "its member waited until it had computed"
        nodes["c"].finish()
