"""Propagation graphs for people and programs: a file of groups in; a tree and its figures out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from semcast.cli._graph_svg import draw
from semcast.cli._group_files import Latencies, NamedGroups, read_groups, read_latencies
from semcast.cli._output import print_json, print_table, print_words
from semcast.errors import InputError
from semcast.model import propagation as model
from semcast.protocol.propagation.generator import generate
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.rules import CHILDREN_MAX, FEWEST_EXTRA, GREEDY, Rule, spread
from semcast.protocol.propagation.rules import by_latency as by_latency_rule
from semcast.sim.propagation.loads import centralized_load, most_frequent, two_phase_load

_ROWS_SHOWN_MAX: Final = 40
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What the command was asked for."""

    groups: Path
    rule: str
    children_max: int | None
    latencies: Path | None
    svg: Path | None
    latency_ms: float | None
    processing_ms: float | None


def show(asked: Asked, as_json: bool) -> None:
    """Generate the graph, and print or draw it."""
    if (asked.latency_ms is None) != (asked.processing_ms is None):
        raise InputError("--latency-ms and --processing-ms belong together; give both or neither")
    named = read_groups(asked.groups)
    latencies = None if asked.latencies is None else read_latencies(asked.latencies, named.labels)
    graph = generate(named.groups, rule=_rule(asked, latencies), labels=named.labels)
    found = _found(asked, named, graph, latencies)
    if asked.svg is not None:
        asked.svg.write_text(draw(graph, named.labels, asked.groups.name), encoding="utf-8")
    if as_json:
        print_json(found)
        return
    _print(asked, named, graph, found)
    if asked.svg is not None:
        print_words(f"Drawing: {asked.svg}")


def _rule(asked: Asked, latencies: Latencies | None) -> Rule:
    if asked.children_max is not None and asked.rule != "spread":
        raise InputError("--children-max is for --rule spread")
    if asked.rule == "latency":
        if latencies is None:
            raise InputError("--rule latency needs --latencies FILE, the latencies between sites")
        return by_latency_rule(latencies.ns)
    if asked.rule == "spread":
        return spread(CHILDREN_MAX if asked.children_max is None else asked.children_max)
    return FEWEST_EXTRA if asked.rule == "fewest-extra" else GREEDY


def _found(
    asked: Asked, named: NamedGroups, graph: Graph, latencies: Latencies | None
) -> dict[str, Any]:
    labels = named.labels
    depth = {name: graph.depth(name) for name in graph.groups}
    extra = {name: [labels[site] for site in graph.extra_nodes(name)] for name in graph.groups}
    load = {labels[site]: graph.load(site) for site in graph.sites}
    center = most_frequent(graph.groups)
    found: dict[str, Any] = {
        "rule": asked.rule,
        "parent": {
            labels[site]: None if parent == NO_SITE else labels[parent]
            for site, parent in graph.parents.items()
        },
        "primary": {name: labels[site] for name, site in graph.primaries.items()},
        "depth": depth,
        "depth_mean": fmean(depth.values()),
        "extra_nodes": extra,
        "extra_nodes_mean": fmean(map(len, extra.values())),
        "forwarding_nodes": {name: graph.forwarding_nodes(name) for name in graph.groups},
        "load": load,
        "load_max": max(load.values()),
        "two_phase_load_max": two_phase_load(graph.groups),
        "centralized_load_max": centralized_load(graph.groups, center),
        "central_site": labels[center],
    }
    if latencies is not None:
        found["delay_ms"] = {
            name: graph.delay_ns(name, latencies.ns) / _NS_PER_MS for name in graph.groups
        }
    if asked.latency_ms is not None and asked.processing_ms is not None:
        found["point_to_point"] = _costs(graph, asked.latency_ms, asked.processing_ms)
    return found


def _costs(
    graph: Graph, latency_ms: float, processing_ms: float
) -> dict[str, dict[str, dict[str, float]]]:
    """N and D of Table 1, by group."""
    found = {}
    for name, members in graph.groups.items():
        shape = model.TreeShape(graph.depth(name), len(graph.extra_nodes(name)))
        costs = model.point_to_point(len(members), latency_ms, processing_ms, shape)
        found[name] = {
            algorithm: {"messages": cost.messages, "delay_ms": cost.delay_ms}
            for algorithm, cost in costs.items()
        }
    return found


def _print(asked: Asked, named: NamedGroups, graph: Graph, found: Mapping[str, Any]) -> None:
    labels = named.labels
    rows = [
        (labels[site], _indented(graph, site, labels), f"{graph.load(site)}")
        for site in _in_order(graph)[:_ROWS_SHOWN_MAX]
    ]
    columns = ["site", "from the root", "load"]
    print_table(asked.groups.name, columns, rows)
    groups = [
        (
            name,
            labels[graph.primaries[name]],
            f"{graph.depth(name)}",
            " ".join(labels[site] for site in graph.extra_nodes(name)) or "none",
            f"{graph.forwarding_nodes(name)}",
        )
        for name in list(graph.groups)[:_ROWS_SHOWN_MAX]
    ]
    print_table(
        "Its groups", ["group", "primary", "depth", "extra nodes", "forwarding nodes"], groups
    )
    if max(len(graph.sites), len(graph.groups)) > _ROWS_SHOWN_MAX:
        print_words(f"Only {_ROWS_SHOWN_MAX} of each are shown; --json has all of them.")
    print_words(
        f"{len(graph.sites)} sites in {len(graph.groups)} groups make "
        f"{len(graph.roots)} tree{'s' if len(graph.roots) > 1 else ''}, by the rule {asked.rule}. "
        f"On average a group has depth {found['depth_mean']:.2f} and "
        f"{found['extra_nodes_mean']:.2f} extra nodes.",
        f"If each group gets one message, a site sends and receives at most {found['load_max']} "
        f"messages; by two-phase {found['two_phase_load_max']}, and the central site "
        f"{found['centralized_load_max']}.",
        *_cost_words(found.get("point_to_point")),
    )


def _cost_words(costs: Mapping[str, Mapping[str, Mapping[str, float]]] | None) -> list[str]:
    """N and D on average over the groups, in words."""
    if costs is None:
        return []
    means = {
        (algorithm, what): fmean(group[algorithm][what] for group in costs.values())
        for algorithm in ("propagation", "two_phase", "centralized")
        for what in ("messages", "delay_ms")
    }
    return [
        f"On average a multicast takes {means['propagation', 'messages']:.1f} messages and at "
        f"most {means['propagation', 'delay_ms']:.1f} ms; by two-phase "
        f"{means['two_phase', 'messages']:.1f} and {means['two_phase', 'delay_ms']:.1f} ms, by a "
        f"central site {means['centralized', 'messages']:.1f} and "
        f"{means['centralized', 'delay_ms']:.1f} ms."
    ]


def _in_order(graph: Graph) -> list[int]:
    """Each site before those below it."""
    found: list[int] = []
    to_visit = list(reversed(graph.roots))
    while to_visit:
        site = to_visit.pop()
        found.append(site)
        to_visit += reversed(graph.children[site])
    return found


def _indented(graph: Graph, site: int, labels: Mapping[int, str]) -> str:
    """The last steps of the way from the root."""
    way = [labels[site]]
    while (site := graph.parent(site)) != NO_SITE:
        way.append(labels[site])
    shown = way[:5][::-1]
    return " → ".join([*(["…"] if len(way) > len(shown) else []), *shown])
