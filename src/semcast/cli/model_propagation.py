"""`semcast model propagation`: a group and its delays in; what ordered multicasts cost out."""

from collections.abc import Mapping
from typing import Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.errors import InputError
from semcast.model import propagation as model

_NAMES = {"two_phase": "two-phase", "centralized": "centralized", "propagation": "propagation"}


def propagation(
    members: Annotated[int, typer.Option("--members", help="Members of the group, from 1.")],
    latency_ms: Annotated[
        float, typer.Option("--latency-ms", help="Time for a message to arrive, in ms.")
    ],
    processing_ms: Annotated[
        float, typer.Option("--processing-ms", help="Time to put a message on the network, in ms.")
    ],
    depth: Annotated[
        float,
        typer.Option("--depth", help="Hops from the primary destination to the farthest member."),
    ],
    extra_nodes: Annotated[
        float, typer.Option("--extra-nodes", help="Nodes on the way that are not members.")
    ] = 0.0,
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
    as_json: JsonOption = False,
) -> None:
    """What does one ordered multicast cost, in messages and delay, by each of three algorithms?

    Depth, extra nodes and forwarding nodes may be means over many groups.

    \b
    Example:
      semcast model propagation --members 5 --latency-ms 10 --processing-ms 1 --depth 2 \\
        --extra-nodes 1 --broadcast-ms 12 --forwarding-nodes 3
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    shape = model.TreeShape(depth, extra_nodes)
    links = model.point_to_point(members, latency_ms, processing_ms, shape)
    if broadcast_ms is None and forwarding_nodes is not None:
        raise InputError("--forwarding-nodes needs --broadcast-ms, the time of one broadcast")
    medium = None
    assumed = broadcast_ms is not None and forwarding_nodes is None
    if broadcast_ms is not None:
        forwarding_nodes = depth if forwarding_nodes is None else forwarding_nodes
        medium = model.broadcast(members, broadcast_ms, forwarding_nodes, shape)
    if as_json:
        print_json(
            {
                "members": members,
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
