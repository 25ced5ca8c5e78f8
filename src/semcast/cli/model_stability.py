"""`semcast model stability`: the shape of a tree in; what five stability protocols cost out."""

from typing import Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.model import stability as model


def stability(
    branching: Annotated[
        int, typer.Option("--branching", help="Children of each node above the lowest, from 1.")
    ],
    height: Annotated[
        int, typer.Option("--height", help="Hops from the root to the leaves, from 1.")
    ],
    leaf_degree: Annotated[
        int | None,
        typer.Option(
            "--leaf-degree",
            help="Leaves under each node of the lowest level but one, "
            "1 to branching [default: branching].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What does one stability round cost, in rounds and messages, by each of the protocols?

    One member sits on each node of a tree network; a message counts once on each hop.

    \b
    Example:
      semcast model stability --branching 4 --height 5 --leaf-degree 3
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    tree = model.Tree(branching, height, branching if leaf_degree is None else leaf_degree)
    protocols = model.all_protocols(tree)
    if as_json:
        print_json(
            {
                "branching": tree.branching,
                "height": tree.height,
                "leaf_degree": tree.leaf_degree,
                "group_size": tree.size,
                "protocols": {name: _as_json(cost) for name, cost in protocols.items()},
            }
        )
        return
    rows = [
        (name, str(cost.rounds), str(cost.all_hops), str(max(cost.processed.values())))
        for name, cost in protocols.items()
    ]
    print_table(
        f"Stability protocols, {tree.size} members",
        ["protocol", "rounds", "messages on all hops", "most processed by one member"],
        rows,
    )
    busy, calm = protocols["CoordP"], protocols["S_CoordP"]
    print_words(
        f"One execution each. Merging answers on their way up the tree (S_CoordP) takes "
        f"{busy.all_hops / calm.all_hops:.1f} times fewer messages than answering the "
        f"coordinator directly (CoordP), and the busiest member handles "
        f"{max(calm.processed.values())} instead of {max(busy.processed.values())}."
    )


def _as_json(cost: model.ProtocolCost) -> dict[str, object]:
    return {
        "rounds": cost.rounds,
        "messages_all_hops": cost.all_hops,
        "messages_all_hops_by_type": {
            "start": cost.start_hops,
            "ack": cost.ack_hops,
            "info": cost.info_hops,
        },
        "messages_processed": dict(cost.processed),
    }
