"""What a Watch is made of: frames that it takes, gaps, health, the ring, errands, heartbeats."""

import random

import pytest
from bench.watchers import MS_NS, SECOND_NS
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.membership.accrual import Accrual
from semcast.protocol.membership.errands import Errands
from semcast.protocol.membership.health import FACTOR_MAX, Health
from semcast.protocol.membership.heartbeats import Heartbeats
from semcast.protocol.membership.ring import draw, watched_by, watchers_of
from semcast.protocol.membership.view import View
from semcast.protocol.membership.waits import WatchConfig
from semcast.protocol.membership.watch import Watch
from semcast.protocol.outbox import Outbox
from semcast.wire.families.probes import ACCUSES, AGE_NEVER, ASKS, Ask, Ping, Vouch
from semcast.wire.limits import Limits

CONFIG = WatchConfig()

# Frames


def frames_of(watch: Watch, now_ns: int) -> int:
    outbox = Outbox(Source(0, 1), Limits())
    watch.pack(outbox, now_ns)
    return len(outbox.take())


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_frames_from_anybody_are_taken_without_harm(data: st.DataObject) -> None:
    """Nobody is accused by what others say, nothing is raised, and answers are bounded."""
    watch = Watch(Source(0, 1), View.first(list(range(5)), 1), CONFIG, random.Random(1))
    watch.on_timer(0)
    sources = st.builds(Source, st.integers(0, 9), st.integers(0, 3))
    numbers = st.integers(0, 5)
    frames = (
        st.builds(Ping, st.integers(0, 7), numbers, st.integers(0, 0xFFFF_FFFF))
        | st.builds(Ask, sources, numbers)
        | st.builds(Vouch, sources, numbers, st.sampled_from([0, 1, AGE_NEVER]))
    )
    for frame in data.draw(st.lists(frames, max_size=30)):
        watch.on_frame(frame, data.draw(sources), MS_NS)
    assert watch.accused() == []
    assert frames_of(watch, MS_NS) <= 9


def test_a_report_of_a_closed_port_that_proved_wrong_is_not_believed_again_for_a_while() -> None:
    """Under loss it might otherwise happen some day that no question is answered."""
    watch = Watch(Source(0, 1), View.first(list(range(5)), 1), CONFIG, random.Random(1))
    watch.on_timer(0)
    one = watch.watched()[0]
    watch.refused(one, MS_NS)
    assert watch.suspected() == [one]
    watch.heard(one, 2 * MS_NS)
    assert watch.suspected() == []
    watch.refused(one, 5 * SECOND_NS)
    assert watch.suspected() == []
    watch.refused(one, 5 * SECOND_NS + 2 * MS_NS)
    assert watch.suspected() == [one]


@pytest.mark.parametrize("reports", [1, 2])
def test_one_report_of_a_closed_port_accuses_nobody_by_itself(reports: int) -> None:
    watch = Watch(Source(0, 1), View.first(list(range(5)), 1), CONFIG, random.Random(1))
    watch.on_timer(0)
    one, now_ns = watch.watched()[0], MS_NS
    for _ in range(reports):
        watch.refused(one, now_ns)
    while now_ns < CONFIG.accuse_after_ns_min // 2:
        now_ns = max(now_ns, watch.next_deadline_ns())
        watch.on_timer(now_ns)
    assert watch.accused() == ([one] if reports == 2 else [])


def test_a_flood_of_questions_is_answered_in_part() -> None:
    watch = Watch(Source(0, 1), View.first(list(range(5)), 1), CONFIG, random.Random(1))
    watch.on_timer(0)
    for number in range(10_000):
        watch.on_frame(Ping(ASKS, number, 0), Source(1, 1), MS_NS)
    assert frames_of(watch, MS_NS) < 20


def test_a_stranger_is_answered_but_not_believed() -> None:
    watch = Watch(Source(0, 1), View.first([0, 1], 1), CONFIG, random.Random(1))
    watch.on_timer(0)
    watch.on_frame(Ping(ASKS | ACCUSES, 1, 0), Source(77, 1), MS_NS)
    assert watch.health.factor == 1
    assert frames_of(watch, MS_NS) == 1


# The pieces


