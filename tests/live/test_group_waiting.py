"""Waiting: timeouts, cancellation, threads, iteration, contexts; blocking and asyncio."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.live.groups import meeting, quiet, take, wait_until, with_two_others
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError, LocalProtocolError, WindowFullError

DEADLINE_S = 90.0


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%d" % number for number in range(count)]


@contextmanager
def ending(*threads: threading.Thread) -> Iterator[None]:
    """Threads that run meanwhile, and that have to come to an end."""
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), f"{thread.name} does not end"


# -- blocking --------------------------------------------------------------------------------------


def test_receiving_with_a_timeout_gives_up_and_takes_nothing(way: Way) -> None:
    with meeting(way) as (a, b, _):
        for seconds in (0.0, 0.05):
            with pytest.raises(TimeoutError, match="no message came in time"):
                b.receive(seconds)
            with pytest.raises(TimeoutError):
                b.receive_many(5, seconds)
        a.send(b"x")
        assert b.receive(DEADLINE_S).payload == b"x"


@pytest.mark.parametrize("messages_max", [0, -1])
def test_who_asks_for_no_messages_is_told_so_and_does_not_wait(messages_max: int, way: Way) -> None:
    """Neither where none waits nor where one does."""
    refusal = f"messages_max is {messages_max}; ask for at least one message"
    with meeting(way) as (a, b, _):
        with pytest.raises(LocalProtocolError, match=refusal):
            b.receive_many(messages_max, DEADLINE_S)
        a.send(b"x")
        assert b.receive(DEADLINE_S).payload == b"x"
        a.send(b"y")
        with pytest.raises(LocalProtocolError, match=refusal):
            b.receive_many(messages_max, DEADLINE_S)
        assert b.receive(DEADLINE_S).payload == b"y"

    async def ask() -> None:
        async with with_two_others(way) as (c, _, _):
            with pytest.raises(LocalProtocolError, match=refusal):
                await c.receive_many(messages_max)

    asyncio.run(ask())


def test_drain_waits_until_everybody_has_everything(way: Way) -> None:
    with meeting(way, window_messages=8, delivery_messages=4, deliver_own=False) as (a, b, c):
        a.send_many(numbered(6))
        with pytest.raises(TimeoutError, match="not every member has everything"):
            a.drain(0.2)
        take(b, 6)
        take(c, 6)
        a.drain(DEADLINE_S)


def test_iteration_ends_when_the_member_leaves(way: Way) -> None:
    got: list[bytes] = []
    with meeting(way) as (a, b, _):

        def read() -> None:
            got.extend(message.payload for message in b)

        with ending(threading.Thread(target=read)):
            a.send_many(numbered(10))
            wait_until(lambda: len(got) == 10, "all ten are read")
            b.leave(0)
        assert got == numbered(10)


def test_who_waits_is_woken_when_the_member_leaves(way: Way) -> None:
    errors: list[BaseException] = []
    with meeting(way, window_messages=4, delivery_messages=4, deliver_own=False) as (a, b, _):
        # 4 wait at each reader, 4 wait for room there: there is none for more.
        assert a.send_many(numbered(8), timeout=DEADLINE_S) == 8

        def wait(call: Any) -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)

        waits = [lambda: a.send(b"x"), a.receive, a.drain, lambda: a.send_many([b"x"])]
        with ending(*(threading.Thread(target=wait, args=(call,)) for call in waits)):
            a.leave(0)
        assert len(errors) == 4
        assert all(isinstance(error, GroupClosedError) for error in errors), errors
        for _ in range(2):  # again: no harm
            b.leave(5)
            a.leave(5)


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_context_leaves_whatever_happens_in_it(
    way: Way, error: type[BaseException] | None
) -> None:
    with meeting(way) as (a, b, c):
        try:
            with c:
                c.send(b"last words")
                if error is not None:
                    raise error
        except (ValueError, KeyboardInterrupt):
            assert error is not None
        assert c.closed
        with pytest.raises(GroupClosedError, match="has left"):
            c.send(b"x")
        wait_until(lambda: {v.name: v.state for v in a.view}["c"] == "left", "a sees that c left")
        a.send(b"to those who are left")
        a.drain(DEADLINE_S)
        if error is None:
            assert take(b, 1)[0].payload == b"last words"


def test_several_threads_send_and_receive_at_once(way: Way) -> None:
    """Each message is taken once, and each thread's messages keep their order."""
    got: dict[str, list[list[bytes]]] = {"a": [], "b": []}
    count, senders, readers = 200, 3, 3
    with meeting(way, ("a", "b"), window_messages=64, delivery_messages=64) as (a, b):
        total = 2 * senders * count

        def send(group: semcast.blocking.Group, which: int) -> None:
            for payload in numbered(count, b"%s%d/" % (group.name.encode(), which)):
                group.send(payload, timeout=DEADLINE_S)

        def read(group: semcast.blocking.Group) -> None:
            mine: list[bytes] = []
            got[group.name].append(mine)
            while sum(map(len, got[group.name])) < total:
                try:
                    mine.append(group.receive(0.2).payload)
                except TimeoutError:
                    continue

        threads = [
            threading.Thread(target=send, args=(group, which))
            for group in (a, b)
            for which in range(senders)
        ] + [threading.Thread(target=read, args=(g,)) for g in (a, b) for _ in range(readers)]
        with ending(*threads):
            pass
        wanted = sorted(
            payload
            for name in "ab"
            for which in range(senders)
            for payload in numbered(count, b"%s%d/" % (name.encode(), which))
        )
        for name in "ab":
            assert sorted(payload for mine in got[name] for payload in mine) == wanted
            for mine in got[name]:
                for sender in {payload.partition(b"/")[0] for payload in mine}:
                    own = [int(p.partition(b"/")[2]) for p in mine if p.startswith(sender + b"/")]
                    assert own == sorted(own)


