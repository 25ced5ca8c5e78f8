"""Waiting awake: where it pays, not longer than said, and never when somebody else is waiting."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.clock import Clock
from semcast.live.watch import ALONE_NS, Events, Watch

SHORT_NS = 100_000
LOOK_NS = 1_000
SEEN: Events = [(3, 1)]


class Time:
    """A clock that goes on when sockets are looked at, and when others are let go first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 0
        self.looks = 0
        self.others_ns = 0
        self.seen_after_looks = 1 << 60
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(os, "sched_yield", self.let_others)
        self.clock = Clock()

    def let_others(self) -> None:
        self.now_ns += self.others_ns

    def look(self) -> Events:
        self.looks += 1
        self.now_ns += LOOK_NS
        return SEEN if self.looks >= self.seen_after_looks else []

    def watch(self, for_ns: int = 1 << 60) -> Events:
        begin_ns = self.clock.now_ns()
        return Watch(SHORT_NS, self.clock).watch(self.look, begin_ns, begin_ns + for_ns)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def watch_after(waits_ns: list[int], short_ns: int = SHORT_NS) -> Watch:
    watch = Watch(short_ns, Clock())
    for wait_ns in waits_ns:
        watch.waited(wait_ns)
    return watch


def test_who_knows_nothing_sleeps() -> None:
    assert not watch_after([]).pays


def test_where_messages_come_soon_it_pays_to_watch_for_them() -> None:
    assert watch_after([SHORT_NS] * 8).pays


def test_where_they_do_not_it_is_given_up_at_once() -> None:
    watch = watch_after([SHORT_NS] * 100)
    for _ in range(3):
        watch.waited(SHORT_NS + 1)
    assert not watch.pays


def test_it_pays_if_more_than_two_in_three_come_soon() -> None:
    assert watch_after([SHORT_NS, SHORT_NS, SHORT_NS, SHORT_NS + 1] * 20).pays
    assert not watch_after([SHORT_NS, SHORT_NS + 1] * 20).pays


@given(st.lists(st.integers(1, 1 << 40), max_size=50))
def test_who_is_told_never_to_watch_never_does(waits_ns: list[int]) -> None:
    assert not watch_after(waits_ns, 0).pays


def test_what_comes_is_seen(scripted: Time) -> None:
    scripted.seen_after_looks = 7
    assert scripted.watch() == SEEN
    assert scripted.looks == 7


def test_nobody_watches_for_longer_than_a_short_wait(scripted: Time) -> None:
    assert scripted.watch() == []
    assert SHORT_NS <= scripted.now_ns <= SHORT_NS + LOOK_NS


def test_nobody_watches_for_longer_than_it_would_wait(scripted: Time) -> None:
    assert scripted.watch(SHORT_NS // 2) == []
    assert scripted.now_ns <= SHORT_NS // 2 + LOOK_NS


def test_who_is_not_alone_looks_once_more_and_gives_way(scripted: Time) -> None:
    """What came while somebody else ran is not left lying."""
    scripted.others_ns = ALONE_NS
    assert scripted.watch() == []
    assert scripted.looks == 2
    scripted.looks, scripted.seen_after_looks = 0, 2
    assert scripted.watch() == SEEN
