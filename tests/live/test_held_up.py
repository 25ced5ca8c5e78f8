"""Members that hold others up in real groups: a drain gets rid of them too, and one log tells."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.live.groups import DEADLINE_S, meeting, wait_until, with_two_others
from tests.live.material import Way

import semcast.blocking

WAY = Way("unicast", ipv6=False)


@contextmanager
def standing_still(group: semcast.blocking.Group) -> Iterator[None]:
    """Nothing of this member moves: it is silent, and votes for nothing."""
    engine = group._engine
    turns = engine.host._turns
    with engine.lock:
        turns.remove(engine.seat)
    try:
        yield
    finally:
        with engine.lock:
            turns.add(engine.seat)


def test_a_drain_ends_when_the_silent_member_that_it_waits_for_is_put_out() -> None:
    with meeting(WAY, evict_after_s=0.5) as (a, b, c):
        with standing_still(c):
            a.send(b"one")
            a.drain(DEADLINE_S)
            assert b.receive(DEADLINE_S).payload == b"one"
        wait_until(lambda: c.closed, "c is told")


def test_leaving_puts_out_the_silent_member_that_it_waits_for() -> None:
    with meeting(WAY, evict_after_s=0.5) as (a, b, c):
        with standing_still(c):
            a.send(b"one")
            assert b.receive(DEADLINE_S).payload == b"one"
            assert a.leave(DEADLINE_S)
        wait_until(lambda: c.closed, "c is told")


def test_an_asyncio_drain_ends_when_the_silent_member_that_it_waits_for_is_put_out() -> None:
    async def run() -> None:
        async with with_two_others(WAY, evict_after_s=0.5) as (a, _, c):
            free, still = threading.Event(), threading.Event()

            def stand_still() -> None:
                with standing_still(c):
                    still.set()
                    free.wait(DEADLINE_S)

            standing = asyncio.create_task(asyncio.to_thread(stand_still))
            await asyncio.to_thread(still.wait, DEADLINE_S)
            try:
                await a.send(b"one")
                await asyncio.wait_for(a.drain(), DEADLINE_S)
            finally:
                free.set()
                await standing
            assert a._engine.session.drains == 0

    asyncio.run(run())


def test_a_drain_that_is_given_up_is_in_nobodys_name_any_more() -> None:
    """Else a member that nobody waits for would be put out for it later."""
    with meeting(WAY) as (a, _, c), standing_still(c):
        a.send(b"one")
        with pytest.raises(TimeoutError):
            a.drain(0.1)
        assert a._engine.session.drains == 0


def test_a_slow_member_is_logged_by_one_member_for_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "semcast"), meeting(WAY, slow_after_ms=50.0) as (a, b, c):
        a.send(b"one")
        for one in (a, b):
            assert one.receive(DEADLINE_S).payload == b"one"
        for one in (a, b):
            wait_until(
                lambda one=one: any(  # type: ignore[misc]
                    (event.kind, event.member) == ("slow", "c") for event in one.past_events()
                ),
                f"{one.name} hears that c is slow",
            )

        def logged() -> list[logging.LogRecord]:
            return [record for record in caplog.records if "c is slow" in record.getMessage()]

        # Whoever hears nothing of c for a while logs that first, and its slowness later.
        wait_until(lambda: bool(logged()), "somebody logs it")
        told = logged()
        # Another one takes over if it hears nothing of the first, which on a busy machine may be.
        most = 1 + sum(event.kind == "suspected" for event in b.past_events())
        assert len(told) <= most
        assert {record.levelname for record in told} == {"WARNING"}
        assert told[0].semcast["member"] == "c"  # type: ignore[attr-defined]
        c.receive(DEADLINE_S)
