"""Random groups and their graphs: what is drawn, when it is enough, and who wins where."""

import math
import random
from dataclasses import replace
from statistics import fmean
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.protocol.propagation.generator import central
from semcast.sim.propagation.graph_scenario import GraphScenario, WinnerMap
from semcast.sim.propagation.grids import GRAPH_MEASURES, draw_groups, interval, measure
from semcast.sim.propagation.loads import centralized_load, most_frequent, two_phase_load
from semcast.sim.propagation.winners import Winner, drawn, winners

SMALL = GraphScenario(sites=20, groups=6, group_size=4, runs_min=5, runs_max=40)


def test_the_same_seed_gives_the_same_figures_and_another_seed_others() -> None:
    assert measure(SMALL, 3) == measure(SMALL, 3) != measure(SMALL, 4)


def test_rules_are_compared_on_the_same_sets_of_groups() -> None:
    """What does not depend on the graph is the same under each rule."""
    found = [measure(replace(SMALL, rule=rule, runs_max=5), 1) for rule in ("greedy", "latency")]
    for name in ("two_phase_load_max", "centralized_load_max"):
        assert found[0].measures[name] == found[1].measures[name]
    assert found[1].mean("way_ms") <= found[0].mean("way_ms")


def test_every_measure_has_its_name() -> None:
    assert set(measure(SMALL, 1).measures) == set(GRAPH_MEASURES)


def test_runs_end_when_all_intervals_are_narrow_enough_or_at_the_bound() -> None:
    """±10% of the mean, and ±0.5 extra nodes. PROP §4.1"""
    wide = measure(replace(SMALL, within_share=1.0), 1)
    assert (wide.runs, wide.close_enough) == (5, True)
    narrow = measure(replace(SMALL, within_share=0.0001), 1)
    assert (narrow.runs, narrow.close_enough) == (40, False)
    enough = measure(replace(SMALL, runs_max=1000), 1)
    for name in ("depth", "propagation_load_max", "two_phase_load_max"):
        assert enough.measures[name].ci95 <= 0.1 * enough.mean(name)
    assert enough.measures["extra_nodes"].ci95 <= 0.5


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 30), st.booleans())
def test_groups_have_the_sizes_that_were_asked_for(
    sites: int, groups: int, size: int, fixed: bool
) -> None:
    size = min(size, sites)
    scenario = GraphScenario(
        sites=sites, groups=groups, group_size=size, sizes="fixed" if fixed else "exponential"
    )
    found = draw_groups(scenario, random.Random(1))
    assert len(found) == groups
    for members in found.values():
        assert len(set(members)) == len(members)
        assert set(members) <= set(range(sites))
        assert len(members) == size if fixed else 1 <= len(members) <= sites


def test_exponential_sizes_have_the_mean_that_was_asked_for() -> None:
    scenario = GraphScenario(sites=1000, groups=4000, group_size=10, sizes="exponential")
    sizes = [len(one) for one in draw_groups(scenario, random.Random(1)).values()]
    assert fmean(sizes) == pytest.approx(10, rel=0.05)


def test_an_interval_of_one_run_says_nothing() -> None:
    assert interval([3.0]).ci95 == math.inf
    assert interval([3.0, 3.0]).ci95 == 0


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=8))
def test_loads_of_the_comparators(members: list[set[int]]) -> None:
    """Three messages a member and group; the central site as a graph of depth 1. PROP §4.1"""
    groups = {f"g{at}": tuple(sorted(one)) for at, one in enumerate(members)}
    center = most_frequent(groups)
    assert two_phase_load(groups) == 3 * sum(center in one for one in members)
    assert centralized_load(groups, center) == central(groups, center).load(center)


def test_the_map_names_the_least_at_each_point() -> None:
    scenario = replace(SMALL, map=WinnerMap(sites=(20, 60), groups=(6,), ratios=(0.1, 100.0)))
    found = winners(scenario, 1)
    assert [(one.sites, one.ratio) for one in found] == [
        (20, 0.1), (20, 100.0), (60, 0.1), (60, 100.0),
    ]  # fmt: skip
    for one in found:
        assert one.delays[one.delay] == min(one.delays.values())
        assert one.loads[one.load] == min(one.loads.values())
        assert one.delays["centralized"] <= one.delays["propagation"]


def test_the_drawing_has_a_cell_for_each_point() -> None:
    costs = {"two_phase": 1.0, "centralized": 2.0, "propagation": 3.0}
    points = [Winner(sites, 10, ratio, costs, costs) for sites in (5, 6, 7) for ratio in (1.0, 2.0)]
    tree = ElementTree.fromstring(drawn("a < b", points))
    texts = [one.text for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b" in texts
    assert texts.count("two-phase") == 1 + 3 * (2 + 1), "the legend, ratios and the load"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs_max": 4}, "runs_max is 4"),
        ({"group_size": 21}, "only 20 sites"),
        ({"map": WinnerMap(sites=(3,))}, "only 3 sites"),
        ({"sites": 0}, "sites"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(SMALL, **changes)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="empty"):
        WinnerMap(sites=())
