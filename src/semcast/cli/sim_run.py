"""`semcast sim run`: a scenario in; rates, latencies and the checkers' verdict out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, assert_never

import typer

from semcast.cli._judged import Asked, Show
from semcast.cli._output import JsonOption

if TYPE_CHECKING:
    from semcast.sim.scenario import Scenario

ScenarioArgument: TypeAlias = Annotated[
    Path, typer.Argument(help="A scenario in TOML; see examples/scenarios.")
]
SeedOption: TypeAlias = Annotated[
    int | None, typer.Option("--seed", help="Instead of the scenario's own seed.")
]
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: key=value, with dots, as in protocol.k=32."),
]
JournalOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--journal", help="Write the journal below this folder, as Parquet."),
]
CheckOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--check/--no-check",
        help="Keep a journal in memory and check what was promised, or save the memory. "
        "[default: check, but not gossip]",
    ),
]
PlotOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Stability rounds: draw time against members into this SVG. Propagation graphs: "
        "draw the map.",
    ),
]
# What is asked of stability rounds alone.
ProtocolOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        help="Stability rounds: coordp, fulldist, train, s_coordp, s_train or gossip; several "
        "with commas, or all.",
    ),
]
BranchingOption: TypeAlias = Annotated[
    int | None, typer.Option("--branching", help="Stability rounds: of the tree.")
]
HeightOption: TypeAlias = Annotated[
    int | None, typer.Option("--height", help="Stability rounds: of the tree.")
]
LeafDegreeOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--leaf-degree", help="Stability rounds: leaves of each lowest inner node."),
]


def sim_run(
    scenario: ScenarioArgument,
    seed: SeedOption = None,
    changes: SetOption = None,
    journal: JournalOption = None,
    check: CheckOption = None,
    protocol: ProtocolOption = None,
    branching: BranchingOption = None,
    height: HeightOption = None,
    leaf_degree: LeafDegreeOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a scenario: the two-buffer model, a group under the real protocol, stability rounds, a
    group that gossips, propagation graphs of random groups, or a federation.

    The exit code is 1 if a checker finds a violation. The same seed gives the same run.

    \b
    Example:
      semcast sim run examples/scenarios/fig5-purging.toml
      semcast sim run examples/scenarios/slow-reader.toml --seed 7 --set duration_s=20 --json
      semcast sim run examples/scenarios/stability.toml --protocol all --branching 4 --height 5
      semcast sim run examples/scenarios/psrm.toml --set gossip.policy=random --json
      semcast sim run examples/scenarios/prop-graphs.toml --set sites=200 --json
      semcast sim run examples/scenarios/federation.toml --set federation.protocol=two-phase
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.cli._stability_show import changes as changes_of_rounds
    from semcast.sim.epidemic.gossip_scenario import GossipScenario
    from semcast.sim.scenario import load
    from semcast.sim.stability.round_scenario import StabilityScenario

    loaded = load(scenario, changes or ())
    rounds = changes_of_rounds(protocol, branching, height, leaf_degree)
    _refuse_what_it_cannot(scenario, loaded, journal is not None, bool(rounds), plot is not None)
    seed = loaded.seed if seed is None else seed
    if rounds and isinstance(loaded, StabilityScenario):
        loaded = load(scenario, [*(changes or ()), *rounds])
    # A group that gossips is checked only if that is asked for.
    checks = bool(check) if isinstance(loaded, GossipScenario) else check is not False
    asked = Asked(f"{scenario.stem}-{seed}", seed, journal, checks, as_json)
    with _progress() as show:
        return _run(loaded, asked, plot, show)


def _refuse_what_it_cannot(
    scenario: Path, loaded: "Scenario", journal: bool, rounds: bool, plot: bool
) -> None:
    """Raise InputError if an option was given that means nothing for this model."""
    from semcast.errors import InputError
    from semcast.sim.propagation.graph_scenario import GraphScenario
    from semcast.sim.scenario import TwoBufferScenario
    from semcast.sim.stability.round_scenario import StabilityScenario

    if journal and isinstance(loaded, TwoBufferScenario | StabilityScenario | GraphScenario):
        raise InputError(
            f"{scenario}: the {loaded.model} model keeps no journal; leave out --journal, "
            "or use a scenario with model = 'protocol', 'gossip' or 'federation'"
        )
    if isinstance(loaded, StabilityScenario) or (isinstance(loaded, GraphScenario) and not rounds):
        return
    if rounds or plot:
        raise InputError(
            f"{scenario}: --protocol, --branching, --height, --leaf-degree and --plot are for "
            f"model = 'stability', and this is {loaded.model!r}"
        )


def _run(loaded: "Scenario", asked: Asked, plot: Path | None, show: Show) -> int:
    """Run a scenario of any model."""
    from semcast.cli import (
        _federation_show,
        _gossip_show,
        _graphs_show,
        _protocol_show,
        _stability_show,
        _two_buffers_show,
    )
    from semcast.sim.epidemic.gossip_scenario import GossipScenario
    from semcast.sim.propagation.federation_scenario import FederationScenario
    from semcast.sim.propagation.graph_scenario import GraphScenario
    from semcast.sim.scenario import ProtocolScenario, TwoBufferScenario
    from semcast.sim.stability.round_scenario import StabilityScenario

    match loaded:
        case TwoBufferScenario():
            return _two_buffers_show.run(loaded, asked.seed, asked.as_json, show)
        case ProtocolScenario():
            return _protocol_show.run(loaded, asked, show)
        case StabilityScenario():
            return _stability_show.run(loaded, asked.seed, plot, asked.as_json, show)
        case GossipScenario():
            return _gossip_show.run(loaded, asked, show)
        case GraphScenario():
            return _graphs_show.run(loaded, asked.seed, plot, asked.as_json, show)
        case FederationScenario():
            return _federation_show.run(loaded, asked, show)
        case _:
            assert_never(loaded)


@contextmanager
def _progress() -> Iterator[Callable[[float], None] | None]:
    """A bar on a terminal, once it takes longer than two seconds."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("simulating", total=1.0, visible=False)
        started = progress.get_time()

        def show(share: float) -> None:
            progress.update(task, completed=share, visible=progress.get_time() - started > 2)

        yield show
