"""Events: told to whoever listens, in order, until the member leaves; missed ones are counted."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.live.groups import (
    DEADLINE_S,
    common,
    meeting,
    new_group,
    wait_until,
    way_settings,
    with_two_others,
)
from tests.live.material import Way

import semcast
import semcast.blocking
from semcast.live.group import BaseGroup
from semcast.live.insight.event_feed import Listener
from semcast.live.meeting.health import EVENTS_MAX, Event

WAY = Way("unicast", ipv6=False)
ALONE = common("a") | way_settings(WAY)


def event(number: int) -> Event:
    return Event("back", "b", number, f"event {number}")


def tell(group: BaseGroup, numbers: range) -> None:
    with group._engine.lock:
        for number in numbers:
            group._feed.publish(event(number))


def fail(group: BaseGroup) -> None:
    """The engine ends by itself, as after a bug of ours."""
    with group._engine.lock:
        group._engine.host.fail(group._engine.seat, RuntimeError("a bug"))


# -- queues ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_every_event_is_taken_in_order_or_counted_as_missed_in_its_place(seed: int) -> None:
    stream = random.Random(f"{seed}/listener")
    listener = Listener("a", lambda: None)
    put, accounted, missed = 0, 0, 0

    def take() -> bool:
        nonlocal accounted, missed
        found = listener.take()
        if found is None:
            return False
        if found.kind == "missed":
            accounted += found.behind_messages
            missed += 1
            assert found.member == "a"
            assert str(found.behind_messages) in found.text
            assert found.time_ns == accounted - 1
        else:
            assert found == event(accounted)
            accounted += 1
        return True

    for _ in range(40):
        for _ in range(stream.randrange(EVENTS_MAX // 4)):
            listener.put(event(put))
            put += 1
        for _ in range(stream.randrange(EVENTS_MAX // 8)):
            take()
        assert len(listener._waiting) <= EVENTS_MAX
    while take():
        pass
    assert accounted == put
    assert missed > 0


# -- blocking --------------------------------------------------------------------------------------


class Reader:
    """A thread that listens, and stops after its first event until it may go on."""

    def __init__(self, group: semcast.blocking.Group) -> None:
        self.got: list[Event] = []
        self.go_on = threading.Event()
        self._group = group
        self.thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        for found in self._group.events():
            self.got.append(found)
            self.go_on.wait(DEADLINE_S)


@contextmanager
def reading(group: semcast.blocking.Group) -> Iterator[Reader]:
    """Listens when this begins, and has to come to an end when it ends."""
    reader = Reader(group)
    reader.thread.start()
    wait_until(lambda: bool(group._feed._listeners), "it listens")
    yield reader
    reader.thread.join(DEADLINE_S)
    assert not reader.thread.is_alive(), "its events do not end"
    assert not group._feed._listeners


def test_events_are_told_and_end_when_the_member_leaves() -> None:
    with meeting(WAY) as (a, b, _), reading(a) as reader:
        reader.go_on.set()
        b.leave(0)
        wait_until(lambda: bool(reader.got), "a is told")
        assert (reader.got[0].kind, reader.got[0].member) == ("left", "b")
        a.leave(0)


@pytest.mark.parametrize("end", [lambda group: group.leave(0), fail], ids=["leave", "fail"])
def test_who_waits_for_events_is_woken_by_the_end(
    end: Callable[[semcast.blocking.Group], None],
) -> None:
    with meeting(WAY, ("a",)) as (a,):
        with reading(a) as reader:
            end(a)
        assert reader.got == []
        assert list(a.events()) == []  # nor does one begin to wait


def test_events_end_when_nothing_happens_in_time() -> None:
    with meeting(WAY, ("a",)) as (a,):
        assert list(a.events(timeout=0)) == list(a.events(timeout=0.05)) == []


def test_a_listener_that_is_too_slow_is_told_how_many_events_it_missed() -> None:
    with meeting(WAY, ("a",)) as (a,), reading(a) as reader:
        tell(a, range(1))
        wait_until(lambda: bool(reader.got), "the first is told")
        tell(a, range(1, EVENTS_MAX + 8))
        a.leave(0)  # what was told before is still to be had
        reader.go_on.set()
    assert reader.got[:-1] == [event(number) for number in range(EVENTS_MAX + 1)]
    assert (reader.got[-1].kind, reader.got[-1].behind_messages) == ("missed", 7)


# -- asyncio ---------------------------------------------------------------------------------------


async def read(group: semcast.Group) -> list[Event]:
    """All events, until they end."""
    return [found async for found in group.events()]


async def listening(group: semcast.Group) -> "asyncio.Task[list[Event]]":
    """The same; it listens when this returns."""
    task = asyncio.create_task(read(group))
    while not group._feed._listeners:
        await asyncio.sleep(0)
    return task


def test_asyncio_events_are_told_and_end_when_the_member_leaves(way: Way) -> None:
    async def run() -> None:
        async with with_two_others(way) as (a, b, _):
            reader = await listening(a)
            await asyncio.to_thread(b.leave, 0.0)
            await asyncio.to_thread(wait_until, lambda: bool(a.past_events()), "a is told")
            await a.leave(0)
            got = await asyncio.wait_for(reader, DEADLINE_S)
            assert [(one.kind, one.member) for one in got][:1] == [("left", "b")]
            assert not a._feed._listeners

    asyncio.run(run())


def test_who_waits_for_asyncio_events_is_woken_by_the_end() -> None:
    async def run() -> None:
        async with semcast.join(new_group(), name="a", **ALONE) as a:
            reader = await listening(a)
            await asyncio.to_thread(fail, a)
            assert await asyncio.wait_for(reader, DEADLINE_S) == []
            assert await asyncio.wait_for(read(a), DEADLINE_S) == []

    asyncio.run(run())


def test_an_asyncio_listener_that_is_too_slow_is_told_how_many_events_it_missed() -> None:
    async def run() -> None:
        async with semcast.join(new_group(), name="a", **ALONE) as a:
            reader = await listening(a)
            tell(a, range(EVENTS_MAX + 7))  # meanwhile the loop stands still
            await a.leave(0)
            got = await asyncio.wait_for(reader, DEADLINE_S)
            assert got[:-1] == [event(number) for number in range(EVENTS_MAX)]
            assert (got[-1].kind, got[-1].behind_messages) == ("missed", 7)

    asyncio.run(run())
