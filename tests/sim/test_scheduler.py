"""The scheduler: order, cancelling, time, memory."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy_extensions import i64

from semcast.errors import LocalProtocolError
from semcast.ids import NEVER
from semcast.sim.scheduler import NO_EVENT, PRIORITY_MAX, Handler, Scheduler

# Few different times and priorities, so that they often agree.
EVENTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=60)


class Trace(Handler):
    """Writes down when it was fired and with what."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.number = scheduler.add(self)
        self.fired: list[tuple[int, int]] = []

    def fire(self, argument: i64) -> None:
        self.fired.append((self.scheduler.now_ns, argument))


class Script(Handler):
    """Does what it is told: on event n, schedules and cancels as plans[n] says."""

    def __init__(self, scheduler: Scheduler, plans: list[tuple[list[tuple[int, int]], int]]):
        self.scheduler = scheduler
        self.number = scheduler.add(self)
        self.plans = plans
        self.ids: list[int] = []
        self.fired: list[tuple[int, int]] = []

    def schedule(self, delay_ns: int, priority: int) -> None:
        """The argument is how many events were scheduled before."""
        time_ns = self.scheduler.now_ns + delay_ns
        self.ids.append(self.scheduler.at(time_ns, self.number, len(self.ids), priority))

    def fire(self, argument: i64) -> None:
        self.fired.append((self.scheduler.now_ns, argument))
        if argument < len(self.plans):
            events, cancelled = self.plans[argument]
            for delay_ns, priority in events:
                self.schedule(delay_ns, priority)
            if cancelled < len(self.ids):
                self.scheduler.cancel(self.ids[cancelled])


class Naive:
    """The same as Script on a scheduler that sorts a list each time."""

    def __init__(self, plans: list[tuple[list[tuple[int, int]], int]]) -> None:
        self.plans = plans
        self.now_ns = 0
        self.scheduled = 0
        self.waiting: list[tuple[int, int, int]] = []  # time, priority, order of scheduling
        self.fired: list[tuple[int, int]] = []

    def schedule(self, delay_ns: int, priority: int) -> None:
        self.waiting.append((self.now_ns + delay_ns, priority, self.scheduled))
        self.scheduled += 1

    def run(self, until_ns: int) -> None:
        while self.waiting and min(self.waiting)[0] <= until_ns:
            first = min(self.waiting)
            self.waiting.remove(first)
            self.now_ns = first[0]
            self.fired.append((first[0], first[2]))
            if first[2] < len(self.plans):
                events, cancelled = self.plans[first[2]]
                for delay_ns, priority in events:
                    self.schedule(delay_ns, priority)
                self.waiting = [event for event in self.waiting if event[2] != cancelled]
        self.now_ns = max(self.now_ns, until_ns)


PLANS = st.lists(st.tuples(EVENTS.map(lambda events: events[:4]), st.integers(0, 60)), max_size=40)


@given(first=EVENTS, plans=PLANS, stops=st.lists(st.integers(0, 200), max_size=4))
def test_events_that_schedule_and_cancel_others_fire_as_on_a_sorted_list(
    first: list[tuple[int, int]], plans: list[tuple[list[tuple[int, int]], int]], stops: list[int]
) -> None:
    """SRM §5.2: the head of the queue, ordered by time, is executed and may schedule more."""
    scheduler = Scheduler()
    script = Script(scheduler, plans)
    naive = Naive(plans)
    for delay_ns, priority in first:
        script.schedule(delay_ns, priority)
        naive.schedule(delay_ns, priority)
    for until_ns in [*sorted(stops), 10_000]:
        scheduler.run(until_ns)
        naive.run(until_ns)
        assert script.fired == naive.fired
        assert scheduler.now_ns == naive.now_ns
        assert scheduler.pending == len(naive.waiting)
    assert scheduler.fired == len(script.fired)


@given(draws=st.randoms(use_true_random=False), count=st.integers(1, 400), share=st.floats(0, 1))
def test_what_was_cancelled_never_fires_and_the_rest_keeps_its_order(
    draws: random.Random, count: int, share: float
) -> None:
    """Often enough events that the queue is swept while they wait, and more come afterwards."""
    scheduler = Scheduler()
    trace = Trace(scheduler)
    times = [draws.randrange(count) for _ in range(count)]
    ids = [scheduler.at(time, trace.number, at) for at, time in enumerate(times)]
    cancelled = {at for at in range(count) if draws.random() < share}
    for at in sorted(cancelled, key=lambda _: draws.random()):
        assert scheduler.cancel(ids[at])
        assert not scheduler.cancel(ids[at])
    kept = [(time, at) for at, time in enumerate(times) if at not in cancelled]
    assert scheduler.pending == len(kept)
    assert scheduler.next_ns() == (min(kept)[0] if kept else NEVER)
    for at in range(count, count + 20):
        kept.append((draws.randrange(count), at))
        scheduler.at(kept[-1][0], trace.number, at)
    assert scheduler.drain(1000) == len(kept)
    assert trace.fired == sorted(kept)


