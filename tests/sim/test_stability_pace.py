"""Rounds under traffic: what a trigger saves, what a fixed pace costs, and what members have."""

from typing import Any

import pytest

from semcast.errors import ConfigError
from semcast.sim.stability.pace import Data, PacedOutcome, run
from semcast.sim.stability.round_scenario import (
    CompleteTree,
    ProtocolName,
    StabilityScenario,
    Traffic,
)

MS = 1_000_000


def paced(protocol: ProtocolName = "s_coordp", seed: int = 1, **traffic: Any) -> PacedOutcome:
    settings = {"rate_msg_s": 100.0, "window_messages": 40, "duration_s": 4.0} | traffic
    scenario = StabilityScenario(
        protocol=protocol,
        tree=CompleteTree(branching=3, height=2),
        senders=4,
        traffic=Traffic(**settings),
    )
    return run(scenario, seed)


@pytest.mark.parametrize("protocol", ["coordp", "fulldist", "train", "s_coordp", "s_train"])
def test_the_trigger_needs_fewest_messages_and_blocks_nobody(protocol: ProtocolName) -> None:
    """STAB §6"""
    trigger = paced(protocol)
    often = paced(protocol, period_ms=40)
    assert trigger.control_messages_s < often.control_messages_s / 4
    # The first round begins before anything was measured, with a full window.
    assert trigger.blocked_share < 0.02
    assert trigger.messages_sent == pytest.approx(400, abs=4)
    assert trigger.waiting_max_messages <= 40
    # A shorter time-to-stable is what more rounds buy.
    assert trigger.time_to_stable_mean_ms is not None
    assert often.time_to_stable_mean_ms is not None
    assert often.time_to_stable_mean_ms < trigger.time_to_stable_mean_ms


def test_rounds_that_come_too_late_stop_the_senders() -> None:
    """They begin when the window is full, and what is sent meanwhile has no room."""
    fast: dict[str, Any] = {"rate_msg_s": 1000.0, "duration_s": 1.0}
    trigger, late = paced(**fast), paced(**fast, period_ms=500)
    assert late.blocked_share > trigger.blocked_share + 0.05
    assert late.messages_sent < trigger.messages_sent


def test_messages_that_are_missed_make_a_round_release_less_so_there_are_more() -> None:
    assert paced(loss=0.02, repair_ms=80).rounds > paced().rounds


def test_a_quiet_group_forgets_too() -> None:
    """Two messages a second never fill a window of 40; the bound on time begins rounds."""
    found = paced(rate_msg_s=2.0, bound_ms=300.0)
    assert found.rounds >= 5
    assert found.time_to_stable_max_ms is not None
    assert found.time_to_stable_max_ms < 1200


def test_the_same_seed_gives_the_same_run() -> None:
    assert paced(seed=5, loss=0.05) == paced(seed=5, loss=0.05)
    assert paced(seed=5, loss=0.05) != paced(seed=6, loss=0.05)


def test_what_a_member_has_only_grows_and_has_no_gaps() -> None:
    data = Data(Traffic(latency_ms=5, loss=0.2, repair_ms=30), members=3, senders=2, seed=1)
    before = {member: [0, 0] for member in range(3)}
    gaps = 0
    for now_ns in range(0, 400 * MS, 2 * MS):
        if now_ns < 300 * MS and now_ns % (10 * MS) == 0:
            data.send(now_ns)
        reached = sum(at + 5 * MS <= now_ns for at in data.sent_ns)
        for member in range(3):
            has = data.has(member, now_ns).tolist()
            assert all(now >= then for now, then in zip(has, before[member], strict=True))
            assert all(
                count == data.sent if sender == member else count <= reached
                for sender, count in enumerate(has)
            )
            gaps += any(count < reached for count in has)
            before[member] = has
    assert gaps > 10
    assert set(map(tuple, before.values())) == {(30, 30)}


def test_gossip_has_no_rounds_to_begin() -> None:
    with pytest.raises(ConfigError, match="gossip"):
        StabilityScenario(protocol="gossip", traffic=Traffic())
