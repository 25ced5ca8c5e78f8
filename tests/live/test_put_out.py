"""A member that was put out still takes what came before; then it is told that it is out."""

import asyncio
from collections.abc import Callable

import pytest
from tests.live.groups import DEADLINE_S, meeting, wait_until, with_two_others
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.group import BaseGroup
from semcast.wire.message import Message

# What is sent to all comes to who was put out, too.
WAY = Way("multicast", ipv6=False)
SENT = [b"%d" % number for number in range(8)]
Group = semcast.blocking.Group


def put_out(by: BaseGroup, whom: BaseGroup) -> None:
    """As `evict_after_s` does; returns when it knows."""
    with by._engine.lock:
        now_ns = by._engine.clock.now_ns()
        by._engine.session.evict(whom._engine.session.roster.me, now_ns)
    wait_until(lambda: whom.closed, "it is told")


def waiting(group: BaseGroup) -> int:
    member = group._engine.session.member
    return 0 if member is None else member.deliverable()


def has_come(group: BaseGroup, count: int) -> bool:
    """Whether so many messages wait, or were replaced while they did."""
    return waiting(group) + group.stats()["purged_delivery"] == count


def send_and_put_out(a: Group, b: Group, c: Group) -> None:
    """Eight messages wait at c, and no more come."""
    a.send_many(SENT)
    wait_until(lambda: has_come(c, len(SENT)), "all of them came to c")
    put_out(a, c)
    a.send(b"too late for c")
    while b.receive(DEADLINE_S).payload != b"too late for c":
        pass


def until_told(take: Callable[[], list[Message]]) -> list[bytes]:
    got: list[bytes] = []
    try:
        while True:
            got += [message.payload for message in take()]
    except GroupClosedError:
        return got


def one_by_one(group: Group) -> list[bytes]:
    return until_told(lambda: [group.receive(DEADLINE_S)])


def by_threes(group: Group) -> list[bytes]:
    return until_told(lambda: group.receive_many(3, DEADLINE_S))


def in_a_loop(group: Group) -> list[bytes]:
    return [message.payload for message in group]


def by_portions(group: Group) -> list[bytes]:
    """One at a time, as quickly as it gets several with it; and then whatever there is."""
    group._engine._portion._since_ns = 1 << 61
    first = group.receive(DEADLINE_S).payload
    assert waiting(group) == len(SENT) - 2, "a second one came along"
    return [first, *by_threes(group)]


@pytest.mark.parametrize("take", [one_by_one, by_threes, in_a_loop, by_portions])
def test_who_was_put_out_takes_what_waits_and_is_then_told(
    take: Callable[[Group], list[bytes]],
) -> None:
    with meeting(WAY, slow_after_ms=1e6) as (a, b, c):
        send_and_put_out(a, b, c)
        with pytest.raises(GroupClosedError, match="was put out"):
            c.send(b"nobody would hear it")
        assert take(c) == SENT
        with pytest.raises(GroupClosedError, match="was put out"):
            c.receive(0.0)


def test_what_is_replaced_while_it_waits_stays_replaced_for_who_was_put_out() -> None:
    with meeting(WAY) as (a, _, c):
        a.send_many([b"1", b"2", b"3", b"4"], ["key", None, "key", None])
        wait_until(lambda: has_come(c, 4), "all of them came to c")
        put_out(a, c)
        got = c.receive_many(100, DEADLINE_S)
        assert [(one.payload, list(one.skipped)) for one in got] == [
            (b"2", [1]), (b"3", []), (b"4", []),
        ]  # fmt: skip


def test_who_has_left_gets_nothing_more_also_after_it_was_put_out() -> None:
    with meeting(WAY) as (a, b, c):
        send_and_put_out(a, b, c)
        c.leave(0)
        with pytest.raises(GroupClosedError):
            c.receive(0.0)
        b.leave(0)
        with pytest.raises(GroupClosedError, match="has left"):
            b.receive(0.0)


def test_an_asyncio_member_that_was_put_out_takes_what_waits_and_is_then_told() -> None:
    async def run() -> None:
        async with with_two_others(WAY) as (a, b, _):
            await asyncio.to_thread(b.send_many, SENT)
            await asyncio.to_thread(wait_until, lambda: waiting(a) == len(SENT), "all wait")
            await asyncio.to_thread(put_out, b, a)
            got = [(await a.receive()).payload]
            got += [message.payload for message in await a.receive_many(3)]
            got += [message.payload async for message in a]
            assert got == SENT
            with pytest.raises(GroupClosedError, match="was put out"):
                await a.receive()
            with pytest.raises(GroupClosedError, match="was put out"):
                await a.receive_many()

    asyncio.run(run())


def test_who_waits_for_a_message_is_told_when_it_is_put_out() -> None:
    async def run() -> None:
        async with with_two_others(WAY) as (a, b, _):
            receiving = asyncio.create_task(a.receive())
            await asyncio.sleep(0)
            await asyncio.to_thread(put_out, b, a)
            with pytest.raises(GroupClosedError, match="was put out"):
                await asyncio.wait_for(receiving, DEADLINE_S)

    asyncio.run(run())
