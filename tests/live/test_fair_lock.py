"""A lock that nobody can keep to itself: order, not times."""

import threading
from collections.abc import Callable

import pytest
from tests.live.groups import wait_until

from semcast.live.host.fair_lock import FairLock

DEADLINE_S = 30.0


@pytest.mark.parametrize("ask", [FairLock.acquire, FairLock.insist])
def test_who_waits_has_the_lock_before_one_that_has_just_let_go_of_it(
    ask: Callable[[FairLock], None],
) -> None:
    lock = FairLock()
    order: list[str] = []

    def other() -> None:
        ask(lock)
        order.append("who waited")
        lock.release()

    for _ in range(20):
        lock.acquire()
        waiting = threading.Thread(target=other, daemon=True)
        waiting.start()
        wait_until(lambda: lock._pressed, "it insists")
        lock.release()
        lock.acquire()
        order.append("who had it")
        lock.release()
        waiting.join(DEADLINE_S)
    assert order == ["who waited", "who had it"] * 20


def test_everybody_has_the_lock_in_the_end_and_nobody_together() -> None:
    lock = FairLock()
    inside: list[int] = []
    counts = [0] * 4

    def work(me: int) -> None:
        for number in range(500):
            (lock.insist if number % 3 else lock.acquire)()
            inside.append(me)
            assert inside == [me]
            counts[me] += 1
            inside.pop()
            lock.release()

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert counts == [500] * 4
    assert not lock.locked()


def test_in_a_forked_child_it_is_nobodys() -> None:
    lock = FairLock()
    lock.acquire()
    lock.renew()
    with lock:
        assert lock.locked()
    assert not lock.locked()