def test_at_equal_times_lower_priorities_come_first_and_then_what_was_scheduled_first() -> None:
    scheduler = Scheduler()
    trace = Trace(scheduler)
    for argument, priority in enumerate([1, 0, PRIORITY_MAX, 1, 0]):
        scheduler.at(7, trace.number, argument, priority)
    scheduler.run(7)
    assert [argument for _, argument in trace.fired] == [1, 4, 0, 3, 2]


def test_an_id_of_a_past_event_does_not_cancel_the_one_that_took_its_place() -> None:
    scheduler = Scheduler()
    trace = Trace(scheduler)
    past = scheduler.at(1, trace.number)
    scheduler.run(1)
    scheduler.at(2, trace.number)
    assert scheduler.slots == 1  # the same place in memory
    assert not scheduler.cancel(past)
    assert not scheduler.cancel(NO_EVENT)
    assert not scheduler.cancel(0)
    assert scheduler.run(2) == 1


def test_run_stops_at_its_time_and_goes_on_from_there() -> None:
    scheduler = Scheduler()
    trace = Trace(scheduler)
    for time_ns in (5, 10, 11):
        scheduler.at(time_ns, trace.number)
    assert scheduler.run(10) == 2
    assert scheduler.now_ns == 10
    assert scheduler.run(10) == 0
    assert scheduler.run(3) == 0  # time does not go back
    assert scheduler.now_ns == 10
    assert scheduler.step()
    assert scheduler.now_ns == 11
    assert not scheduler.step()


def test_stop_leaves_the_rest_for_the_next_run() -> None:
    class Stopper(Handler):
        def fire(self, argument: i64) -> None:  # noqa: ARG002
            scheduler.stop()

    scheduler = Scheduler()
    trace = Trace(scheduler)
    scheduler.at(3, scheduler.add(Stopper()))
    scheduler.at(3, trace.number)
    assert scheduler.run(10) == 1
    assert scheduler.now_ns == 3
    assert scheduler.run(10) == 1
    assert trace.fired == [(3, 0)]


def test_a_handler_that_raises_leaves_the_scheduler_in_order() -> None:
    class Raises(Handler):
        def fire(self, argument: i64) -> None:
            raise RuntimeError(f"event {argument}")

    scheduler = Scheduler()
    trace = Trace(scheduler)
    raises = scheduler.add(Raises())
    scheduler.at(1, raises, 7)
    scheduler.at(2, trace.number)
    with pytest.raises(RuntimeError, match="event 7"):
        scheduler.run(5)
    assert (scheduler.now_ns, scheduler.pending) == (1, 1)
    scheduler.run(5)
    assert trace.fired == [(2, 0)]


def test_memory_follows_what_is_pending_not_what_ever_was() -> None:
    """A timer that is put off again and again is the usual case: its old events are reclaimed."""
    scheduler = Scheduler()
    trace = Trace(scheduler)
    timers = [scheduler.at(1_000_000, trace.number, timer) for timer in range(100)]
    for time_ns in range(20_000):
        scheduler.run(time_ns)
        timer = time_ns % 100
        scheduler.cancel(timers[timer])
        timers[timer] = scheduler.at(1_000_000 + time_ns, trace.number, timer)
    assert scheduler.pending == 100
    assert scheduler.slots < 400
    scheduler.run(2_000_000)
    assert len(trace.fired) == 100


def test_the_past_a_wrong_priority_and_an_unknown_handler_are_refused() -> None:
    scheduler = Scheduler()
    trace = Trace(scheduler)
    scheduler.run(10)
    with pytest.raises(LocalProtocolError, match="cannot schedule for 9 ns: it is 10 ns already"):
        scheduler.at(9, trace.number)
    with pytest.raises(LocalProtocolError, match="priority is 64; it must be from 0 to 63"):
        scheduler.at(10, trace.number, 0, PRIORITY_MAX + 1)
    with pytest.raises(LocalProtocolError, match="no handler 5: 1 are registered"):
        scheduler.at(10, 5)
    assert scheduler.pending == 0
