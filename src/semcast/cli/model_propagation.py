"""`semcast model propagation`: a group and its delays in; what ordered multicasts cost out.

Or a file of groups in; their propagation graph out (`_graph_show`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.errors import InputError
from semcast.model import propagation as model

RULES: Final = ("greedy", "spread", "fewest-extra", "latency")
_N = TypeVar("_N", int, float)
_NAMES = {"two_phase": "two-phase", "centralized": "centralized", "propagation": "propagation"}


def propagation(
    members: Annotated[
        int | None, typer.Option("--members", help="Members of the group, from 1.")
    ] = None,
    latency_ms: Annotated[
        float | None, typer.Option("--latency-ms", help="Time for a message to arrive, in ms.")
    ] = None,
    processing_ms: Annotated[
        float | None,
        typer.Option("--processing-ms", help="Time to put a message on the network, in ms."),
    ] = None,
    depth: Annotated[
        float | None,
        typer.Option("--depth", help="Hops from the primary destination to the farthest member."),
    ] = None,
    extra_nodes: Annotated[
        float | None,
        typer.Option("--extra-nodes", help="Nodes on the way that are not members [default: 0]."),
    ] = None,
    broadcast_ms: Annotated[
        float | None,
        typer.Option("--broadcast-ms", help="Time that one broadcast takes for all, in ms."),
    ] = None,
    forwarding_nodes: Annotated[
        float | None,
        typer.Option(
            "--forwarding-nodes",
            help="With --broadcast-ms: nodes of the tree that forward "
            "[default: the depth, the fewest possible].",
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups",
            help="Generate the propagation graph of these groups instead. JSON: the name of a "
            "group, and a list of the names of its sites.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            help="With --groups: greedy (the paper's), spread (less load, more depth), "
            "fewest-extra (nodes), or latency [default: greedy].",
        ),
    ] = None,
    children_max: Annotated[
        int | None,
        typer.Option(
            "--children-max", help="With --rule spread: leaves below one site [default: 2]."
        ),
    ] = None,
    latencies: Annotated[
        Path | None,
        typer.Option(
            "--latencies",
            help="With --groups: latencies in ms. JSON: a site, another, and the time between.",
        ),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="With --groups: draw the graph into this file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What does one ordered multicast cost, in messages and delay, by each of three algorithms?

    Depth, extra nodes and forwarding nodes may be means over many groups. With --groups: which
    propagation graph do these groups have, and how deep and how busy is it?

    \b
    Example:
      semcast model propagation --members 5 --latency-ms 10 --processing-ms 1 --depth 2 \\
        --extra-nodes 1 --broadcast-ms 12 --forwarding-nodes 3
      semcast model propagation --groups examples/groups/figure3.json --svg figure3.svg
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    form = {
        "--members": members,
        "--depth": depth,
        "--extra-nodes": extra_nodes,
        "--broadcast-ms": broadcast_ms,
        "--forwarding-nodes": forwarding_nodes,
    }
    graph = {
        "--rule": rule,
        "--children-max": children_max,
        "--latencies": latencies,
        "--svg": svg,
    }
    if groups is not None:
        _require_none(form, "one group by itself, and --groups has groups of its own")
        if rule is not None and rule not in RULES:
            raise InputError(f"--rule is {rule!r}; choose one of {', '.join(RULES)}")
        from semcast.cli import _graph_show

        asked = _graph_show.Asked(
            groups, rule or RULES[0], children_max, latencies, svg, latency_ms, processing_ms
        )
        _graph_show.show(asked, as_json)
        return
    _require_none(graph, "--groups FILE")
    given = _Given(
        _required("--members", members),
        _required("--latency-ms", latency_ms),
        _required("--processing-ms", processing_ms),
        _required("--depth", depth),
        extra_nodes or 0.0,
        broadcast_ms,
        forwarding_nodes,
    )
    _show_costs(given, as_json)


def _require_none(options: Mapping[str, object], needed: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} is for {needed}")


def _required(name: str, value: _N | None) -> _N:
    if value is None:
        raise InputError(f"Missing option {name!r}; or give --groups FILE")
    return value


@dataclass(frozen=True)
class _Given:
    """One group, and what is known of its tree."""

    members: int
    latency_ms: float
    processing_ms: float
    depth: float
    extra_nodes: float
    broadcast_ms: float | None
    forwarding_nodes: float | None


def _show_costs(given: _Given, as_json: bool) -> None:
    shape = model.TreeShape(given.depth, given.extra_nodes)
    links = model.point_to_point(given.members, given.latency_ms, given.processing_ms, shape)
    forwarding_nodes = given.forwarding_nodes
    if given.broadcast_ms is None and forwarding_nodes is not None:
        raise InputError("--forwarding-nodes needs --broadcast-ms, the time of one broadcast")
    medium = None
    assumed = given.broadcast_ms is not None and forwarding_nodes is None
    if given.broadcast_ms is not None:
        forwarding_nodes = given.depth if forwarding_nodes is None else forwarding_nodes
        medium = model.broadcast(given.members, given.broadcast_ms, forwarding_nodes, shape)
    if as_json:
        print_json(
            {
                "members": given.members,
                "point_to_point": _as_json(links),
                "broadcast": None if medium is None else _as_json(medium),
                "forwarding_nodes": forwarding_nodes,
                "forwarding_nodes_assumed": assumed,
            }
        )
        return
    _print_costs("Point-to-point network", links)
    if medium is not None:
        _print_costs("Broadcast network", medium)
    print_words(*_sentences(links, assumed))


def _as_json(costs: Mapping[str, model.MulticastCost]) -> dict[str, dict[str, float]]:
    return {
        name: {"messages": cost.messages, "delay_ms": cost.delay_ms} for name, cost in costs.items()
    }


def _print_costs(title: str, costs: Mapping[str, model.MulticastCost]) -> None:
    rows = [
        (_NAMES[name], f"{cost.messages:g}", f"{cost.delay_ms:g}") for name, cost in costs.items()
    ]
    print_table(title, ["algorithm", "messages (N)", "delay (D), ms"], rows)


def _sentences(links: Mapping[str, model.MulticastCost], assumed: bool) -> list[str]:
    ours, theirs = links["propagation"], links["two_phase"]
    sentences = [
        f"Over links, propagation takes {ours.messages:g} messages where two-phase takes "
        f"{theirs.messages:g}, and its delay is at most {ours.delay_ms:g} ms against "
        f"{theirs.delay_ms:g} ms."
    ]
    if assumed:
        sentences.append(
            "Forwarding nodes were taken to be as few as the depth allows; a bushy tree has more, "
            "and each costs a broadcast."
        )
    return sentences
