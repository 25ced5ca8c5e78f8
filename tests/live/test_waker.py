"""What wakes a thread that waits elsewhere."""

import os
import select

from semcast.live.waker import Waker


def readable(waker: Waker) -> bool:
    return bool(select.select([waker.fileno()], [], [], 0)[0])


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
