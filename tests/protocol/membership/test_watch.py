"""Watch: a dead member is accused soon, one whose engine answers never, and nobody at great cost.

`bench.watchers` is the network: virtual time, and members that are late, stopped, cut off or dead.
"""

import random

import pytest
from bench.watchers import MS_NS, SECOND_NS, Network, Watching, watching
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from semcast.ids import EVERYBODY, Source
from semcast.protocol.membership.view import Change, View
from semcast.protocol.membership.waits import WatchConfig
from semcast.protocol.membership.watch import Watch
from semcast.protocol.outbox import Outbox
from semcast.wire.limits import Limits

CONFIG = WatchConfig()
# Without loss or overload: the silence, what is left of a heartbeat, and the last wait for answers.
SOON_NS = CONFIG.accuse_after_ns_min + CONFIG.heartbeat_ns // 2


def soon_ns(members: int) -> int:
    """The same in a group of so many, where signs of life may be rarer."""
    return SOON_NS * CONFIG.period_ns(members) // CONFIG.heartbeat_ns


def watch_of(network: Network, sender: int) -> Watch:
    detector = network.nodes[sender].detector
    assert isinstance(detector, Watching)
    return detector.watch


def accused_of(network: Network, since_ns: int = 0) -> dict[int, list[int]]:
    """By who was accused since then, who accused it."""
    found: dict[int, list[int]] = {}
    for when_ns, who, whom, accused in network.changes:
        if accused and when_ns >= since_ns:
            found.setdefault(whom, []).append(who)
    return found


# Whoever is dead is accused


@pytest.mark.parametrize("members", [2, 3, 8, 64, 100])
def test_a_dead_member_is_accused_by_all_its_watchers_and_soon(members: int) -> None:
    network = watching(members, "dead")
    network.run_for(5 * SECOND_NS)
    watchers = watch_of(network, 1).watchers()
    network.crash(1)
    network.run_for(soon_ns(members))
    assert {whom: sorted(who) for whom, who in accused_of(network).items()} == {1: sorted(watchers)}
    assert all(watch_of(network, watcher).accused() == [1] for watcher in watchers)


def test_the_defaults_accuse_well_before_a_second() -> None:
    assert SOON_NS < SECOND_NS


def test_a_process_whose_system_sends_datagrams_back_is_accused_sooner() -> None:
    took_ns = []
    for refuses in (False, True):
        network = watching(8, "refused")
        network.refuses = refuses
        network.run_for(5 * SECOND_NS)
        network.crash(3)
        network.run_for(SOON_NS)
        assert set(accused_of(network)) == {3}
        took_ns.append(network.changes[0][0] - 5 * SECOND_NS)
    assert took_ns[1] < CONFIG.heartbeat_ns + 250 * MS_NS < took_ns[0] + CONFIG.heartbeat_ns


def test_a_crash_concerns_few_also_where_datagrams_come_back() -> None:
    network = watching(64, "few")
    network.refuses = True
    network.run_for(2 * SECOND_NS)
    before = sum(network.sent.values())
    network.crash(5)
    network.run_for(SECOND_NS)
    assert len(accused_of(network)[5]) <= 2 * CONFIG.watchers
    # The heartbeats of that second, and a few questions.
    assert sum(network.sent.values()) - before < 64 * 8 + 400


def test_a_datagram_that_comes_back_harms_nobody_who_answers() -> None:
    network = watching(4, "forged")
    network.run_for(2 * SECOND_NS)
    for _ in range(50):
        for sender in (1, 2, 3):
            watch_of(network, 0).refused(sender, network.now_ns)
        network.wake(0)
        network.run_for(20 * MS_NS)
    assert network.changes == []


def test_a_run_of_dead_neighbours_is_found_by_whoever_is_left() -> None:
    network = watching(12, "run")
    network.run_for(3 * SECOND_NS)
    for sender in (3, 4, 5, 6, 7):
        network.crash(sender)
    # Each step past accused ones begins anew, and many of those who are asked are dead.
    network.run_for(10 * SECOND_NS)
    assert set(accused_of(network)) == {3, 4, 5, 6, 7}


def test_most_members_dead_at_once_are_accused_within_the_greatest_wait() -> None:
    network = watching(4, "most")
    network.run_for(3 * SECOND_NS)
    for sender in (1, 2, 3):
        network.crash(sender)
    network.run_for(3 * CONFIG.accuse_after_ns_max)
    assert set(accused_of(network)) == {1, 2, 3}


