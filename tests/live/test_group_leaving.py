"""Joining and leaving, whatever comes between: a slow resolver, cancellation, being forgotten."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import (
    DEADLINE_S,
    common,
    new_group,
    wait_until,
    way_settings,
    with_two_others,
)
from tests.live.material import Way

import semcast
import semcast.blocking
from semcast.errors import TransportError
from semcast.live.config import GroupConfig, configure
from semcast.live.group import BaseGroup
from semcast.live.host.engine import Engine
from semcast.live.meeting import joining
from semcast.live.sockets.address import Address

WAY = Way("unicast", ipv6=False)
PATIENCE_S = 60.0
# Two members who never read: the first sends more than they have room for, so it cannot drain.
TIGHT: dict[str, Any] = {"window_messages": 8, "delivery_messages": 4, "deliver_own": False}


def alone(**settings: Any) -> dict[str, Any]:
    """What the only member of a new group is told."""
    return common("a") | way_settings(WAY) | {"name": "a"} | settings


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Names:
    """A resolver that does not answer before it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.in_time = True

    def resolve(self, *_: object) -> list[Address]:
        self.asked.set()
        self.in_time = self.answer.wait(PATIENCE_S)
        return []


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(joining, "resolve", found.resolve)
    return found


def joining_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("semcast join")]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Afterwards there are as many threads and open files as before."""
    gc.collect()
    threads, files = threading.active_count(), open_files()
    yield
    wait_until(lambda: threading.active_count() <= threads, "all threads end")
    wait_until(lambda: open_files() <= files, "all sockets are closed")


# -- joining ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_a_loop_goes_on_while_a_member_looks_up_its_peers(names: Names) -> None:
    async def run() -> None:
        joined = asyncio.ensure_future(semcast.join(new_group(), **alone())._join())
        while not names.asked.is_set():
            await asyncio.sleep(0.01)
        names.answer.set()  # which a loop that stands still comes to do too late
        await (await joined).leave(0)
        assert names.in_time

    asyncio.run(run())


@pytest.mark.usefixtures("nothing_left")
def test_joining_may_be_cancelled_while_it_opens_and_leaves(names: Names) -> None:
    """At once, although its thread still looks up names; what that opens is closed again."""

    async def run() -> None:
        joined = asyncio.ensure_future(semcast.join(new_group(), **alone())._join())
        while not names.asked.is_set():
            await asyncio.sleep(0.01)
        joined.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joined

    asyncio.run(run())
    names.answer.set()
    wait_until(lambda: not joining_threads(), "it is done")
    assert names.in_time


@pytest.mark.usefixtures("nothing_left")
def test_joining_may_be_cancelled_while_it_waits_for_others_and_leaves(way: Way) -> None:
    async def run() -> None:
        group = new_group()
        given = common("ab") | way_settings(way)
        joined = asyncio.ensure_future(semcast.join(group, name="a", **given)._join())
        give_up_s = time.monotonic() + DEADLINE_S
        while not any(one.name == "semcast" for one in threading.enumerate()):
            assert time.monotonic() < give_up_s, "the engine does not start"
            await asyncio.sleep(0.01)
        joined.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joined

    asyncio.run(run())


@pytest.mark.usefixtures("nothing_left")
def test_what_is_wrong_with_a_configuration_is_told_to_who_joins() -> None:
    async def run() -> None:
        with pytest.raises(TransportError, match="has no address"):
            await semcast.join(new_group(), **alone(peers=["nobody.invalid:7400"]))

    asyncio.run(run())


# -- leaving ---------------------------------------------------------------------------------------


async def cancelled_while_it_drains(leaving: "asyncio.Task[Any]") -> None:
    """Let it begin, then cancel it."""
    await asyncio.sleep(0.1)
    assert not leaving.done()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving


def test_who_cancels_leaving_has_left() -> None:
    async def run() -> None:
        async with with_two_others(WAY, **TIGHT) as (a, b, _):
            await a.send_many([b"x"] * 6)
            await cancelled_while_it_drains(asyncio.create_task(a.leave(DEADLINE_S)))
            assert a.closed

            def is_told() -> bool:
                return {view.name: view.state for view in b.view}["a"] == "left"

            await asyncio.to_thread(wait_until, is_told, "b sees that a left")

    asyncio.run(run())


def test_a_cancelled_context_has_left() -> None:
    """Cancelled in its body, and while it drains at its end."""

    async def run() -> None:
        async with with_two_others(WAY, **TIGHT) as (a, _, _):

            async def stay() -> None:
                async with a:
                    await a.receive()

            await cancelled_while_it_drains(asyncio.create_task(stay()))
            assert a.closed
        async with with_two_others(WAY, **TIGHT) as (a, _, _):

            async def go() -> None:
                async with a:
                    await a.send_many([b"x"] * 6)

            await cancelled_while_it_drains(asyncio.create_task(go()))
            assert a.closed

    asyncio.run(run())


class Interrupted(semcast.blocking.Group):
    """Somebody presses Ctrl-C while it drains."""

    def _settle(self, drain_s: float) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def test_who_is_interrupted_while_leaving_has_left() -> None:
    group = Interrupted(configure(alone(group=new_group())))
    engine = group._engine
    try:
        joining.wait_complete(engine)
        with pytest.raises(KeyboardInterrupt):
            group.leave()
        assert group.closed
        assert engine.seat.closing
    finally:
        engine.stop()


# -- being forgotten -------------------------------------------------------------------------------


async def asyncio_group(config: GroupConfig) -> BaseGroup:
    return semcast.Group(config)


async def blocking_group(config: GroupConfig) -> BaseGroup:
    return semcast.blocking.Group(config)


@pytest.mark.parametrize("make", [asyncio_group, blocking_group])
def test_a_group_that_nobody_holds_leaves(make: Callable[[GroupConfig], Any]) -> None:
    async def run() -> None:
        config = configure(common("ab") | {"name": "a", "group": new_group(), "interface": "lo"})
        forgotten = await make(config)
        engine = forgotten._engine
        del forgotten
        gc.collect()
        try:
            wait_until(lambda: engine.session.ended is not None, "the engine stops")
        finally:
            engine.stop()

    asyncio.run(run())


@pytest.mark.parametrize("make", [asyncio_group, blocking_group])
def test_a_group_leaves_even_if_its_own_engine_finds_that_nobody_holds_it(
    make: Callable[[GroupConfig], Any],
) -> None:
    """It is part of a cycle, which the garbage collector finds while that thread has the lock."""
    found = threading.Event()

    async def forgotten() -> Engine:
        group = await make(configure(alone(group=new_group())))
        engine: Engine = group._engine
        cycle = [group]
        cycle.append(cycle)

        def on_turn(_: int) -> None:
            if not found.is_set():
                gc.collect()
                found.set()

        with engine.lock:
            engine.seat.on_turn = on_turn
            del group, cycle
        return engine

    gc.collect()
    gc.disable()
    try:
        engine = asyncio.run(forgotten())
        assert found.wait(PATIENCE_S), "the engine hangs"
        wait_until(lambda: engine.session.ended is not None, "the engine stops", PATIENCE_S)
    finally:
        gc.enable()


def test_an_asyncio_group_that_was_used_and_forgotten_leaves() -> None:
    """Having waited, and listened to events, does not hold it either."""

    async def run() -> None:
        group = await semcast.join(new_group(), **alone())
        engine = group._engine
        for wait in (group.receive(), anext(aiter(group.events()))):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(wait, 0.01)
        del group, wait
        await asyncio.sleep(0)
        gc.collect()
        try:
            wait_until(lambda: engine.session.ended is not None, "the engine stops")
        finally:
            engine.stop()

    asyncio.run(run())
