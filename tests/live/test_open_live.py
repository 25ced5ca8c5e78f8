"""Open groups over real sockets: joining, what is wanted, and the application's own state."""

import asyncio
import json
import threading
import uuid
from contextlib import ExitStack, suppress

import pytest
from tests.live.groups import wait_until

import semcast
import semcast.blocking
from semcast.errors import ConfigError, GroupClosedError
from semcast.live.blocking import Group

SECRET = "a secret that only tests have"


@pytest.fixture
def name() -> str:
    return f"open-{uuid.uuid4().hex[:8]}"


def enter(stack: ExitStack, group: str, who: str, **more: object) -> Group:
    settings = {"name": who, "secret": SECRET, "interface": "lo", "deliver_own": False} | more
    return stack.enter_context(semcast.blocking.join(group, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("reliability", ["group", "sender"])
def test_join_needs_a_name_and_a_secret(name: str, reliability: str) -> None:
    with ExitStack() as stack:
        a = enter(stack, name, "a", reliability=reliability)
        b = enter(stack, name, "b", reliability=reliability)
        wait_until(lambda: len(a.view) == 2 == len(b.view), "both see each other")
        a.send(b"101.25", replaces="AAPL")
        assert b.receive(timeout=10).payload == b"101.25"
        b.send(b"17.50", replaces="IBM")
        assert a.receive(timeout=10).payload == b"17.50"


def test_what_is_sent_when_join_has_returned_is_received(name: str) -> None:
    with ExitStack() as stack:
        a = enter(stack, name, "a")
        for number in range(5):
            with ExitStack() as late:
                b = enter(late, name, f"b{number}")
                a.send(b"%d" % number)
                assert b.receive(timeout=10).payload == b"%d" % number


def test_a_process_gets_only_what_it_wants(name: str) -> None:
    with ExitStack() as stack:
        a = enter(stack, name, "a")
        b = enter(stack, name, "b", only="A")
        c = enter(stack, name, "c", only=lambda key: key.endswith(b"M"))
        for key in ("AAPL", "IBM", "AMD", "MSFT"):
            a.send(key.encode(), replaces=key)
        a.send(b"to all")
        got = [b.receive(timeout=10) for _ in range(3)]
        assert [one.payload for one in got] == [b"AAPL", b"AMD", b"to all"]
        assert [list(one.skipped) for one in got] == [[], [], []]
        assert [c.receive(timeout=10).payload for _ in range(2)] == [b"IBM", b"to all"]


def test_the_state_of_an_application_goes_to_who_comes_late(name: str) -> None:
    counted: dict[str, dict[str, int]] = {"a": {}, "b": {}, "c": {}}
    total = {"even": 10, "odd": 10}

    def counter(group: Group, counts: dict[str, int]) -> None:
        # An application saves its state while it receives, so it goes on until it is told to stop.
        with suppress(GroupClosedError):
            while True:
                word = group.receive().payload.decode()
                counts[word] = counts.get(word, 0) + 1

    with ExitStack() as stack:

        def begin(who: str) -> Group:
            counts = counted[who]
            hooks: dict[str, object] = {
                "snapshot": lambda: json.dumps(counts).encode(),
                "restore": lambda saved: counts.update(json.loads(saved)),
                # What a process has sent is part of its state when it has received it.
                "deliver_own": True,
            }
            group = enter(stack, name, who, **hooks)
            threading.Thread(target=counter, args=(group, counts), daemon=True).start()
            return group

        a = begin("a")
        begin("b")
        for number in range(10):
            a.send(b"even" if number % 2 == 0 else b"odd")
        wait_until(lambda: sum(counted["b"].values()) == 10, "b has counted ten")
        begin("c")
        wait_until(lambda: sum(counted["c"].values()) == 10, "c has what b had")
        for number in range(10):
            a.send(b"even" if number % 2 == 0 else b"odd")
        wait_until(lambda: all(one == total for one in counted.values()), "all have counted all")


def test_snapshot_and_restore_belong_together(name: str) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        semcast.blocking.join(name, secret=SECRET, snapshot=lambda: b"")
    with pytest.raises(ConfigError, match="without functions"):
        semcast.blocking.join(name, secret=SECRET, state="snapshot")


def test_a_snapshot_contains_what_its_process_has_received_of_its_own(name: str) -> None:
    """Otherwise a newcomer would never get what was sent and is not in the snapshot."""
    with pytest.raises(ConfigError, match="snapshot with deliver_own=False"):
        semcast.blocking.join(
            name, secret=SECRET, deliver_own=False, snapshot=lambda: b"", restore=len
        )


def test_a_reader_sends_nothing(name: str) -> None:
    with ExitStack() as stack:
        enter(stack, name, "a")
        reader = enter(stack, name, "r", role="reader")
        with pytest.raises(semcast.errors.LocalProtocolError, match="a reader sends nothing"):
            reader.send(b"no")


def test_a_reader_without_a_group_is_told_that_nobody_is_there(name: str) -> None:
    with pytest.raises(GroupClosedError, match="nobody is there"), ExitStack() as stack:
        enter(stack, name, "r", role="reader", join_timeout_s=0.5)


def test_another_secret_is_refused_and_not_taken_for_an_empty_group(name: str) -> None:
    with ExitStack() as stack:
        enter(stack, name, "a")
        with pytest.raises(GroupClosedError, match="is this the group's secret"):
            enter(stack, name, "b", secret="another secret of sixteen bytes", join_timeout_s=3_000)


def test_who_cannot_get_in_learns_it_without_waiting_in_asyncio_too(name: str) -> None:
    async def join() -> None:
        settings = {"secret": "another secret of sixteen bytes", "interface": "lo"}
        await semcast.join(name, name="b", join_timeout_s=3_000, **settings)  # type: ignore[arg-type]

    with ExitStack() as stack:
        enter(stack, name, "a")
        with pytest.raises(GroupClosedError, match="is this the group's secret"):
            asyncio.run(asyncio.wait_for(join(), 120))


def test_events_say_who_comes_and_goes(name: str) -> None:
    with ExitStack() as stack:
        a = enter(stack, name, "a")
        with ExitStack() as late:
            enter(late, name, "b")
            wait_until(lambda: len(a.view) == 2, "a sees b")
        wait_until(lambda: len(a.view) == 1, "a sees that b has left")
        kinds = [(event.kind, event.member) for event in a.past_events()]
        assert ("joined", "b") in kinds
        assert ("left", "b") in kinds
        assert [kind for kind, _ in kinds].count("view") >= 2


def test_who_was_too_slow_for_the_others_does_not_come_back_by_itself(name: str) -> None:
    """It would hold them up again; its application takes what waits, and is told."""
    small = {"evict_after_s": 2.0, "delivery_messages": 8, "window_messages": 16}
    with ExitStack() as stack:
        a, b = enter(stack, name, "a", **small), enter(stack, name, "b", **small)
        wait_until(lambda: len(a.view) == 2, "a sees b")
        for number in range(100):
            a.send(b"%d" % number)
        wait_until(lambda: b.closed, "b is told")
        taken = [int(message.payload) for message in b]
        with pytest.raises(GroupClosedError, match="stood in the way for longer than evict_aft"):
            b.receive(timeout=10)
        assert len(taken) >= 8
        assert taken == sorted(taken)