@pytest.mark.parametrize("kind", ["multicast", "unicast"])
def test_an_application_that_sleeps_does_not_stop_its_member(kind: str) -> None:
    """One that does nothing for 3 s acknowledges, is not taken for dead, and has everything."""
    way = Way(kind, ipv6=False)
    with meeting(way) as (a, b, _):
        b_since_s = time.monotonic()
        sent = 0
        while time.monotonic() - b_since_s < 3.0:
            sent += a.send_many(numbered(10))
            a.drain(DEADLINE_S)
            time.sleep(0.05)
        # A machine may stand still for long enough that all are silent; then b is back by itself.
        wait_until(lambda: {v.name: v.state for v in a.view}["b"] == "here", "b is here")
        assert len(take(b, sent)) == sent


# -- asyncio ---------------------------------------------------------------------------------------


def test_asyncio_sends_and_receives(way: Way) -> None:
    async def run() -> None:
        async with with_two_others(way) as (a, b, c):
            assert await a.send(b"one") == 1
            assert a.send_nowait(b"two", replaces="x") == 2
            assert await a.send_many(numbered(500), ["x"] * 500) == 500
            await asyncio.wait_for(a.drain(), DEADLINE_S)
            assert (await a.receive()).payload == b"one"
            (last,) = await a.receive_many()
            assert (last.payload, list(last.skipped)) == (b"499", list(range(2, 502)))
            for other in (b, c):
                got = await asyncio.to_thread(take, other, 2)
                assert [message.payload for message in got] == [b"one", b"499"]

    asyncio.run(run())


def test_receiving_may_be_cancelled_and_nothing_is_lost(way: Way) -> None:
    async def run() -> None:
        stream = random.Random("1/cancel")
        async with with_two_others(way, deliver_own=False) as (a, b, _):
            got: list[bytes] = []

            async def read() -> None:
                while True:
                    if stream.random() < 0.5:
                        got.append((await a.receive()).payload)
                    else:
                        got.extend(message.payload for message in await a.receive_many(3))

            for start in range(0, 300, 10):
                await asyncio.to_thread(b.send_many, numbered(300)[start : start + 10])
                reading = asyncio.create_task(read())
                await asyncio.sleep(stream.random() * 0.004)
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
            while len(got) < 300:
                got.append((await asyncio.wait_for(a.receive(), DEADLINE_S)).payload)
            assert got == numbered(300)

    asyncio.run(run())


def test_sending_may_be_cancelled_and_then_nothing_was_sent(way: Way) -> None:
    async def run() -> None:
        sizes = {"window_messages": 4, "delivery_messages": 4}
        async with with_two_others(way, deliver_own=False, **sizes) as (a, b, c):
            sent = 8  # 4 wait at each reader, 4 wait for room there: there is none for more
            for number in range(sent):
                await asyncio.wait_for(a.send(b"%d" % number), DEADLINE_S)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(a.send(b"cancelled"), 0.3)
            with pytest.raises(WindowFullError):
                a.send_nowait(b"x")
            for other in (b, c):
                await asyncio.to_thread(take, other, sent)
            assert await asyncio.wait_for(a.send(b"next"), DEADLINE_S) == sent + 1
            for other in (b, c):
                (message,) = await asyncio.to_thread(take, other, 1)
                assert (message.payload, message.skipped) == (b"next", ())

    asyncio.run(run())


def test_asyncio_iteration_ends_when_the_member_leaves(way: Way) -> None:
    async def run() -> None:
        async with with_two_others(way) as (a, b, _):
            got: list[bytes] = []

            async def read() -> None:
                async for message in a:
                    got.append(message.payload)  # noqa: PERF401

            reading = asyncio.create_task(read())
            await asyncio.to_thread(b.send_many, numbered(10))
            give_up_s = time.monotonic() + DEADLINE_S
            while len(got) < 10 and time.monotonic() < give_up_s:
                await asyncio.sleep(0.01)
            await a.leave(0)
            await asyncio.wait_for(reading, DEADLINE_S)
            assert got == numbered(10)
            with pytest.raises(GroupClosedError):
                await a.receive()

    asyncio.run(run())


def test_a_loop_that_is_busy_does_not_stop_its_member(way: Way) -> None:
    async def run() -> None:
        async with with_two_others(way) as (a, b, _):
            b.send_many(numbered(100))
            b.drain(DEADLINE_S)  # a's loop stands still here, and yet a acknowledges
            got: list[bytes] = []
            while len(got) < 100:
                got += [message.payload for message in await a.receive_many()]
            assert got == numbered(100)

    asyncio.run(run())


def test_nothing_waits_after_all_was_taken(way: Way) -> None:
    with meeting(way) as (a, b, _):
        a.send_many(numbered(3))
        take(b, 3)
        assert quiet(b)
