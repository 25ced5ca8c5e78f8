"""The simulated world: whole members under traffic, faults and crashes, judged by the checkers."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semcast.check import check_all
from semcast.sim import scenario as sc
from semcast.sim import surroundings as around
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.tally import NodeOutcome, Span, percentile_ms
from semcast.sim.traffic import Chains, Overwrites, Traffic
from semcast.sim.world import Run, run

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"


def example(name: str, *changes: str) -> ProtocolScenario:
    found = load(EXAMPLES / name, changes)
    assert isinstance(found, ProtocolScenario)
    return found


FIGURE_5 = example("fig5-protocol.toml", "duration_s=24", "warm_up_s=8")
SLOW_READER = example("slow-reader.toml", "duration_s=4", "warm_up_s=1")
# Small enough to run often.
BRIEF = ProtocolScenario(
    members=4,
    duration_s=2.0,
    warm_up_s=0.2,
    traffic=Overwrites(r=0.7, d=3, size_bytes=8),
    protocol=sc.Protocol(delivery_messages=10, window_messages=16, gossip_period_ms=10.0),
    consumers=(around.Consumer(members=(3,), delay_ms=25.0),),
    detection_ms=50.0,
)


@cache
def outcome(scenario: ProtocolScenario, seed: int = 1) -> Run:
    return run(scenario, seed)


@cache
def kept(scenario: ProtocolScenario, seed: int = 1) -> Run:
    """A run that kept all its promises, or the test that asks for it fails."""
    found = outcome(scenario, seed)
    assert found.quiescent
    assert found.journal is not None
    report = check_all(found.journal)
    assert report.ok, str(report)
    return found


def node(found: Run, name: str) -> NodeOutcome:
    return next(one for one in found.nodes if one.node == name)


# -- what the papers say ---------------------------------------------------------------------------


def test_the_protocol_carries_the_slow_receiver_that_the_model_carries() -> None:
    """Figure 5(c): r = 0.5, d = 1, 20 ms, buffers of 40, k = 32. SRM §6.1, §6.2"""
    found = kept(FIGURE_5)
    assert node(found, "p0.1").sent_rate_msg_s == pytest.approx(100, abs=1)
    assert node(found, "p1.1").delivered_rate_msg_s == pytest.approx(100, abs=1)
    slow = node(found, "p2.1")
    assert slow.delivered_rate_msg_s == pytest.approx(50, abs=1)
    assert slow.not_delivered_share == pytest.approx(0.5, abs=0.02)


def test_without_purging_the_group_is_as_slow_as_its_slowest_member() -> None:
    """Figure 5(c), no purging: 50 msg/s at 20 ms. SRM §6.2"""
    found = kept(replace(FIGURE_5, protocol=replace(FIGURE_5.protocol, purging=False)))
    for one in found.nodes:
        assert one.delivered_rate_msg_s == pytest.approx(50, abs=1)
    assert node(found, "p0.1").blocked_share == pytest.approx(0.5, abs=0.02)
    assert node(found, "p2.1").not_delivered_share == 0


def test_purging_that_is_not_enough_still_helps() -> None:
    """With r = 0.25 at 20 ms eq. 1 gives 66.7 msg/s; the printed 75 is wrong. SRM §6.2"""
    found = kept(replace(FIGURE_5, traffic=Overwrites(r=0.25, d=1, size_bytes=4)))
    assert node(found, "p0.1").sent_rate_msg_s == pytest.approx(66.7, abs=3)


def test_a_slow_reader_costs_nobody_anything_and_misses_only_what_was_replaced() -> None:
    """The whole point. SRM §1; the checkers are asked in `kept`"""
    found = kept(SLOW_READER)
    for name in ("p0.1", "p1.1", "p2.1"):
        assert node(found, name).delivered_rate_msg_s == pytest.approx(1000, abs=2)
        assert node(found, name).not_delivered_share == 0
    slow = node(found, "p3.1")
    assert slow.delivered_rate_msg_s == pytest.approx(250, abs=2)
    assert slow.not_delivered_share == pytest.approx(0.75, abs=0.02)
    assert node(found, "p0.1").blocked_share == 0


def test_fast_receivers_miss_nothing_while_one_is_slow() -> None:
    """No purging is observed by fast receivers. SRM §7.2"""
    found = kept(BRIEF)
    assert [one.not_delivered_share for one in found.nodes[:3]] == [0, 0, 0]
    assert found.nodes[3].not_delivered_share > 0.2


# -- seeds -----------------------------------------------------------------------------------------

ROUGH = replace(
    BRIEF,
    senders=(0, 2),
    faults=around.Faults(
        loss=0.05,
        burst_begin=0.01,
        jitter_ms=2.0,
        reorder=0.1,
        duplicate=0.05,
        corrupt=0.05,
        partitions=(around.Partition(members=(1,), at_s=0.5, until_s=0.8),),
    ),
    links=(around.Link(member=2, at_s=0.4, delay_ms=5.0, bandwidth_mbit_s=1.0),),
)


def test_the_same_seed_gives_the_same_journal_and_another_does_not() -> None:
    first, again = outcome(ROUGH), run(ROUGH, 1)
    assert first.journal is not None
    assert again.journal is not None
    assert first.journal.events == again.journal.events
    assert first.nodes == again.nodes
    other = outcome(ROUGH, 2).journal
    assert other is not None
    assert first.journal.events != other.events


def test_a_journal_changes_nothing_but_what_is_written_down() -> None:
    silent = run(ROUGH, 1, journal=False)
    assert silent.journal is None
    assert silent.nodes == outcome(ROUGH).nodes


def test_the_journal_says_which_run_and_what_was_promised() -> None:
    journal = run(BRIEF, 7, name="brief").journal
    assert journal is not None
    header = journal.header
    assert (header.run, header.seed) == ("brief", "7")
    assert header.members == ("p0.1", "p1.1", "p2.1", "p3.1")
    assert header.delivery_messages == 10


# -- faults ----------------------------------------------------------------------------------------


def test_a_rough_network_costs_datagrams_and_no_message() -> None:
    found = kept(ROUGH)
    assert sum(one.retransmissions for one in found.nodes) > 0
    assert sum(one.naks for one in found.nodes) > 0
    assert all(one.datagrams_refused > 0 for one in found.nodes)


def test_s_sm_keeps_messages_at_their_sender_only() -> None:
    """So only senders send again; in S-RM anybody may. SRM §5.3"""
    sender = outcome(replace(ROUGH, protocol=replace(ROUGH.protocol, reliability="sender")))
    again = [one.retransmissions > 0 for one in sender.nodes]
    assert again == [True, False, True, False]
    assert all(one.retransmissions > 0 for one in outcome(ROUGH).nodes)


def test_sealed_datagrams_fare_no_worse() -> None:
    sealed = kept(replace(ROUGH, protocol=replace(ROUGH.protocol, sealed=True)))
    assert sealed.nodes[1].delivered > 100
    assert sealed.nodes[1].datagrams_refused > 0


def test_a_crash_for_good_ends_a_life_and_the_others_go_on() -> None:
    crash = around.Crash(member=1, at_s=0.7)
    found = kept(replace(BRIEF, processes=(crash,)))
    assert [one.node for one in found.nodes] == ["p0.1", "p1.1", "p2.1", "p3.1"]
    assert node(found, "p1.1").delivered == pytest.approx(50, abs=3)
    assert node(found, "p2.1").delivered == pytest.approx(180, abs=3)
    assert found.journal is not None
    assert [event.node for event in found.journal.select(event="crash")] == ["p1.1"]


def test_nobody_waits_for_ever_for_one_who_is_gone() -> None:
    """Until the crash is detected the window fills up; then it empties."""
    crashed = replace(BRIEF, processes=(around.Crash(member=1, at_s=0.7),))
    soon, late = outcome(crashed), outcome(replace(crashed, detection_ms=1000.0))
    assert node(soon, "p0.1").blocked_share < 0.05
    assert node(late, "p0.1").blocked_share > 0.2


def test_a_sender_that_crashes_leaves_the_others_in_agreement() -> None:
    """Agreement and FIFO Completeness hold whatever it had sent. SRM §4.2"""
    crash = around.Crash(member=0, at_s=1.005)
    found = kept(replace(ROUGH, processes=(crash,)))
    assert node(found, "p2.1").sent > 100


def test_a_restarted_process_is_another_node_that_joins_the_streams() -> None:
    lives = (around.Crash(member=1, at_s=0.5), around.Restart(member=1, at_s=0.8))
    found = kept(replace(BRIEF, processes=lives, duration_s=3.0))
    again = node(found, "p1.2")
    assert again.delivered > 50
    assert found.journal is not None
    joined = list(found.journal.select(node="p1.2", event="join"))
    assert "p0.1" in {event.sender for event in joined}


def test_a_restarted_sender_sends_on_under_a_new_incarnation() -> None:
    lives = (around.Crash(member=0, at_s=0.5), around.Restart(member=0, at_s=0.8))
    found = kept(replace(BRIEF, processes=lives, duration_s=3.0))
    assert node(found, "p0.2").sent > 50


def test_a_paused_process_catches_up_if_its_socket_or_the_others_kept_what_came() -> None:
    pause = around.Pause(member=1, at_s=0.6, for_s=0.1)
    whole = kept(replace(BRIEF, processes=(pause,)))
    assert node(whole, "p1.1").latency_max_ms == pytest.approx(100, abs=15)
    assert node(whole, "p1.1").datagrams_refused == 0
    lost = kept(replace(BRIEF, processes=(pause,), socket_datagrams=2))
    assert node(lost, "p1.1").datagrams_refused > 0
    assert node(lost, "p1.1").naks > 0


def test_a_process_that_becomes_slow_or_fast_is_so_from_then_on() -> None:
    slower = replace(
        BRIEF, consumers=(), processes=(around.Slow(member=3, at_s=1.1, delay_ms=50.0),)
    )
    taken = outcome(slower).nodes[3].delivered
    assert 90 + 15 <= taken <= 90 + 25
    faster = replace(BRIEF, processes=(around.Slow(member=3, at_s=0.3, delay_ms=0.0),))
    assert outcome(faster).nodes[3].delivered > 170


def test_a_run_that_does_not_come_to_rest_says_so() -> None:
    cut = around.Faults(partitions=(around.Partition(members=(1,), at_s=0.5, until_s=99.0),))
    found = run(replace(BRIEF, faults=cut, drain_s=1.0), 1)
    assert not found.quiescent
    assert found.ended_s == 3.0


def test_faults_end_with_the_traffic_so_that_a_run_can_come_to_rest() -> None:
    assert run(replace(BRIEF, faults=around.Faults(loss=1.0)), 1, journal=False).quiescent


@given(st.integers(0, 10_000), st.data())
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_goes_wrong_the_promises_are_kept(seed: int, data: st.DataObject) -> None:
    """Safety and liveness after quiescence, over random faults. SRM Figures 2 and 3"""
    share = st.sampled_from([0.0, 0.02, 0.2])
    faults = around.Faults(
        loss=data.draw(share),
        burst_begin=data.draw(share) / 4,
        jitter_ms=data.draw(st.sampled_from([0.0, 3.0])),
        reorder=data.draw(share),
        duplicate=data.draw(share),
        corrupt=data.draw(share),
    )
    processes: list[around.ProcessFault] = []
    if data.draw(st.booleans()):
        processes.append(around.Pause(member=2, at_s=0.3, for_s=0.2))
    if data.draw(st.booleans()):
        processes.append(around.Crash(member=data.draw(st.sampled_from([0, 1])), at_s=0.61))
    protocol = replace(
        BRIEF.protocol,
        reliability=data.draw(st.sampled_from(["sender", "group"])),
        purging=data.draw(st.sampled_from([True, True, False])),
        k=data.draw(st.sampled_from([0, 4, 64])),
    )
    chains: Traffic = Chains(diversity=2, length=5, size_bytes=8)
    traffic = data.draw(st.sampled_from([BRIEF.traffic, chains]))
    scenario = replace(
        BRIEF,
        duration_s=1.0,
        senders=(0, 2),
        traffic=traffic,
        faults=faults,
        processes=tuple(processes),
        protocol=protocol,
    )
    found = run(scenario, seed)
    assert found.quiescent
    assert found.journal is not None
    report = check_all(found.journal)
    assert report.ok, str(report)


# -- networks, hosts and traffic -------------------------------------------------------------------


@pytest.mark.parametrize(
    "network",
    [
        around.Ideal(latency_us=300.0),
        around.Lan(bandwidth_mbit_s=10.0, queue_bytes=20_000),
        around.Shared(bandwidth_mbit_s=100.0),
        around.Tree(branching=3, height=1, leaf_degree=3),
    ],
    ids=lambda network: network.kind,
)
def test_every_network_carries_the_group(network: around.Network) -> None:
    found = kept(replace(BRIEF, network=network))
    assert node(found, "p1.1").delivered == pytest.approx(180, abs=5)


def test_an_ideal_network_takes_its_latency_and_no_more() -> None:
    found = outcome(replace(BRIEF, network=around.Ideal(latency_us=300.0)))
    assert node(found, "p1.1").latency_max_ms == pytest.approx(0.3)


def test_processors_that_cost_time_add_to_the_latency() -> None:
    """A send of 1 ms and a reception of 2 ms. STAB §5.1"""
    costs = around.Costs(send_us=1000.0, receive_us=2000.0)
    slow = outcome(replace(BRIEF, host=costs, network=around.Ideal(latency_us=300.0)))
    p50_ms = node(slow, "p1.1").latency_p50_ms
    assert p50_ms is not None
    assert p50_ms >= 3.3


def test_measured_processors_keep_the_promises_too() -> None:
    """Not repeatable, so nothing more is said of it. SRM §5.4"""
    found = kept(replace(BRIEF, host=around.Measured(scale=0.1, wake_us=5.0), duration_s=1.0))
    assert node(found, "p1.1").delivered > 0


def test_chains_replace_each_other_across_senders() -> None:
    """Ranked, whoever sent them. PSRM §2.4, §4.2"""
    chains = Chains(rate_msg_s=200.0, diversity=3, length=20, size_bytes=8)
    found = kept(replace(BRIEF, senders=(0, 1, 2), traffic=chains))
    assert all(one.sent > 80 for one in found.nodes[:3])
    assert node(found, "p3.1").not_delivered_share > 0.5


def test_each_sender_has_traffic_of_its_own() -> None:
    found = kept(replace(BRIEF, senders=(0, 1), consumers=()))
    assert node(found, "p0.1").sent == node(found, "p1.1").sent == 180
    assert node(found, "p2.1").delivered == pytest.approx(360, abs=4)


# -- counting --------------------------------------------------------------------------------------


def test_progress_is_told_from_nothing_to_all() -> None:
    told: list[float] = []
    run(replace(BRIEF, duration_s=0.5), 1, journal=False, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0, 1))
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(
    values: list[int], share: float
) -> None:
    found = percentile_ms(sorted(values), share)
    assert found is not None
    within = [value for value in values if value / 1e6 <= found]
    below = [value for value in values if value / 1e6 < found]
    assert len(within) >= share * len(values) - 1e-9
    assert len(below) < share * len(values) or found == min(values) / 1e6
    assert percentile_ms([], share) is None


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_the_part_of_an_interval_that_counts_is_counted_point_by_point(
    since: int, until: int, first: int, last: int
) -> None:
    span = Span(since, until)
    assert span.part_ns(first, last) == sum(span.holds(at) for at in range(first, last))
