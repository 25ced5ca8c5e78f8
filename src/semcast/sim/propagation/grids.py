"""One point of PROP Graphs 1 to 5: random groups in; depth, extra nodes and loads out.

Sets of groups are drawn until the means are known as well as the paper knows them. Each set has a
stream of its own, so that the same seed gives the same sets whatever is measured of them.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Final

from semcast.model.confidence import t_95
from semcast.model.propagation import MulticastCost, TreeShape, broadcast, point_to_point
from semcast.protocol.propagation.choices import LatencyNs
from semcast.protocol.propagation.generator import generate
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.rules import FEWEST_EXTRA, GREEDY, Rule, by_latency, spread
from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.propagation.loads import centralized_load, most_frequent, two_phase_load

PROTOCOLS: Final = ("two_phase", "centralized", "propagation")
# What decides when to stop: the means that the paper gives intervals for.
_DECIDING: Final = (
    "depth",
    "propagation_load_max",
    "two_phase_load_max",
    "centralized_load_max",
)
_EXTRA: Final = "extra_nodes"
# All that is measured of one set of groups. Loads are of the busiest site. `way_ms` is the time
# from the primary destination to the last member, if sites lie on a square.
GRAPH_MEASURES: Final = (
    "depth",
    "extra_nodes",
    "forwarding_nodes",
    "trees",
    "way_ms",
    *(f"{name}_load_max" for name in PROTOCOLS),
    *(f"{name}_{what}" for name in PROTOCOLS for what in ("messages", "delay_ms")),
    *(f"{name}_broadcast_{what}" for name in PROTOCOLS for what in ("messages", "delay_ms")),
)
# The mean distance of two points in a square of side 1.
_SQUARE_MEAN: Final = 0.5214
Groups = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Interval:
    """A mean, and half of its 95% confidence interval (Student's)."""

    mean: float
    ci95: float


@dataclass(frozen=True)
class GraphOutcome:
    """The means over all sets that were drawn, by measure."""

    runs: int
    close_enough: bool  # whether all intervals are as narrow as was asked for
    measures: dict[str, Interval]

    def mean(self, measure: str) -> float:
        return self.measures[measure].mean


def measure(
    scenario: GraphScenario, seed: int, show: Callable[[float], None] | None = None
) -> GraphOutcome:
    """Draw and measure until the means are known well enough, or `runs_max` sets are drawn."""
    seen: dict[str, list[float]] = {}
    runs, close = 0, False
    while runs < scenario.runs_max and not close:
        stream = random.Random(f"{seed}/groups/{runs}")
        groups = draw_groups(scenario, stream)
        latency_ns = _on_a_square(scenario, random.Random(f"{seed}/places/{runs}"))
        graph = generate(groups, rule=_rule(scenario, latency_ns))
        for name, value in _measured(scenario, graph, latency_ns).items():
            seen.setdefault(name, []).append(value)
        runs += 1
        if runs >= scenario.runs_min:
            close = _close_enough(scenario, seen)
        if show is not None:
            show(runs / scenario.runs_max)
    return GraphOutcome(runs, close, {name: interval(values) for name, values in seen.items()})


def draw_groups(scenario: GraphScenario, stream: random.Random) -> Groups:
    """One random set of groups; members are drawn without preference."""
    sites = range(scenario.sites)
    found = {}
    for at in range(scenario.groups):
        size = scenario.group_size
        if scenario.sizes == "exponential":
            drawn = stream.expovariate(1 / scenario.group_size)
            size = min(max(1, round(drawn)), scenario.sites)
        found[f"g{at}"] = tuple(stream.sample(sites, size))
    return found


def interval(values: list[float]) -> Interval:
    """The mean of some runs, and how far from it the truth may be."""
    if len(values) < 2:
        return Interval(fmean(values), math.inf)
    half = t_95(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(fmean(values), half)


def _close_enough(scenario: GraphScenario, seen: dict[str, list[float]]) -> bool:
    for name in _DECIDING:
        one = interval(seen[name])
        if one.ci95 > scenario.within_share * one.mean:
            return False
    return interval(seen[_EXTRA]).ci95 <= scenario.within_extra_nodes


def _rule(scenario: GraphScenario, latency_ns: LatencyNs) -> Rule:
    match scenario.rule:
        case "spread":
            return spread(scenario.children_max)
        case "fewest-extra":
            return FEWEST_EXTRA
        case "latency":
            return by_latency(latency_ns)
        case _:
            return GREEDY


def _on_a_square(scenario: GraphScenario, stream: random.Random) -> LatencyNs:
    """Latencies as distances of points in a square, of the scenario's latency on average."""
    places = [(stream.random(), stream.random()) for _ in range(scenario.sites)]
    scale_ns = scenario.latency_ms * 1e6 / _SQUARE_MEAN

    def latency_ns(one: int, other: int) -> int:
        return round(math.dist(places[one], places[other]) * scale_ns)

    return latency_ns


# -- what is measured of one set -------------------------------------------------------------------


def _measured(scenario: GraphScenario, graph: Graph, latency_ns: LatencyNs) -> dict[str, float]:
    names = list(graph.groups)
    found = {
        "depth": fmean(graph.depth(name) for name in names),
        _EXTRA: fmean(len(graph.extra_nodes(name)) for name in names),
        "forwarding_nodes": fmean(graph.forwarding_nodes(name) for name in names),
        "trees": float(len(graph.roots)),
        "way_ms": fmean(graph.delay_ns(name, latency_ns) for name in names) / 1e6,
        "propagation_load_max": float(max(graph.load(site) for site in graph.sites)),
        "two_phase_load_max": float(two_phase_load(graph.groups)),
        "centralized_load_max": float(centralized_load(graph.groups, most_frequent(graph.groups))),
    }
    for network, costs in costs_of(scenario, graph).items():
        for protocol in PROTOCOLS:
            of_groups = [cost[protocol] for cost in costs]
            found[f"{protocol}_{network}messages"] = fmean(one.messages for one in of_groups)
            found[f"{protocol}_{network}delay_ms"] = fmean(one.delay_ms for one in of_groups)
    return found


def costs_of(scenario: GraphScenario, graph: Graph) -> dict[str, list[dict[str, MulticastCost]]]:
    """N and D of every group, by Tables 1 and 2. Keys are prefixes of measures."""
    links, medium = [], []
    for name, members in graph.groups.items():
        shape = TreeShape(graph.depth(name), len(graph.extra_nodes(name)))
        links.append(
            point_to_point(len(members), scenario.latency_ms, scenario.processing_ms, shape)
        )
        forwarding = graph.forwarding_nodes(name)
        medium.append(broadcast(len(members), scenario.broadcast_ms, forwarding, shape))
    return {"": links, "broadcast_": medium}


def at_point(scenario: GraphScenario, sites: int, groups: int) -> GraphScenario:
    """The same scenario with another number of sites and groups."""
    return replace(scenario, sites=sites, groups=groups, map=None)