def test_the_level_grows_with_silence_and_falls_with_late_gaps() -> None:
    gaps = Accrual(250)
    before = gaps.level(1_000)
    assert gaps.level(900) < before
    assert gaps.level(gaps.silence_ns(6)) == 6
    for _ in range(5):
        gaps.observe(800)
    assert gaps.level(1_000) < before
    for _ in range(1_000):
        gaps.observe(3)
    assert gaps.level(1_000) == pytest.approx(before, rel=0.3), "short gaps are as one period"


def test_health_has_bounds_and_recovers() -> None:
    health = Health()
    for step in range(100):
        health.trouble(step * SECOND_NS)
        assert 1 <= health.factor <= FACTOR_MAX
    assert health.factor == FACTOR_MAX
    health.was_late(10 * SECOND_NS, 100 * SECOND_NS)
    for step in range(1_000):
        health.recover((100 + step) * SECOND_NS)
    assert (health.factor, health.late_ns) == (1, 0)


@given(st.sets(st.integers(0, 99), min_size=1), st.integers(1, 4))
def test_everybody_is_watched_by_those_who_watch_it(members: set[int], count: int) -> None:
    ring = sorted(members)
    for one in ring:
        for other in ring:
            watches = one in watched_by(ring, other, count, set())
            assert watches == (other in watchers_of(ring, one, count))
        assert len(watchers_of(ring, one, count)) == min(count, len(ring) - 1)
        assert one not in watched_by(ring, one, count, members)
        # Whoever accuses everybody watches everybody.
        assert len(watched_by(ring, one, count, members)) == len(ring) - 1
    assert watchers_of(ring, 100, count) == watched_by(ring, 100, count, set()) == []


def test_nobody_is_drawn_twice_nor_against_the_rule() -> None:
    drawn = draw(list(range(9)), 3, {1, 2}, random.Random(1))
    assert len(set(drawn)) == 3
    assert not {1, 2} & set(drawn)
    assert draw([1, 2], 3, {1, 2}, random.Random(1)) == draw([], 3, set(), random.Random(1)) == []


def test_errands_are_bounded_and_forgotten() -> None:
    errands = Errands()
    taken = [errands.take(target, 1, 7, 0) for target in range(100)]
    assert sum(taken) == 64
    assert sum(errands.take(0, asker, 7, 0) for asker in range(100)) == 8
    assert len(errands.done(0)) == 8
    assert errands.done(0) == []
    errands.expire(60 * SECOND_NS)
    assert errands.done(1) == []


def test_a_heartbeat_is_due_to_whoever_had_nothing_for_a_period() -> None:
    beats = Heartbeats(WatchConfig(heartbeat_ns=100), 3)
    beats.follow([1, 2])
    assert beats.due(0, False) == [1, 2]
    beats.sent_to_all(0)
    beats.sent_to(2, 60)
    beats.sent_to(3, 60)
    assert (beats.due(100, False), beats.next_ns) == ([1], 160)
    assert beats.due(100, True) == [1, 2]


def test_heartbeats_that_are_due_almost_together_go_out_together() -> None:
    beats = Heartbeats(WatchConfig(heartbeat_ns=100), 3)
    beats.follow([1, 2])
    beats.sent_to_all(0)
    beats.sent_to(2, 20)
    assert (beats.due(99, False), beats.next_ns) == ([], 100)
    assert (beats.due(100, False), beats.next_ns) == ([1, 2], 200)


@pytest.mark.parametrize("members", [3, 20])
def test_in_a_large_group_what_is_due_waits_for_a_heartbeat_that_is_near(members: int) -> None:
    beats = Heartbeats(WatchConfig(heartbeat_ns=100), members)
    period_ns = beats.period_ns
    beats.follow([1, 2])
    beats.sent_to_all(0)
    assert beats.due(0, False) == []
    assert beats.next_ns == period_ns
    few = members <= WatchConfig().few
    assert beats.or_next_ns(period_ns - 40) == (period_ns - 40 if few else period_ns)
    assert beats.or_next_ns(period_ns // 4) == period_ns // 4, "the next heartbeat is too late"
    assert beats.or_next_ns(period_ns + 1) == period_ns + 1, "and here too early"


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_ns": 0},
        {"watchers": 0},
        {"relays": -1},
        {"tries": 0},
        {"suspect_level": 0},
        {"suspect_level": 7},
        {"accuse_after_ns_min": 749_999_999},
        {"accuse_after_ns_max": 700_000_000},
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        WatchConfig(**wrong)
