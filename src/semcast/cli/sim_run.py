"""`semcast sim run`: a scenario in; rates, latencies and the checkers' verdict out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._judged import as_keys, exit_code, kept_in, not_at_rest, print_where, verdict
from semcast.cli._output import JsonOption, print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.check import Report
    from semcast.sim.attendance import Times
    from semcast.sim.scenario import ProtocolScenario, TwoBufferScenario
    from semcast.sim.tally import NodeOutcome
    from semcast.sim.two_buffers import Outcome
    from semcast.sim.world import Run

NODES_SHOWN_MAX: Final = 12


def sim_run(
    scenario: Annotated[Path, typer.Argument(help="A scenario in TOML; see examples/scenarios.")],
    seed: Annotated[
        int | None, typer.Option("--seed", help="Instead of the scenario's own seed.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: key=value, with dots, as in protocol.k=32."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", help="Write the journal below this folder, as Parquet."),
    ] = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Keep a journal in memory and check what was promised, or save the memory. "
            "[default: check, but not gossip]",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="Stability rounds: coordp, fulldist, train, s_coordp, s_train or gossip; several "
            "with commas, or all.",
        ),
    ] = None,
    branching: Annotated[
        int | None, typer.Option("--branching", help="Stability rounds: of the tree.")
    ] = None,
    height: Annotated[
        int | None, typer.Option("--height", help="Stability rounds: of the tree.")
    ] = None,
    leaf_degree: Annotated[
        int | None,
        typer.Option("--leaf-degree", help="Stability rounds: leaves of each lowest inner node."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            help="Stability rounds: draw time against members into this SVG. Propagation graphs: "
            "draw the map.",
        ),
    ] = None,
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
    from semcast.cli import _federation_show, _gossip_show, _graphs_show, _stability_show
    from semcast.errors import InputError
    from semcast.sim.epidemic.gossip_scenario import GossipScenario
    from semcast.sim.propagation.federation_scenario import FederationScenario
    from semcast.sim.propagation.graph_scenario import GraphScenario
    from semcast.sim.scenario import ProtocolScenario, TwoBufferScenario, load
    from semcast.sim.stability.round_scenario import StabilityScenario

    loaded = load(scenario, changes or ())
    seed = loaded.seed if seed is None else seed
    journaled = isinstance(loaded, ProtocolScenario | GossipScenario | FederationScenario)
    if not journaled and journal is not None:
        raise InputError(
            f"{scenario}: the {loaded.model} model keeps no journal; leave out --journal, "
            "or use a scenario with model = 'protocol', 'gossip' or 'federation'"
        )
    asked = _stability_show.changes(protocol, branching, height, leaf_degree)
    if isinstance(loaded, GraphScenario) and not asked:
        with _progress() as show:
            return _graphs_show.run(loaded, seed, plot, as_json, show)
    if isinstance(loaded, StabilityScenario):
        again = load(scenario, [*(changes or ()), *asked]) if asked else loaded
        with _progress() as show:
            return _stability_show.run(again, seed, plot, as_json, show)
    if asked or plot is not None:
        raise InputError(
            f"{scenario}: --protocol, --branching, --height, --leaf-degree and --plot are for "
            f"model = 'stability', and this is {loaded.model!r}"
        )
    name = f"{scenario.stem}-{seed}"
    if isinstance(loaded, GossipScenario):
        with _progress() as show:
            return _gossip_show.run(loaded, name, seed, journal, bool(check), as_json, show)
    if isinstance(loaded, FederationScenario):
        kept = check is not False
        with _progress() as show:
            return _federation_show.run(loaded, name, seed, journal, kept, as_json, show)
    if not isinstance(loaded, ProtocolScenario):
        assert isinstance(loaded, TwoBufferScenario)
        return _run_two_buffers(loaded, seed, as_json)
    return _run_protocol(loaded, name, seed, journal, check is not False, as_json)


# -- the two-buffer model --------------------------------------------------------------------------


def _run_two_buffers(scenario: "TwoBufferScenario", seed: int, as_json: bool) -> int:
    from semcast.sim.two_buffers import run

    with _progress() as show:
        outcome = run(scenario, seed, show)
    if as_json:
        print_json({"model": scenario.model, "seed": seed, **asdict(outcome)})
    else:
        _print_two_buffers(scenario, seed, outcome)
    return 0


def _print_two_buffers(scenario: "TwoBufferScenario", seed: int, outcome: "Outcome") -> None:
    rows = [
        ("sender", f"{outcome.sender_rate_msg_s:.1f} msg/s"),
        ("fast receiver", f"{outcome.fast_receiver_rate_msg_s:.1f} msg/s"),
        ("slow receiver", f"{outcome.slow_receiver_rate_msg_s:.1f} msg/s"),
        ("purged on the way to the slow one", f"{outcome.purged_share:.1%}"),
        ("purged at the sender's side", f"{outcome.purged_at_sender_share:.1%}"),
        ("waiting on average", f"{outcome.occupancy_mean_messages:.1f} messages"),
        ("latency, mean", f"{outcome.latency_mean_ms:.0f} ms"),
        ("latency, max", f"{outcome.latency_max_ms:.0f} ms"),
        ("semantic latency, mean", f"{outcome.semantic_latency_mean_ms:.0f} ms"),
        ("semantic latency, max", f"{outcome.semantic_latency_max_ms:.0f} ms"),
        ("sender blocked", f"{outcome.blocked_share:.1%} of the time"),
    ]
    print_table(_title(scenario.title, "Two buffers"), ["", "value"], rows)
    verdict = (
        "The slow receiver does not disturb the sender."
        if outcome.blocked_share < 0.01
        else f"The slow receiver holds the sender up {outcome.blocked_share:.0%} of the time."
    )
    print_words(
        f"{scenario.duration_s - scenario.warm_up_s:g} virtual seconds after a warm-up of "
        f"{scenario.warm_up_s:g}, seed {seed}. {verdict}"
    )


# -- the real protocol -----------------------------------------------------------------------------


def _run_protocol(
    scenario: "ProtocolScenario",
    name: str,
    seed: int,
    folder: Path | None,
    check: bool,
    as_json: bool,
) -> int:
    from semcast.sim.world import run

    with _progress() as show:
        outcome = run(scenario, seed, check or folder is not None, show, name)
    written = kept_in(folder, outcome.journal)
    report = _checked(outcome) if check else None
    if as_json:
        print_json(_as_json(scenario, seed, outcome, report, written))
    else:
        _print_protocol(scenario, seed, outcome, report)
        print_where(written)
    return exit_code(report)


def _checked(outcome: "Run") -> "Report":
    """Everything, if the run came to rest; else only what holds at every moment."""
    from semcast.check import check_all, check_safety

    assert outcome.journal is not None
    return check_all(outcome.journal) if outcome.quiescent else check_safety(outcome.journal)


def _as_json(
    scenario: "ProtocolScenario",
    seed: int,
    outcome: "Run",
    report: "Report | None",
    written: Path | None,
) -> dict[str, object]:
    return {
        "model": scenario.model,
        "seed": seed,
        "members": scenario.members,
        "measured_s": outcome.measured_s,
        "sent_rate_msg_s": outcome.sent_rate_msg_s,
        "delivered_rate_min_msg_s": outcome.delivered_rate_min_msg_s,
        "nodes": [asdict(node) for node in outcome.nodes],
        "quiescent": outcome.quiescent,
        "ended_s": outcome.ended_s,
        "membership": None if outcome.membership is None else asdict(outcome.membership),
        "journal_events": None if outcome.journal is None else len(outcome.journal),
        **as_keys(report, written),
    }


def _print_protocol(
    scenario: "ProtocolScenario",
    seed: int,
    outcome: "Run",
    report: "Report | None",
) -> None:
    columns = ["node", "sent/s", "taken/s", "replaced", "p50", "p99", "packets", "kB"]
    shown = _worth_showing(outcome.nodes)
    rows = [
        (
            node.node,
            f"{node.sent_rate_msg_s:.1f}" if node.sent else "",
            f"{node.delivered_rate_msg_s:.1f}",
            f"{node.not_delivered_share:.1%}",
            _ms(node.latency_p50_ms),
            _ms(node.latency_p99_ms),
            f"{node.datagrams_sent}",
            f"{node.bytes_sent / 1000:.0f}",
        )
        for node in shown
    ]
    print_table(_title(scenario.title, "A group"), columns, rows)
    if len(shown) < len(outcome.nodes):
        print_words(f"{len(outcome.nodes) - len(shown)} more nodes are in the output of --json.")
    print_words(
        f"{scenario.members} members, {outcome.measured_s:g} virtual seconds after a warm-up of "
        f"{scenario.warm_up_s:g}, seed {seed}. Replaced: not taken, because a later message was. "
        "Latencies are in ms, from multicast until taken.",
        *[
            f"{node.node} was blocked {node.blocked_share:.1%} of the time."
            for node in shown
            if node.blocked_share > 0
        ],
        *_comings(outcome),
        *([] if outcome.quiescent else [not_at_rest("group", outcome.ended_s)]),
        *verdict(report),
    )


def _worth_showing(nodes: "tuple[NodeOutcome, ...]") -> "list[NodeOutcome]":
    """Senders, and those that got the least, in the order of nodes."""
    ranked = sorted(nodes, key=lambda node: (not node.sent, node.delivered_rate_msg_s))
    chosen = {node.node for node in ranked[:NODES_SHOWN_MAX]}
    return [node for node in nodes if node.node in chosen]


def _comings(outcome: "Run") -> list[str]:
    """How processes came and went, in words."""
    found = outcome.membership
    if found is None:
        return []
    sentences = [
        f"{found.joins.count} lives got in{_times(found.joins)}, {found.outside} did not.",
        f"{found.detections.count} that were gone were noticed{_times(found.detections)}.",
        f"Senders were held up by view changes{_times(found.pauses)}.",
    ]
    if found.views is not None:
        sentences.insert(0, f"Members agreed on {found.views} views.")
    if found.rejoins:
        sentences.append(f"{found.rejoins} came back by themselves after they had been put out.")
    return sentences


def _times(times: "Times") -> str:
    if times.count == 0:
        return ""
    return f" (p50 {times.p50_ms:.0f} ms, p99 {times.p99_ms:.0f} ms, at most {times.max_ms:.0f} ms)"


# -- small parts -----------------------------------------------------------------------------------


def _title(given: str, otherwise: str) -> str:
    return given or otherwise


def _ms(value_ms: float | None) -> str:
    return "" if value_ms is None else f"{value_ms:.1f}"


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