@pytest.mark.parametrize("loss", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_loss_delays_accusation_but_leads_to_no_wrong_one(loss: float, seed: int) -> None:
    network = watching(8, f"loss {seed}")
    network.loss = loss
    network.run_for(60 * SECOND_NS)
    assert network.changes == []
    watchers = watch_of(network, 2).watchers()
    network.crash(2)
    network.run_for(CONFIG.accuse_after_ns_max + SECOND_NS)
    assert {whom: sorted(who) for whom, who in accused_of(network).items()} == {2: sorted(watchers)}


# Whoever answers is not


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 1 << 20),
    members=st.integers(2, 9),
    loss=st.sampled_from([0.0, 0.05, 0.2]),
    late_ms=st.sampled_from([1, 20, 100]),
    delay_ms=st.sampled_from([1, 50, 150]),
)
def test_an_engine_that_answers_is_never_accused(
    seed: int, members: int, loss: float, late_ms: int, delay_ms: int
) -> None:
    """Whatever is lost, and however late datagrams and timers are at everybody. Of two members each
    has nobody to ask about the other, so there a fifth may be too much to lose.
    """
    assume(members > 2 or loss < 0.2)
    network = watching(members, f"answers {seed}")
    drawn = network.random
    network.loss = loss
    network.delay_ns = lambda: drawn.randrange(delay_ms * MS_NS)
    network.lateness_ns = lambda _: drawn.randrange(late_ms * MS_NS)
    network.run_for(20 * SECOND_NS)
    assert network.changes == []


def test_traffic_that_pauses_is_no_reason_to_suspect() -> None:
    """Thousands of datagrams a second, then only heartbeats: the gaps grow a thousandfold."""
    network = watching(3, "traffic")
    network.run_for(SECOND_NS)
    for _ in range(2_000):
        for who in range(3):
            for other in range(3):
                if other != who:
                    watch_of(network, who).heard(other, network.now_ns)
        network.run_for(MS_NS)
    suspected = 0
    for _ in range(3_000):
        network.run_for(MS_NS)
        suspected += any(watch_of(network, who).suspected() for who in range(3))
    assert (suspected, network.changes) == (0, [])


@pytest.mark.parametrize("stopped_ns", [SECOND_NS, 5 * SECOND_NS, 300 * SECOND_NS])
def test_a_member_that_was_stopped_accuses_nobody_when_it_goes_on(stopped_ns: int) -> None:
    network = watching(5, "stopped")
    network.run_for(3 * SECOND_NS)
    network.stop(2, stopped_ns)
    # It hears nothing of what came meanwhile, which would be an excuse.
    network.loss = 1.0
    network.run_for(stopped_ns)
    network.nodes[2].inbox.clear()
    network.loss = 0.0
    went_on_ns = network.now_ns
    network.run_for(10 * SECOND_NS)
    assert not [change for change in network.changes if change[1] == 2 and change[0] >= went_on_ns]
    assert all(watch_of(network, who).accused() == [] for who in range(5))


def test_a_member_stopped_for_long_is_accused_and_heard_of_again() -> None:
    network = watching(5, "again")
    network.run_for(3 * SECOND_NS)
    watchers = watch_of(network, 1).watchers()
    network.stop(1, 3 * SECOND_NS)
    network.run_for(6 * SECOND_NS)
    told = [(who, whom, accused) for _, who, whom, accused in network.changes]
    assert sorted(told) == sorted((who, 1, accused) for who in watchers for accused in (0, 1))
    # It was told, and lost time: it gives others more of it.
    assert watch_of(network, 1).health.factor > 1
    network.run_for(60 * SECOND_NS)
    assert watch_of(network, 1).health.factor == 1


def test_a_one_way_cut_is_survived_by_asking_others() -> None:
    network = watching(6, "cut")
    network.run_for(3 * SECOND_NS)
    for watcher in watch_of(network, 1).watchers():
        network.cut(1, watcher)
    network.run_for(60 * SECOND_NS)
    assert network.changes == []
    network.crash(1)
    network.run_for(2 * SOON_NS)
    assert set(accused_of(network)) == {1}


def test_whoever_is_cut_off_from_all_is_accused_and_cleared_when_it_is_back() -> None:
    network = watching(5, "healed")
    network.run_for(3 * SECOND_NS)
    for other in (0, 1, 2, 4):
        network.cut(3, other)
        network.cut(other, 3)
    network.run_for(30 * SECOND_NS)
    others = [watch_of(network, who).accused() for who in (0, 1, 2, 4)]
    assert sorted(map(len, others))[-2:] == [1, 1]
    network.cuts.clear()
    network.run_for(10 * SECOND_NS)
    assert all(watch_of(network, who).accused() == [] for who in range(5))


def test_an_overloaded_member_is_waited_for_as_it_asks() -> None:
    """Its own timers tell it, its heartbeats tell others, and then a long stop is forgiven."""
    network = watching(4, "overloaded")
    network.run_for(3 * SECOND_NS)
    for _ in range(8):
        network.stop(1, 400 * MS_NS)
        network.run_for(SECOND_NS)
    network.stop(1, 2 * SECOND_NS)
    network.run_for(5 * SECOND_NS)
    assert network.changes == []


# What it costs


