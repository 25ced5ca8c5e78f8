"""Simulated stability rounds: the paper's figures, the closed forms, and other networks."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.model import stability as model
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import Followed
from semcast.protocol.stability.gossip.tracker import GossipTracker
from semcast.sim.stability.gossip import GossipPage
from semcast.sim.stability.outcome import StabilityOutcome, roles
from semcast.sim.stability.round_scenario import (
    PROTOCOLS,
    CompleteTree,
    FilledTree,
    Gossip,
    Hosts,
    Links,
    ProtocolName,
    RandomTree,
    Routers,
    StabilityScenario,
    Traffic,
    Variant,
)
from semcast.sim.stability.world import make_shape, run, wrong_members

ROUNDS: tuple[ProtocolName, ...] = ("coordp", "fulldist", "train", "s_coordp", "s_train")
PAPER_NAMES = dict(zip(ROUNDS, ("CoordP", "FullDist", "Train", "S_CoordP", "S_Train"), strict=True))
# readings.md: (b, z) at height 5, then messages on all hops and RTT at the root, in ms.
TABLE: list[tuple[int, int, dict[str, tuple[int, float]]]] = [
    (
        2,
        1,
        {
            "coordp": (270, 21.15),
            "fulldist": (2162, 21.81),
            "train": (352, 168.0),
            "s_coordp": (138, 10.24),
            "s_train": (153, 15.84),
        },
    ),
    (
        3,
        3,
        {
            "coordp": (2367, 206.6),
            "fulldist": (132_132, 207.7),
            "train": (2108, 1207),
            "s_coordp": (1089, 16.35),
            "s_train": (1331, 33.86),
        },
    ),
    (
        4,
        3,
        {
            "coordp": (7308, 1054),
            "train": (6184, 5098),
            "s_coordp": (3324, 28.87),
            "s_train": (4091, 64.96),
        },
    ),
    (
        4,
        4,
        {
            "coordp": (9100, 1478),
            "train": (7208, 6641),
            "s_coordp": (4092, 33.48),
            "s_train": (5115, 76.41),
        },
    ),
]


def tree(branching: int, height: int, leaf_degree: int) -> CompleteTree:
    return CompleteTree(branching=branching, height=height, leaf_degree=leaf_degree)


def outcome(protocol: ProtocolName, seed: int = 1, **changes: Any) -> StabilityOutcome:
    return run(StabilityScenario(protocol=protocol, **changes), seed)


# -- the paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("b", "z", "protocol", "hops", "rtt_ms"),
    [(b, z, name, *figures) for b, z, row in TABLE for name, figures in row.items()],
)
def test_round_trips_and_counts_are_those_of_the_literal_reading(
    b: int, z: int, protocol: ProtocolName, hops: int, rtt_ms: float
) -> None:
    """Counts exactly, RTT within half a percent. STAB §5.3, §5.4; readings.md"""
    found = outcome(protocol, tree=tree(b, 5, z))
    assert found.finished
    assert found.wrong_members == 0
    assert found.messages_all_hops == hops
    assert found.rtt_root_ms == pytest.approx(rtt_ms, rel=0.005)
    if protocol in ("train", "s_coordp", "s_train"):
        assert found.link_queue_max == 1
    if (b, z, protocol) == (4, 3, "coordp"):
        assert found.link_queue_max == 203


def test_the_orderings_of_the_paper_hold() -> None:
    """FullDist ≈ CoordP, Train longest, S_CoordP shortest. STAB §5.4.2, Figure 9"""
    found = {name: outcome(name, tree=tree(3, 4, 2)) for name in ROUNDS}
    rtt = {name: one.rtt_root_ms or 0.0 for name, one in found.items()}
    assert rtt["fulldist"] == pytest.approx(rtt["coordp"], rel=0.05)
    assert rtt["train"] == max(rtt.values())
    assert rtt["s_coordp"] < rtt["s_train"] < rtt["coordp"]
    for one in found.values():
        assert one.rtt_member_min_ms is not None
        assert one.rtt_member_mean_ms is not None
        assert one.rtt_member_max_ms is not None
        assert one.time_to_stable_ms is not None
        assert one.rtt_member_min_ms <= one.rtt_member_mean_ms + 1e-6
        assert one.rtt_member_mean_ms <= one.rtt_member_max_ms + 1e-6
        assert one.rtt_member_max_ms <= one.time_to_stable_ms


@given(st.integers(1, 4), st.integers(1, 3), st.data())
@settings(max_examples=40)
def test_counts_are_those_of_the_closed_forms(b: int, p: int, data: st.DataObject) -> None:
    """STAB tables 1 and 4"""
    z = data.draw(st.integers(1, b))
    costs = model.all_protocols(model.Tree(b, p, z))
    for name in ROUNDS:
        found = outcome(name, tree=tree(b, p, z))
        cost = costs[PAPER_NAMES[name]]
        hops = found.messages_all_hops_by_type
        assert found.wrong_members == 0
        assert found.members == model.Tree(b, p, z).size
        assert found.messages_all_hops == cost.all_hops
        assert (hops["start"], hops["ack"]) == (cost.start_hops, cost.ack_hops)
        assert (hops["info"], hops["ask"]) == (cost.info_hops, 0)
        # The closed forms name no role that only some trees have apart from others.
        assert max(found.messages_processed.values()) == max(cost.processed.values())
        if b > 1:
            assert found.messages_processed == cost.processed


def test_members_of_a_role_process_as_many_messages_each() -> None:
    shape = make_shape(StabilityScenario(tree=tree(3, 3, 2)), 1)
    assert sorted(set(roles("s_coordp", shape))) == [
        "internal",
        "internal_above_leaves",
        "leaf",
        "root",
    ]
    assert roles("s_train", shape).count("leaf_first") == 9
    assert set(roles("gossip", shape)) == {"member"}


def test_bytes_are_headers_and_a_number_for_each_sender() -> None:
    """4n + 32, and 32 for a START. STAB §5.1"""
    n = 31
    found = outcome("s_coordp", tree=tree(2, 4, 2))
    assert found.bytes_all_hops == (n - 1) * (32 + 2 * (4 * n + 32))
    few = outcome("s_coordp", tree=tree(2, 4, 2), senders=5)
    assert few.bytes_all_hops == (n - 1) * (32 + 2 * (4 * 5 + 32))
    assert (few.rtt_root_ms or 0) < (found.rtt_root_ms or 0)


def test_senders_under_one_sequence_need_one_number_together() -> None:
    """STAB §7"""
    grouped = outcome("s_coordp", tree=tree(2, 4, 2), senders=10, senders_per_sequence=4)
    assert grouped.senders == 10
    assert grouped.bytes_all_hops == (31 - 1) * (32 + 2 * (4 * 3 + 32))
    assert grouped.wrong_members == 0
    with pytest.raises(ConfigError, match="a sequence of its own"):
        StabilityScenario(senders_per_sequence=2, traffic=Traffic())


# -- other readings and other networks -------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"routers": Routers(latency_us=2000)},
        {"routers": Routers(latency_us=3000, serial=True)},
        {"routers": Routers(at_ends=True)},
        {"hosts": Hosts(routes=True)},
        {"hosts": Hosts(receive_factor=2)},
        {"multicast": False},
        {"links": Links(bandwidth_mbit_s=1)},
        {"links": Links(delays_ms=(5.0, 1.0))},
    ],
    ids=str,
)
def test_whatever_makes_the_network_slower_makes_the_round_longer(other: dict[str, Any]) -> None:
    literal = outcome("coordp", tree=tree(3, 3, 3))
    changed = outcome("coordp", tree=tree(3, 3, 3), **other)
    assert changed.wrong_members == 0
    assert literal.time_to_stable_ms is not None
    assert changed.time_to_stable_ms is not None
    assert changed.time_to_stable_ms > literal.time_to_stable_ms


def test_a_tree_that_is_not_the_network_costs_hops() -> None:
    """STAB §5.3.1: the two trees need not coincide."""
    aligned = outcome("s_coordp", tree=tree(3, 3, 3))
    anywhere = outcome("s_coordp", tree=tree(3, 3, 3), placement="random")
    assert anywhere.wrong_members == 0
    assert anywhere.messages_all_hops > aligned.messages_all_hops
    assert anywhere.messages_processed == aligned.messages_processed


def test_loopback_and_processors_are_choices() -> None:
    plain = outcome("coordp", tree=tree(2, 3, 2))
    silent = outcome("coordp", tree=tree(2, 3, 2), loopback=False)
    assert silent.messages_processed["coordinator"] == plain.messages_processed["coordinator"] - 2
    two = outcome("fulldist", tree=tree(2, 3, 2), hosts=Hosts(processors=2))
    one = outcome("fulldist", tree=tree(2, 3, 2))
    assert (two.rtt_root_ms or 0) < (one.rtt_root_ms or 0)


@pytest.mark.parametrize("protocol", ROUNDS)
def test_random_trees_are_close_to_complete_ones(protocol: ProtocolName) -> None:
    """STAB §5.4.2, Figures 9 and 10"""
    complete = outcome(protocol, tree=tree(3, 4, 2)).rtt_root_ms
    drawn = RandomTree(members=94, branching=3, height=4)
    found = [outcome(protocol, seed, tree=drawn) for seed in range(5)]
    assert all(one.finished and one.wrong_members == 0 for one in found)
    mean = float(np.mean([one.rtt_root_ms for one in found]))
    assert complete is not None
    assert complete * 0.7 < mean < complete * 1.7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lossy_wide_area_round_ends_and_is_right(protocol: ProtocolName) -> None:
    for seed in range(4):
        found = outcome(
            protocol,
            seed,
            tree=tree(3, 2, 3),
            links=Links(delays_ms=(30.0, 2.0), loss=0.1),
            deadline_s=300,
        )
        assert found.finished
        assert found.wrong_members == 0
        assert found.messages_lost > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_round(protocol: ProtocolName) -> None:
    lossy = {
        "tree": RandomTree(members=20, branching=2, height=3),
        "links": Links(delays_ms=(5.0,), loss=0.05),
        "timeout_ms": 200,
        "placement": "random",
    }
    assert outcome(protocol, 3, **lossy) == outcome(protocol, 3, **lossy)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("members", [1, 2, 3])
def test_small_groups_end_too(protocol: ProtocolName, members: int) -> None:
    found = outcome(protocol, tree=FilledTree(members=members))
    assert found.finished
    assert found.wrong_members == 0


def test_a_round_that_is_not_over_at_the_deadline_says_so() -> None:
    whole = outcome("coordp", tree=tree(2, 3, 2))
    for protocol in PROTOCOLS:
        late = outcome(protocol, tree=tree(2, 3, 2), deadline_s=0.002)
        assert late.finished is False
        assert (late.rtt_root_ms, late.rtt_member_mean_ms) == (None, None)
        assert late.time_to_stable_ms is None
        assert late.messages_all_hops < whole.messages_all_hops


def test_who_agreed_on_something_else_is_counted() -> None:
    class Fake:
        def __init__(self, values: list[int]) -> None:
            self.agreed = np.array(values)

    parties: Any = [Fake([1, 2]), Fake([1, 3]), Fake([1, 2])]
    assert wrong_members(parties, np.array([1, 2])) == 1


# -- gossip ----------------------------------------------------------------------------------------


@given(st.integers(2, 9), st.integers(0, 10_000))
@settings(max_examples=40)
def test_a_page_of_gossip_does_what_the_live_tracker_does(members: int, seed: int) -> None:
    """The same vectors in the same order: the same rounds, votes and results, step by step."""
    stream = random.Random(seed)
    sources = [Source(sender, 1) for sender in range(min(4, members))]
    view = View.first(list(range(members)), 0)
    live = [GossipTracker(Followed(view, True), Source(me, 1), False, 0) for me in range(members)]
    zero = np.zeros(len(sources), np.int64)
    everybody = (1 << members) - 1
    pages = [
        GossipPage(members, me, zero, zero, 10, 2, random.Random(me), everybody)
        for me in range(members)
    ]
    for one in live:  # all have heard of all senders: columns are there from the beginning
        for source in sources:
            one.has(source, 0)
            one._row(source)
    for _ in range(60):
        me = stream.randrange(members)
        column = stream.randrange(len(sources))
        live[me].has(sources[column], int(pages[me].own[column]) + 1)
        pages[me].own = pages[me].own.copy()
        pages[me].own[column] += 1
        gossiper = stream.randrange(members)
        live[gossiper].on_period()
        pages[gossiper].on_timer(0)
        vectors, rumours = live[gossiper].vectors(), pages[gossiper].take_out()
        for peer, rumour in rumours:
            grown = pages[peer].on_round_message(rumour, gossiper, 0)
            assert bool(live[peer].on_vector(vectors[0])) == grown
        for one, page in zip(live, pages, strict=True):
            assert [one.agreed(source) for source in sources] == page.agreed.tolist()


def test_gossip_keeps_within_what_the_links_near_the_root_carry() -> None:
    small = outcome("gossip", tree=FilledTree(members=60), senders=10)
    assert small.wrong_members == 0
    fixed = outcome("gossip", tree=FilledTree(members=60), senders=10, gossip=Gossip(period_ms=300))
    assert (fixed.time_to_stable_ms or 0) > (small.time_to_stable_ms or 0)


# -- settings --------------------------------------------------------------------------------------


def test_cases_are_every_protocol_in_every_variant() -> None:
    scenario = StabilityScenario(
        compare=("s_train", "coordp"),
        variants=(Variant("a", senders=3), Variant("b", tree=FilledTree(members=9))),
        repeat=4,
    )
    found = scenario.cases()
    assert [(title, one.protocol) for title, one in found] == [
        ("a", "coordp"),
        ("a", "s_train"),
        ("b", "coordp"),
        ("b", "s_train"),
    ]
    assert found[0][1] == replace(
        scenario, protocol="coordp", senders=3, compare=(), variants=(), repeat=1
    )
    assert found[3][1].tree == FilledTree(members=9)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: StabilityScenario(compare=("paxos",)),
        lambda: CompleteTree(branching=2, leaf_degree=3),
        lambda: CompleteTree(branching=1000, height=20),
        lambda: Links(loss=1.0),
        lambda: run(StabilityScenario(tree=RandomTree(members=5, branching=4, height=5)), 1),
    ],
)
def test_what_cannot_be_run_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError):
        bad()
