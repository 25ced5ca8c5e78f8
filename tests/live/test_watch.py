"""Waiting awake: where it pays, not longer than said, and never when somebody else is waiting."""

import os
import random
import select
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.host.clock import FOREVER, Clock
from semcast.live.host.estimates import Wakefulness
from semcast.live.host.inlets import Inlets
from semcast.live.host.timing import YIELD_NS
from semcast.live.host.waker import Waker

SHORT_NS = 100_000
LOOK_NS = 1_000
SEEN = [3]
# A time since 1970.
BEGIN = 1_800_000_000 * 1_000_000_000


class Time:
    """A clock that goes on when sockets are looked at, and when others are let go first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.looks = 0
        self.others_ns = 0
        self.seen_after_looks = 1 << 60
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "sched_yield", self.let_others)
        monkeypatch.setattr(select, "epoll", lambda: LookedAt(self))
        self.clock = Clock()

    def let_others(self) -> None:
        self.now_ns += self.others_ns

    def look(self) -> list[int]:
        self.looks += 1
        self.now_ns += LOOK_NS
        return SEEN if self.looks >= self.seen_after_looks else []

    def watch(self, for_ns: int) -> list[int]:
        wakers = Waker(), Waker()
        try:
            return Inlets(*wakers, self.clock).watch(self.clock.now_ns() + for_ns)
        finally:
            for waker in wakers:
                waker.close()


class LookedAt:
    """An epoll at which looks take time."""

    def __init__(self, time: Time) -> None:
        self._time = time

    def register(self, fileno: int, events: int) -> None:
        pass

    def fileno(self) -> int:
        return 0

    def poll(self, wait_s: float, events_max: int) -> list[tuple[int, int]]:
        assert wait_s == 0
        assert events_max > 0
        return [(fileno, select.EPOLLIN) for fileno in self._time.look()]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def watch_after(waits_ns: list[int], short_ns: int = SHORT_NS) -> Wakefulness:
    """Of one who has waited so long for each message, and needed random times for them."""
    stream = random.Random("watch")
    watch = Wakefulness(short_ns)
    now_ns = BEGIN
    for wait_ns in waits_ns:
        now_ns += wait_ns
        watch.came(wait_ns, now_ns)
        now_ns += stream.randrange(1 << 30)
    return watch


def pays(watch: Wakefulness, now_ns: int = BEGIN) -> bool:
    """Whether to be awake at once."""
    return watch.begins_ns(now_ns) == now_ns


def test_who_knows_nothing_sleeps() -> None:
    assert watch_after([]).begins_ns(BEGIN) == FOREVER


def test_where_messages_come_soon_it_pays_to_watch_for_them() -> None:
    assert pays(watch_after([SHORT_NS] * 8))


def test_where_they_do_not_it_is_given_up_at_once() -> None:
    watch = watch_after([SHORT_NS] * 100)
    for number in range(3):
        watch.came(SHORT_NS + 1, BEGIN + (number << 35))
    assert watch.begins_ns(BEGIN) == FOREVER


def test_it_pays_if_more_than_two_in_three_come_soon() -> None:
    assert pays(watch_after([SHORT_NS, SHORT_NS, SHORT_NS, SHORT_NS + 1] * 20))
    assert not pays(watch_after([SHORT_NS, SHORT_NS + 1] * 20))


@given(st.lists(st.integers(1, 1 << 40), max_size=50))
def test_who_is_told_never_to_watch_never_does(waits_ns: list[int]) -> None:
    assert watch_after(waits_ns, 0).begins_ns(BEGIN) == FOREVER


@pytest.mark.parametrize("short_ns", [0, SHORT_NS])
def test_who_waits_for_regular_messages_is_awake_shortly_before(short_ns: int) -> None:
    period_ns = 10 * SHORT_NS
    watch = Wakefulness(short_ns)
    for number in range(20):
        watch.came(period_ns, BEGIN + number * period_ns)
    last_ns = BEGIN + 19 * period_ns
    wanted_ns = last_ns + period_ns - SHORT_NS if short_ns else FOREVER
    assert watch.begins_ns(last_ns) == wanted_ns
    if short_ns:
        assert pays(watch, wanted_ns + SHORT_NS // 2), "it is time already"


def test_what_comes_is_seen(scripted: Time) -> None:
    scripted.seen_after_looks = 7
    assert scripted.watch(SHORT_NS) == SEEN
    assert scripted.looks == 7


def test_nobody_watches_for_longer_than_said(scripted: Time) -> None:
    assert scripted.watch(SHORT_NS) == []
    assert SHORT_NS <= scripted.now_ns <= SHORT_NS + LOOK_NS


def test_who_is_not_alone_looks_once_more_and_gives_way(scripted: Time) -> None:
    """What came while somebody else ran is not left lying."""
    scripted.others_ns = YIELD_NS
    assert scripted.watch(SHORT_NS) == []
    assert scripted.looks == 2
    scripted.looks, scripted.seen_after_looks = 0, 2
    assert scripted.watch(SHORT_NS) == SEEN
