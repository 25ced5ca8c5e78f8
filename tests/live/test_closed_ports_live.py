"""A process that is killed leaves a closed port, and the group learns of it by that."""

import signal
import time
from contextlib import ExitStack

import pytest
from tests.live.groups import wait_until
from tests.live.processes import DEADLINE_S, SECRET, Member, new_group

import semcast.blocking
from semcast.live.blocking import Group
from semcast.live.sockets import closed_ports

pytestmark = pytest.mark.skipif(not closed_ports.SUPPORTED, reason="only Linux reports them")


def enter(stack: ExitStack, group: str, who: str, **more: object) -> Group:
    settings = {"name": who, "secret": SECRET, "interface": "lo", "transport": "multicast"} | more
    return stack.enter_context(semcast.blocking.join(group, **settings))  # type: ignore[arg-type]


def start(stack: ExitStack, group: str, who: str, **more: object) -> Member:
    """In a process of its own."""
    settings = {"name": who, "secret": SECRET, "interface": "lo", "transport": "multicast"} | more
    made = Member(group=group, join_timeout_s=DEADLINE_S, **settings)
    stack.callback(made.close)
    made.wait_joined()
    return made


def closed(*groups: Group) -> float:
    return sum(one.stats()["ports_closed"] for one in groups)


def test_members_learn_from_the_port_of_one_that_was_killed_that_it_is_gone() -> None:
    name = new_group()
    with ExitStack() as stack:
        a, b = enter(stack, name, "a"), enter(stack, name, "b")
        c = start(stack, name, "c")
        wait_until(lambda: len(a.view) == 3 == len(b.view), "all three are in")
        assert closed(a, b) == 0
        c.kill()
        wait_until(lambda: len(a.view) == 2 == len(b.view), "c is put out")
        assert closed(a, b) > 0
        a.send(b"still here")
        assert b.receive(timeout=DEADLINE_S).payload == b"still here"


def test_a_member_that_is_only_stopped_has_its_port_and_stays() -> None:
    """Nothing comes back from a process that has its socket, however long it says nothing."""
    name = new_group()
    with ExitStack() as stack:
        a, b = enter(stack, name, "a"), enter(stack, name, "b")
        c = start(stack, name, "c")
        wait_until(lambda: len(a.view) == 3 == len(b.view), "all three are in")
        c.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.3)
            assert closed(a, b) == 0
        finally:
            c.process.send_signal(signal.SIGCONT)


def test_groups_that_share_a_port_all_learn_of_it() -> None:
    names = [new_group() for _ in range(3)]
    with ExitStack() as stack:
        groups = [enter(stack, name, "a") for name in names]
        others = [enter(stack, name, "b") for name in names]
        dead = [start(stack, name, "c") for name in names]
        wait_until(lambda: all(len(one.view) == 3 for one in (*groups, *others)), "all are in")
        for one in dead:
            one.kill()
        wait_until(lambda: all(len(one.view) == 2 for one in (*groups, *others)), "all are out")
        assert all(closed(*pair) > 0 for pair in zip(groups, others, strict=True))


@pytest.mark.parametrize("reliability", ["sender", "group"])
def test_a_reader_that_was_killed_is_forgotten_by_its_port(reliability: str) -> None:
    name = new_group()
    with ExitStack() as stack:
        a = enter(stack, name, "a", reliability=reliability, deliver_own=False)
        r = start(stack, name, "r", reliability=reliability, role="reader")
        a.send(b"first")
        assert r.do("receive", count=1)[0][2] == "first"
        r.kill()
        a.send(b"second")
        a.drain(DEADLINE_S)
        assert closed(a) > 0
