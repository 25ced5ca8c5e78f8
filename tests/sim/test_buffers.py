"""What groups can do with their buffers: replace by key at any distance, purge later, hold less.

A slow reader beside a fast one, and all promises checked on the journal of each run.
"""

from collections import Counter
from dataclasses import replace

import pytest

from semcast.check import check_all
from semcast.errors import ConfigError
from semcast.journal import Journal
from semcast.protocol.config import MemberConfig
from semcast.sim import scenario as sc
from semcast.sim import surroundings as around
from semcast.sim.scenario import ProtocolScenario
from semcast.sim.traffic import Overwrites, Trading
from semcast.sim.world import run

KEYS = 300
SCENARIO = ProtocolScenario(
    members=3,
    senders=(0,),
    duration_s=8.0,
    warm_up_s=0.0,
    drain_s=60.0,
    traffic=Trading(rate_msg_s=300.0, stocks=(KEYS, 1), shares=(0.99, 0.01), size_bytes=8),
    protocol=sc.Protocol(k=64, delivery_messages=512, window_messages=512, deliver_own=False),
    consumers=(around.Consumer(members=(2,), delay_ms=10.0),),
)


def ran(scenario: ProtocolScenario, **protocol: object) -> Journal:
    changed = replace(scenario.protocol, **protocol)  # type: ignore[arg-type]
    outcome = run(replace(scenario, protocol=changed), seed=1)
    assert outcome.quiescent
    assert outcome.journal is not None
    report = check_all(outcome.journal)
    assert report.ok, str(report)
    return outcome.journal


def held(journal: Journal, node: str) -> list[int]:
    """How many messages a node holds in all, after each of its events."""
    waiting: set[tuple[str | None, int | None]] = set()
    kept: set[tuple[str | None, int | None]] = set()
    counts = []
    for event in journal.select(node=node):
        message = (event.sender, event.seq)
        if event.event == "receive":
            waiting.add(message)
        if event.event == "multicast" or (event.event == "receive" and event.sender != node):
            kept.add(message)
        if event.event == "deliver" or (event.event, event.where) == ("purge", "delivery"):
            waiting.discard(message)
        if (event.event, event.where) == ("purge", "retransmit"):
            kept.discard(message)
        if event.event == "stable":
            kept = {(s, n) for s, n in kept if s != event.sender or (n or 0) > (event.seq or 0)}
        counts.append(len(waiting) + len(kept))
    return counts


@pytest.mark.parametrize("reliability", ["sender", "group"])
def test_a_slow_reader_of_more_keys_than_a_bitmap_has_bits_holds_up_nobody(
    reliability: str,
) -> None:
    by_key = ran(SCENARIO, reliability=reliability)
    bitmap = ran(SCENARIO, reliability=reliability, replacement="bitmap")
    purges = [Counter(e.event for e in journal.events)["purge"] for journal in (by_key, bitmap)]
    assert purges[0] > 1.5 * purges[1]
    blocked = [sum(e.event == "block" for e in journal.events) for journal in (by_key, bitmap)]
    assert blocked[0] == 0 < blocked[1]


@pytest.mark.parametrize("policy", ["lazy", "watermark"])
@pytest.mark.parametrize("replacement", ["key", "bitmap"])
def test_what_is_purged_later_is_held_longer_and_nothing_else_changes(
    policy: str, replacement: str
) -> None:
    """OBS §4.1, SRM §5.1."""
    traffic = Overwrites(rate_msg_s=300.0, r=0.9, d=5, size_bytes=8)
    small = replace(SCENARIO, traffic=traffic)
    bounds = {"delivery_messages": 64, "window_messages": 64, "replacement": replacement}
    at_once = ran(small, **bounds)
    afterwards = ran(small, **bounds, purge_policy=policy)
    sent = [len(list(journal.select(event="multicast"))) for journal in (at_once, afterwards)]
    assert sent[0] == sent[1]
    most = [max(held(journal, "p2.1")) for journal in (at_once, afterwards)]
    assert most[1] > most[0]
    for journal in (at_once, afterwards):
        assert any(event.event == "purge" for event in journal.events)


def test_one_bound_on_all_messages_is_kept_and_reached_and_nobody_waits_for_ever() -> None:
    """SRM §5.3. Nothing is replaced here, so the slow reader fills up, and all wait for it."""
    scenario = replace(
        SCENARIO,
        senders=(0, 1, 2),
        traffic=Overwrites(rate_msg_s=100.0, r=0.0, d=1, size_bytes=8),
        duration_s=2.0,
    )
    total = 96
    journal = ran(scenario, total_messages=total, delivery_messages=1_000, deliver_own=True)
    most = [max(held(journal, node)) for node in ("p0.1", "p1.1", "p2.1")]
    assert max(most) <= total
    # A quarter is set aside for what comes early, which journals do not tell of.
    assert most[2] > total * 0.6
    sent = Counter(event.event for event in journal.events)["multicast"]
    assert Counter(event.node for event in journal.select(event="deliver"))["p2.1"] == sent


def test_a_total_that_is_too_small_for_the_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="total_messages is 23, too few for 3 members; 24 is"):
        MemberConfig(total_messages=23).retained_config(3)
    assert MemberConfig(total_messages=24).window(3) == 1


def test_order_by_key_purges_at_once_or_not_at_all() -> None:
    with pytest.raises(ConfigError, match="purge_policy 'lazy' with order 'key'"):
        MemberConfig(order="key", purge_policy="lazy")
    assert MemberConfig(order="key", purge_policy="lazy", purging=False).purge_policy == "lazy"
