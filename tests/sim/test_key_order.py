"""What order "key" is for: a hot key that starves behind the queue is fresh when its turn comes.

One sender, 40 quiet keys and a hot one, and a reader that keeps up with a quarter of it. Everything
is replaced in time, so nothing is ever full.
"""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Literal

import pytest

from semcast.check import check_all
from semcast.journal import Event, Journal
from semcast.sim import scenario as sc
from semcast.sim import surroundings as around
from semcast.sim.scenario import ProtocolScenario
from semcast.sim.traffic import Overwrites, Trading
from semcast.sim.world import run

Order = Literal["fifo", "key"]
ORDERS: tuple[Order, ...] = ("fifo", "key")
QUIET_KEYS = 40
HOT = "stock 0.0"
READER_MS = 20.0
DURATION_S = 15.0
# How long the reader needs for one value of each key.
TURN_MS = (QUIET_KEYS + 1) * READER_MS
SCENARIO = ProtocolScenario(
    members=2,
    senders=(0,),
    duration_s=DURATION_S,
    warm_up_s=0.0,
    traffic=Trading(rate_msg_s=200.0, stocks=(1, QUIET_KEYS), shares=(0.2, 0.8), size_bytes=8),
    protocol=sc.Protocol(
        reliability="sender", k=512, delivery_messages=128, window_messages=128, deliver_own=False
    ),
    consumers=(around.Consumer(members=(1,), delay_ms=READER_MS),),
)


@cache
def journal_of(order: Order) -> Journal:
    protocol = replace(SCENARIO.protocol, order=order)
    outcome = run(replace(SCENARIO, protocol=protocol), seed=1)
    assert outcome.quiescent
    assert outcome.journal is not None
    report = check_all(outcome.journal)
    assert report.ok, str(report)
    assert ("Key Order" in report.judged) == (order == "key")
    return outcome.journal


def taken(order: Order, hot: bool) -> list[Event]:
    """What the slow reader took while there was traffic."""
    return [
        event
        for event in journal_of(order).select(event="deliver", node="p1.1")
        if (event.key == HOT) == hot and event.time_ns < DURATION_S * 1e9
    ]


def ages_ms(events: list[Event]) -> list[float]:
    return [(event.time_ns - (event.sent_ns or 0)) / 1e6 for event in events]


def pauses_ms(events: list[Event]) -> list[float]:
    """How long the reader knew nothing new of a key."""
    times_ms = [0.0, *(event.time_ns / 1e6 for event in events), DURATION_S * 1e3]
    return [later - before for before, later in pairwise(times_ms)]


def test_under_fifo_a_hot_key_starves_behind_the_queue() -> None:
    """Eager purging queues the newest of a chain again at the end; so says readings.md of SRM §6.3,
    where latency far exceeds that of a full buffer.
    """
    assert max(pauses_ms(taken("fifo", hot=True))) > 5 * TURN_MS


def test_in_place_a_hot_key_has_its_turn_and_is_fresh() -> None:
    events = taken("key", hot=True)
    assert max(pauses_ms(events)) < 1.5 * TURN_MS
    # It changes every 25 ms; what is taken is the newest there is.
    assert median(ages_ms(events)) < 0.1 * TURN_MS


def test_in_place_the_other_keys_are_fresher_too() -> None:
    fifo, key = (median(ages_ms(taken(order, hot=False))) for order in ORDERS)
    assert key < 0.75 * fifo


def test_the_same_messages_are_delivered_or_replaced() -> None:
    """Order changes which values are seen on the way, not which are left at the end."""
    fifo, key = (
        {event.key: event.seq for event in journal_of(order).select(node="p1.1", event="deliver")}
        for order in ORDERS
    )
    assert fifo == key


@pytest.mark.parametrize("reliability", ["sender", "group"])
def test_unmarked_messages_and_each_key_come_in_order_under_loss(
    reliability: Literal["sender", "group"],
) -> None:
    """With few bits, many a message of a key does not name the one before: it stays behind it."""
    scenario = ProtocolScenario(
        members=3,
        senders=(0, 1),
        duration_s=3.0,
        warm_up_s=0.0,
        traffic=Overwrites(rate_msg_s=60.0, r=0.7, d=3, size_bytes=8),
        protocol=sc.Protocol(
            reliability=reliability,
            order="key",
            k=2,
            delivery_messages=8,
            window_messages=16,
            gossip_period_ms=10.0,
        ),
        faults=around.Faults(loss=0.1),
        consumers=(around.Consumer(members=(2,), delay_ms=15.0),),
    )
    outcome = run(scenario, seed=3)
    assert outcome.quiescent
    assert outcome.journal is not None
    report = check_all(outcome.journal)
    assert report.ok, str(report)
    # Something overtook something else; else this shows nothing.
    taken_there = outcome.journal.select(event="deliver", node="p2.1")
    seqs = [event.seq or 0 for event in taken_there if event.sender == "p0.1"]
    assert seqs != sorted(seqs)


@pytest.mark.parametrize("several", [0.0, 0.5])
def test_a_sender_that_comes_back_finds_its_former_values_before_its_new_ones(
    several: float,
) -> None:
    """Some 40 values of its former life still wait at the slow reader when the first new one comes;
    the reader ends with what is new.
    """
    assert isinstance(SCENARIO.traffic, Trading)
    scenario = replace(
        SCENARIO,
        members=3,
        duration_s=4.0,
        traffic=replace(SCENARIO.traffic, several=several),
        protocol=replace(SCENARIO.protocol, order="key"),
        consumers=(around.Consumer(members=(1,), delay_ms=60.0),),
        processes=(around.Crash(0, 2.0), around.Restart(0, 2.1)),
        detection_ms=10.0,
    )
    outcome = run(scenario, seed=1)
    assert outcome.quiescent
    assert outcome.journal is not None
    report = check_all(outcome.journal)
    assert report.ok, str(report)
    taken_there = list(outcome.journal.select(event="deliver", node="p1.1"))
    first_new = next(at for at, event in enumerate(taken_there) if event.sender == "p0.2")
    # Else this shows nothing: old values of other keys are taken after new ones.
    assert any(event.sender == "p0.1" for event in taken_there[first_new:])
