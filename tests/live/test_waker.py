"""What wakes a thread that waits elsewhere."""

import os
import select
import threading
import time
from collections.abc import Iterator

import pytest

from semcast.live.host.waker import Waker


def readable(waker: Waker) -> bool:
    return bool(select.select([waker.fileno()], [], [], 0)[0])


LONG_NS = 60_000_000_000


@pytest.fixture
def waker() -> Iterator[Waker]:
    made = Waker()
    yield made
    made.close()


def test_it_is_readable_from_a_wake_until_it_is_cleared() -> None:
    waker = Waker()
    try:
        assert not readable(waker)
        waker.wake()
        waker.wake()
        assert readable(waker)
        waker.clear()
        assert not readable(waker)
    finally:
        waker.close()


def test_a_closed_one_touches_no_file_that_got_its_number() -> None:
    waker = Waker()
    number = waker.fileno()
    waker.close()
    pipes = [os.pipe() for _ in range(8)]
    try:
        assert number in {one for pipe in pipes for one in pipe}
        waker.wake()
        waker.clear()
        waker.close()
        for read, write in pipes:
            assert not select.select([read], [], [], 0)[0]
            os.fstat(write)
    finally:
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])


def test_a_nap_ends_in_time_and_not_before(waker: Waker) -> None:
    began_ns = time.monotonic_ns()
    waker.nap(2_500_000)
    assert time.monotonic_ns() - began_ns >= 2_500_000
    waker.nap(0)
    waker.nap(-1)


def test_a_nap_ends_when_somebody_wakes_it(waker: Waker) -> None:
    napping = threading.Thread(target=waker.nap, args=(LONG_NS,), daemon=True)
    napping.start()
    time.sleep(0.01)
    waker.wake()
    napping.join(LONG_NS / 2e9)
    assert not napping.is_alive()
    assert not readable(waker)


def test_who_was_woken_before_does_not_nap(waker: Waker) -> None:
    waker.wake()
    waker.wake()
    began_ns = time.monotonic_ns()
    waker.nap(LONG_NS)
    assert time.monotonic_ns() - began_ns < LONG_NS // 2
    assert not readable(waker)
