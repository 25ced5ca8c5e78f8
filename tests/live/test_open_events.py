"""What happens in an open group or a feed is told: each kind of event is made to happen."""

import signal
from contextlib import ExitStack, suppress

import pytest
from tests.live.groups import wait_until
from tests.live.processes import DEADLINE_S, SECRET, Member, new_group

import semcast.blocking
from semcast.live.blocking import Group

KINDS = ["group", "sender"]
SETTINGS = {"secret": SECRET, "interface": "lo", "transport": "multicast", "slow_after_ms": 100.0}


class Company:
    """Members of one group in this process, and in processes of their own."""

    def __init__(self, stack: ExitStack, reliability: str) -> None:
        self._stack = stack
        self._settings = SETTINGS | {"group": new_group(), "reliability": reliability}

    def enter(self, who: str, **more: object) -> Group:
        settings = self._settings | {"name": who, "deliver_own": False} | more
        return self._stack.enter_context(semcast.blocking.join(**settings))  # type: ignore[arg-type]

    def start(self, who: str, **more: object) -> Member:
        made = Member(name=who, join_timeout_s=DEADLINE_S, **self._settings, **more)
        self._stack.callback(made.close)
        made.wait_joined()
        return made


def told(group: Group, kind: str, member: str) -> bool:
    return any((one.kind, one.member) == (kind, member) for one in group.past_events())


def wait_told(group: Group, kind: str, member: str) -> None:
    wait_until(lambda: told(group, kind, member), f"{group.name} says that {member}: {kind}")


def count(group: Group, kind: str, member: str) -> int:
    return sum((one.kind, one.member) == (kind, member) for one in group.past_events())


@pytest.mark.parametrize("reliability", KINDS)
def test_who_comes_goes_and_is_killed_and_the_state(reliability: str) -> None:
    with ExitStack() as stack:
        company = Company(stack, reliability)
        a = company.enter("a")
        a.send(b"101.25", replaces="AAPL")
        b = company.enter("b")
        assert b.receive(timeout=DEADLINE_S).payload == b"101.25"
        wait_told(a, "joined", "b")
        wait_told(a, "view", "a")
        wait_told(b, "state-begun", "b")
        wait_told(b, "state-done", "b")
        c, d = company.start("c"), company.start("d")
        wait_told(a, "joined", "d")
        c.do("leave")
        wait_told(a, "left", "c")
        wait_told(b, "left", "c")
        d.kill()
        # Somebody waits for it only if there is something to wait for.
        a.send(b"17.50", replaces="IBM")
        b.send(b"17.75", replaces="IBM")
        for one in (a, b):
            wait_told(one, "evicted", "d")
            assert not told(one, "left", "d")
            assert not told(one, "evicted", "c")


@pytest.mark.parametrize("reliability", KINDS)
def test_who_is_stopped_is_suspected_and_recovers(reliability: str) -> None:
    with ExitStack() as stack:
        company = Company(stack, reliability)
        a, b = company.enter("a"), company.enter("b")
        c = company.start("c")
        wait_until(lambda: len(a.view) == 3 == len(b.view), "all are there")
        for _ in range(10):  # on a busy machine it may be put out before it goes on
            before = count(a, "suspected", "c")
            c.process.send_signal(signal.SIGSTOP)
            a.send(b"x", replaces="k")
            wait_until(lambda before=before: count(a, "suspected", "c") > before, "suspected")  # type: ignore[misc]
            c.process.send_signal(signal.SIGCONT)
            with suppress(TimeoutError, AssertionError):
                wait_until(lambda: told(a, "recovered", "c"), "recovered", 5)
                return
        pytest.fail("it never recovered")


@pytest.mark.parametrize("reliability", KINDS)
def test_who_is_slow_and_who_is_blocked_by_that(reliability: str) -> None:
    with ExitStack() as stack:
        company = Company(stack, reliability)
        a = company.enter("a", window_messages=32, delivery_messages=32)
        b = company.enter("b", window_messages=32, delivery_messages=32)
        wait_until(lambda: len(a.view) == 2, "both are there")
        sent = 0
        with suppress(TimeoutError):
            while sent < 10_000:
                a.send(b"never replaced", timeout=0.5)
                sent += 1
        wait_told(a, "blocked", "a")
        wait_told(a, "slow", "b")
        for _ in range(sent):
            b.receive(timeout=DEADLINE_S)
        wait_told(a, "unblocked", "a")
        wait_told(a, "recovered", "b")
        assert not told(a, "evicted", "b"), "slow is not dead"


def test_nobody_is_put_out_because_its_application_sleeps() -> None:
    """Its engine answers. With room for all that comes nobody is even blocked."""
    with ExitStack() as stack:
        company = Company(stack, "group")
        a, b = company.enter("a"), company.enter("b")
        c = company.start("c")  # obeys orders, and takes nothing
        wait_until(lambda: len(a.view) == 3 == len(b.view), "all are there")
        for number in range(300):
            a.send(b"%d" % number, replaces="k", timeout=DEADLINE_S)
            b.receive(timeout=DEADLINE_S)
        assert not told(a, "evicted", "c")
        assert c.do("receive_until", text="299")[-1] == "299"
