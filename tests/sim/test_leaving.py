"""Members that leave in the simulated world: when they may, what they take along, what they owe."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from semcast.check import History, check_all
from semcast.errors import GroupClosedError
from semcast.ids import Source
from semcast.journal import Journal
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.departure import QUIET_NS
from semcast.protocol.membership.view import View
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Crash, Faults, Ideal, Leave
from semcast.sim.traffic import Overwrites
from semcast.sim.world import Run, run

# One of five fills its window under loss and crashes; the others have parts of it.
BEHIND_A_BURST = ProtocolScenario(
    members=5,
    duration_s=0.02,
    warm_up_s=0.0,
    traffic=Overwrites("overwrites", 10_000.0, "constant", 64, 0.0, 1),
    protocol=Protocol(window_messages=64, delivery_messages=128),
    network=Ideal(latency_us=100.0),
    faults=Faults(loss=0.15),
    processes=(Crash(0, 0.012), Leave(1, 0.013), Leave(2, 0.013), Leave(3, 0.1)),
)
SEEDS = range(1, 4)


def kept(scenario: ProtocolScenario, seed: int) -> Journal:
    found = run(scenario, seed)
    assert found.quiescent
    assert found.journal is not None
    report = check_all(found.journal)
    assert report.ok, str(report)
    return found.journal


def delivered(journal: Journal) -> dict[str, list[tuple[str | None, int | None]]]:
    found = defaultdict(list)
    for event in journal.select(event="deliver"):
        found[event.node].append((event.sender, event.seq))
    return found


def times(journal: Journal, event: str) -> dict[str, int]:
    return {one.node: one.time_ns for one in journal.select(event=event)}


@pytest.mark.parametrize("detection_ms", [1.0, 5_000.0])
def test_survivors_of_a_crash_that_leave_soon_do_not_differ(detection_ms: float) -> None:
    """Also while nobody has told them of the crash, but all see that it is silent."""
    scenario = replace(BEHIND_A_BURST, detection_ms=detection_ms, drain_s=60.0)
    some = 0
    for seed in SEEDS:
        journal = kept(scenario, seed)
        assert set(times(journal, "settled")) == set(times(journal, "leave"))
        assert len(times(journal, "leave")) == 3
        got = delivered(journal)
        assert got["p1.1"] == got["p2.1"] == got["p3.1"] == got["p4.1"]
        some += len(got["p1.1"])
    assert some > 0


@pytest.mark.parametrize("stability", ["coordp", "s_train"])
def test_with_rounds_members_leave_once_a_crash_is_told(stability: str) -> None:
    protocol = replace(BEHIND_A_BURST.protocol, stability=stability)
    for seed in SEEDS:
        journal = kept(replace(BEHIND_A_BURST, protocol=protocol), seed)
        assert len(times(journal, "settled")) == 3


def test_who_may_not_leave_in_time_leaves_all_the_same_and_is_owed_nothing() -> None:
    early = (Crash(0, 0.012), Leave(1, 0.013, within_s=0.0), Leave(2, 0.013, within_s=0.001))
    scenario = replace(BEHIND_A_BURST, processes=early)
    unsettled = 0
    for seed in SEEDS:
        found = run(scenario, seed)
        assert found.journal is not None
        left, settled = times(found.journal, "leave"), times(found.journal, "settled")
        assert set(left) == {"p1.1", "p2.1"}
        history = History(found.journal)
        for node in set(left) - set(settled):
            unsettled += 1
            assert not history.run.trusted & history.run.only(node)
    assert unsettled > 0


def test_traffic_that_does_not_end_does_not_keep_a_member_that_leaves() -> None:
    """It delivers nothing that was multicast later, and others have all that it delivered."""
    scenario = replace(
        BEHIND_A_BURST, duration_s=2.0, processes=(Leave(1, 0.5),), faults=Faults(loss=0.05)
    )
    for seed in SEEDS:
        journal = kept(scenario, seed)
        left_ns = times(journal, "leave")["p1.1"]
        assert 0.5e9 <= left_ns < 1.5e9
        sent = {
            (event.sender, event.seq): event.time_ns for event in journal.select(event="multicast")
        }
        assert all(sent[about] <= 0.5e9 for about in delivered(journal)["p1.1"])


def test_a_sender_that_leaves_takes_nothing_along() -> None:
    """S-SM: only it keeps what it sent."""
    protocol = replace(BEHIND_A_BURST.protocol, reliability="sender")
    scenario = replace(BEHIND_A_BURST, protocol=protocol, processes=(Leave(0, 0.012),))
    for seed in SEEDS:
        journal = kept(scenario, seed)
        got = delivered(journal)
        assert got["p1.1"] == got["p2.1"] == got["p3.1"] == got["p4.1"] == got["p0.1"] != []


def test_who_leaves_counts_as_one_that_lived_for_that_long() -> None:
    found: Run = run(replace(BEHIND_A_BURST, processes=(Leave(3, 0.01),)), 1)
    assert found.quiescent
    assert found.delivered_rate_min_msg_s is not None


# -- one member ------------------------------------------------------------------------------------


def member(members: int = 3) -> Member:
    config = MemberConfig(reliability="group", f=1)
    view = View.first(list(range(1, members + 1)), config.f)
    return Member(config, Source(1, 1), view, random.Random(1))


def test_a_member_that_leaves_refuses_to_send() -> None:
    one = member()
    one.begin_leaving(0)
    assert one.leaving
    # There is no use in waiting for room.
    assert one.can_multicast()
    with pytest.raises(GroupClosedError, match="is leaving"):
        one.multicast(b"x", None, 0)


def test_the_last_member_may_always_leave() -> None:
    one = member(2)
    one.multicast(b"x", None, 0)
    one.datagrams(0)
    one.begin_leaving(0)
    assert not one.may_leave([], 0)
    one.remove(2, 1)
    assert one.may_leave([], 1)


@pytest.mark.parametrize(
    ("members", "silent"), [(2, [2]), (4, [2, 3]), (3, [2, 3])], ids=["all", "more than f", "both"]
)
def test_who_is_silent_is_waited_for_unless_others_answer_for_it(
    members: int, silent: list[int]
) -> None:
    one = member(members)
    one.multicast(b"x", None, 0)
    one.datagrams(0)
    one.begin_leaving(0)
    for now_ns in range(0, 10 * QUIET_NS, QUIET_NS // 4):
        one.on_timer(now_ns)
        assert not one.may_leave(silent, now_ns)
        one.datagrams(now_ns)