@pytest.mark.parametrize("members", [8, 64, 512])
@pytest.mark.parametrize("late_ms", [0, 20])
def test_an_idle_member_sends_heartbeats_only(members: int, late_ms: int) -> None:
    """Whatever the size of the group, one goes to each watcher in a period. That signs of life come
    a little late raises no questions.
    """
    network = watching(members, "cost")
    network.lateness_ns = lambda _: network.random.randrange(1 + late_ms * MS_NS)
    network.run_for(2 * SECOND_NS)
    before = sum(network.sent.values())
    network.run_for(4 * SECOND_NS)
    periods = members * 4 * SECOND_NS // CONFIG.period_ns(members)
    assert sum(network.sent.values()) - before == pytest.approx(CONFIG.watchers * periods, rel=0.1)


@pytest.mark.parametrize("members", [20, 100])
def test_a_timer_of_an_idle_member_of_a_large_group_goes_off_once_a_period(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[int] = []
    on_timer = Watching.on_timer

    def counted(detector: Watching, now_ns: int) -> None:
        timers.append(now_ns)
        on_timer(detector, now_ns)

    monkeypatch.setattr(Watching, "on_timer", counted)
    network = watching(members, "wakes")
    network.run_for(12 * SECOND_NS)
    late = [when_ns for when_ns in timers if when_ns >= 4 * SECOND_NS]
    periods = members * 8 * SECOND_NS // CONFIG.period_ns(members)
    assert len(late) == pytest.approx(periods, rel=0.05)


def test_a_member_that_sends_to_everybody_sends_no_heartbeats() -> None:
    network = watching(3, "rides")
    network.run_for(SECOND_NS)
    before = network.sent[0]
    for _ in range(100):
        network.run_for(50 * MS_NS)
        watch_of(network, 0).sent_to_all(network.now_ns)
        for other in (1, 2):
            watch_of(network, other).heard(0, network.now_ns)
    # Only the first period may have begun before.
    assert network.sent[0] - before <= CONFIG.watchers
    assert network.changes == []


# Views


def test_who_stays_keeps_what_is_known_and_a_newcomer_gets_time() -> None:
    me, life = Source(0, 1), 1
    first = View(1, (0, 2, 5), (1, 1, 1), 1, ("", "", ""), 0, (1, 1, 1), 9)
    watch = Watch(me, first, CONFIG, random.Random(1))
    watch.on_timer(0)
    assert watch.watched() == [2, 5]
    run_alone(watch, 0, 20 * SECOND_NS)
    assert watch.accused() == [2, 5]
    assert watch.take_changes() != []
    second = first.changed(Change(joins=((3, life, "new"),), gone=(2,)), 1)
    watch.install(second, 20 * SECOND_NS)
    assert (watch.accused(), watch.watched()) == ([5], [3, 5])
    assert watch.take_changes() == [], "a view is no news of whoever it leaves out"
    # The newcomer may not know yet that it is in.
    run_alone(watch, 20 * SECOND_NS, 21 * SECOND_NS + CONFIG.accuse_after_ns_min)
    assert watch.accused() == [5]
    run_alone(watch, 21 * SECOND_NS, 40 * SECOND_NS)
    assert watch.accused() == [3, 5]


def run_alone(watch: Watch, now_ns: int, until_ns: int) -> list[int]:
    """Nothing is heard. Returns to whom something was sent."""
    outbox, sent = Outbox(Source(0, 1), Limits()), []
    while now_ns <= until_ns:
        watch.on_timer(now_ns)
        watch.pack(outbox, now_ns)
        sent += [datagram.to for datagram in outbox.take()]
        now_ns = max(watch.next_deadline_ns(), now_ns + 1)
    return sent


def test_whoever_is_no_member_any_more_watches_nobody() -> None:
    view = View.first([0, 1, 2], 1)
    watch = Watch(Source(0, 1), view, CONFIG, random.Random(1))
    watch.on_timer(0)
    watch.install(view.without(0), SECOND_NS)
    assert (watch.watched(), watch.watchers()) == ([], [])
    assert set(run_alone(watch, SECOND_NS, 9 * SECOND_NS)) == set()


def test_others_may_be_chosen_than_the_ring_has() -> None:
    """As in a feed, where a sender watches its readers and they watch it."""
    view = View.first(list(range(20)), 1)
    watch = Watch(Source(0, 1), view, CONFIG, random.Random(1))
    watch.watch_only([7, 3, 99], [3, 7], [], 0)
    watch.on_timer(0)
    assert (watch.watched(), watch.watchers()) == ([3, 7], [3, 7])
    assert set(run_alone(watch, 0, 5 * SECOND_NS)) == {3, 7}, "nobody else is asked"
    assert watch.accused() == [3, 7]
    watch.watch_only([7], list(range(1, 20)), [], 5 * SECOND_NS)
    sent = run_alone(watch, 5 * SECOND_NS, 6 * SECOND_NS)
    assert EVERYBODY in sent, "many watchers hear of it by one datagram"
