"""Gossip simulated: the same seed gives the same run, what is measured is what happened, and what a
scenario cannot mean is refused.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from semcast.check import check_safety
from semcast.check.tally import wilson
from semcast.errors import ConfigError, InputError
from semcast.ids import Source
from semcast.journal import read_journal, write_journal
from semcast.sim.epidemic.gossip_scenario import (
    GossipScenario,
    GossipSettings,
    PolicyName,
    Search,
)
from semcast.sim.epidemic.outcome import never_obsolete
from semcast.sim.epidemic.search import at_rate, largest_rate
from semcast.sim.epidemic.world import GossipWorld, run
from semcast.sim.scenario import load, parse
from semcast.sim.surroundings import Faults, Ideal, Shared
from semcast.sim.traffic import Chains, Replay
from semcast.wire.message import Message

# Twelve members whose links carry about half of what is sent.
BUSY = GossipScenario(
    members=12,
    duration_s=6.0,
    warm_up_s=1.0,
    cool_down_s=1.5,
    traffic=Chains(rate_msg_s=60.0),
    network=Shared(bandwidth_mbit_s=1.5),
    gossip=GossipSettings(fanout=4, buffer_messages=6, patience_s=1.0),
)
ALL = [
    GossipSettings(policy=policy, scope=scope, fanout=4, buffer_messages=6, patience_s=1.0)
    for policy in ("eager", "lazy", "random", "drop-new", "age", "priority")
    for scope in ("node", "link")
]
NAIVE = GossipSettings(composition="naive", period_s=0.2, fanout=4)


# -- promises --------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [*ALL, NAIVE], ids=lambda one: f"{one.policy}-{one.scope}")
def test_every_policy_keeps_what_gossip_promises(settings: GossipSettings) -> None:
    world = GossipWorld(replace(BUSY, gossip=settings), 1, journal=True)
    world.run()
    assert world.journal is not None
    report = check_safety(world.journal)
    assert report.ok, str(report)
    assert list(report.judged) == ["Integrity", "Accounting", "Relaying"]
    assert min(report.judged.values()) > 500


def test_the_journal_of_a_group_that_gossips_is_written_and_read(tmp_path: Path) -> None:
    world = GossipWorld(BUSY, 1, journal=True, name="gossiped")
    world.run()
    assert world.journal is not None
    write_journal(world.journal, tmp_path)
    back = read_journal(tmp_path)
    assert back.header.reliability == "gossip"
    assert check_safety(back).judged == check_safety(world.journal).judged


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    assert run(BUSY, 1) == run(BUSY, 1)
    assert run(BUSY, 1) != run(BUSY, 2)


def test_purging_what_is_obsolete_is_better_than_dropping_anything() -> None:
    """PSRM §4.4. A run has some 20 messages that count, so one alone says little."""

    def share(policy: PolicyName) -> float:
        scenario = replace(BUSY, gossip=replace(BUSY.gossip, policy=policy))
        return fmean(run(scenario, seed).atomic_share or 0.0 for seed in (1, 2, 3))

    eager = share("eager")
    assert all(eager > share(other) + 0.2 for other in ("random", "drop-new"))


def test_where_links_are_idle_nothing_is_purged_and_nothing_waits() -> None:
    """PSRM §3: without overload purging changes nothing."""
    calm = at_rate(BUSY, 4.0)
    eager = run(calm, 1)
    plain = run(replace(calm, gossip=replace(calm.gossip, policy="random")), 1)
    assert eager.purged["relay"] == {"replaced": 0, "late": 0}
    assert eager == replace(plain, purged=eager.purged)


# -- what is measured ------------------------------------------------------------------------------


def test_what_is_measured_is_what_the_journal_shows() -> None:
    world = GossipWorld(BUSY, 3, journal=True)
    outcome = world.run()
    assert world.journal is not None
    since, until = 1e9, 4.5e9
    sent: list[tuple[str, int]] = []
    rank: dict[tuple[str, int], tuple[str, int]] = {}
    receivers: Counter[tuple[str, int]] = Counter()
    copies = 0
    for event in world.journal.events:
        message = (event.sender or "", event.seq or 0)
        measured = since <= (event.sent_ns or 0) < until
        if event.event == "multicast":
            rank[message] = (event.key or "", event.rank or 0)
            if measured:
                sent.append(message)
        elif event.event == "deliver":
            receivers[message] += 1
        copies += event.event == "relay" and measured
    top: dict[str, int] = {}
    for key, place in rank.values():
        top[key] = max(place, top.get(key, 0))
    current = [one for one in sent if top[rank[one][0]] == rank[one][1]]
    atomic = [one for one in current if receivers[one] > 0.95 * 12]
    assert outcome.sent == len(sent)
    assert outcome.never_obsolete == len(current) > 10
    assert outcome.atomic_share == len(atomic) / len(current)
    assert outcome.receivers_mean == sum(receivers[one] for one in current) / len(current)
    assert outcome.atomic_share_all is not None
    delivered = sum(receivers[one] for one in sent) - len(sent)
    assert outcome.copies_per_delivery == pytest.approx(copies / delivered)


def test_the_last_of_each_chain_is_never_obsolete() -> None:
    a, b = Source(1, 1), Source(2, 1)
    messages = [
        Message(a, 1, b"k!", 1, 0, 1, True),
        Message(b, 1, b"k!", 1, 0, 2, True),
        Message(a, 2, b"q!", 1, by_key=True),
        Message(b, 2, b"q!", 1, by_key=True),
        Message(a, 3, b"q!", 1, by_key=True),
        Message(a, 4, b"plain"),
    ]
    assert never_obsolete(messages) == [False, True, False, True, True, True]


def test_the_interval_holds_the_share_and_narrows_with_what_is_seen() -> None:
    assert wilson(0, 0) == (None, None)
    few, many = wilson(9, 10), wilson(900, 1000)
    for low, high in (few, many):
        assert low is not None
        assert high is not None
        assert low < 0.9 < high
    assert few[0] < many[0]  # type: ignore[operator]
    assert wilson(10, 10)[1] == pytest.approx(1.0)


def test_a_window_carries_gossip_where_no_bandwidth_is_known() -> None:
    """On an ideal network almost everything arrives, whatever the window found."""
    scenario = replace(BUSY, network=Ideal(), faults=Faults(loss=0.05))
    outcome = run(scenario, 1)
    assert outcome.receivers_mean is not None
    assert outcome.receivers_mean > 0.95 * 12


# -- the largest rate ------------------------------------------------------------------------------


def test_the_search_ends_between_a_rate_that_is_kept_and_one_that_is_not() -> None:
    search = Search(low_msg_s=10, high_msg_s=400, within_msg_s=20, kept_share=0.7)
    found = largest_rate(replace(BUSY, duration_s=5.0, search=search), 1)
    assert found.largest_rate_msg_s is not None
    assert not found.beyond
    tried = dict(found.tried)
    assert tried[found.largest_rate_msg_s] >= 0.7
    failed = [rate for rate, share in tried.items() if share < 0.7]
    assert 0 < min(failed) - found.largest_rate_msg_s <= 20


def test_the_search_says_if_all_or_none_is_kept() -> None:
    brief = replace(BUSY, duration_s=3.5)
    none = replace(brief, search=Search(low_msg_s=200, high_msg_s=310))
    assert largest_rate(none, 1).largest_rate_msg_s is None
    every = replace(brief, search=Search(low_msg_s=20, high_msg_s=22, kept_share=0.1))
    found = largest_rate(every, 1)
    assert (found.largest_rate_msg_s, found.beyond) == (22, True)


# -- scenarios -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"duration_s": 20}, "nothing would be left to measure"),
        ({"members": 1}, "members is 1"),
        ({"gossip": {"policy": "keen"}}, "policy"),
        ({"gossip": {"period_s": 1}}, "nothing waits for a period"),
        ({"gossip": {"rounds": 300}}, "rounds is 300"),
        ({"search": {"low_msg_s": 9, "high_msg_s": 8}}, "must be more than low_msg_s"),
        ({"faults": {"partitions": [{"members": [50], "at_s": 1, "until_s": 2}]}}, "member 50"),
        ({"traffic": {"kind": "game"}}, "traffic.kind"),
    ],
)
def test_what_a_scenario_cannot_mean_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse({"model": "gossip", **changes}, "test")


def test_a_search_needs_a_rate_to_change() -> None:
    with pytest.raises(ConfigError, match="replay"):
        GossipScenario(traffic=Replay("trace.csv"), search=Search())


def test_the_examples_are_the_setting_of_the_paper() -> None:
    """PSRM §4.2, and the reading of what it leaves open that comes nearest to its figures."""
    paper = GossipScenario(
        traffic=Chains(gaps="exponential"), gossip=GossipSettings(room="each", late="link")
    )
    folder = Path(__file__).parents[2] / "examples/scenarios"
    one = load(folder / "psrm.toml")
    assert isinstance(one, GossipScenario)
    assert replace(one, title="") == paper
    other = load(folder / "psrm-largest-rate.toml")
    assert isinstance(other, GossipScenario)
    assert replace(other, title="", search=None) == paper
