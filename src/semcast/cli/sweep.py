"""`semcast sweep`: a scenario and a grid of settings in; what each point of it gives, out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_opener

if TYPE_CHECKING:
    from semcast.pipeline.sweeping.outcome import Asked, Mean, Sweep
    from semcast.pipeline.sweeping.run import Watcher

FAILED: Final = 1
SEEDS_MAX: Final = 10_000
FAILURES_SHOWN_MAX: Final = 10
# What people look at first; all measures are in the output of --json and in the files.
SHOWN: Final = {
    "two-buffers": {
        "sender_rate_msg_s": "sent/s",
        "slow_receiver_rate_msg_s": "slow one/s",
        "purged_share": "purged",
        "semantic_latency_mean_ms": "semantic ms",
        "blocked_share": "blocked",
    },
    "protocol": {
        "sent_rate_msg_s": "sent/s",
        "delivered_rate_min_msg_s": "slowest got/s",
        "not_delivered_share_max": "replaced",
        "latency_p99_worst_ms": "p99 ms",
        "blocked_share_max": "blocked",
    },
    "gossip": {
        "atomic_share": "atomic",
        "largest_rate_msg_s": "largest rate/s",
        "receivers_mean": "receivers",
        "receivers_cv": "variation",
        "latency_mean_ms": "latency ms",
        "copies_per_delivery": "copies each",
    },
    "propagation-graph": {
        "depth": "depth",
        "extra_nodes": "extra nodes",
        "propagation_load_max": "load",
        "two_phase_load_max": "two-phase",
        "centralized_load_max": "central",
    },
    "federation": {
        "messages_per_multicast": "N",
        "transmissions_per_multicast": "transmissions",
        "delay_mean_ms": "D ms",
        "load_max": "load",
        "undone": "undone",
        "blocked_share_max": "blocked",
    },
}
# Of these a tenth is not fine enough.
_FINE: Final = (
    "depth", "extra_nodes", "messages_per_multicast", "transmissions_per_multicast",
    "delay_mean_ms", "load_max",
)  # fmt: skip


def sweep(
    scenario: Annotated[Path, typer.Argument(help="A scenario in TOML; see examples/scenarios.")],
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            help="Settings and their values: lists, or ranges low..high..step, both ends "
            "included. Named as in sim run --set; the end of the name is enough if it is clear.",
        ),
    ] = "",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=SEEDS_MAX, help="Runs of each point.")
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the results; what is there already is not run again "
            "[default: sweep-SCENARIO].",
        ),
    ] = None,
    journals: Annotated[
        bool, typer.Option("--journals", help="Write every run's journal too, as Parquet.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Check what was promised, or save the memory."),
    ] = True,
    picture: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the first measure against the first axis, as SVG."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a scenario at every point of a grid, with several seeds, on Spark.

    If it is interrupted, the same command runs only what is missing. The first seed is the
    scenario's own. The exit code is 1 if a cell failed or broke a promise; each such
    cell is shown with the command that runs it again.

    \b
    Example:
      semcast sweep examples/scenarios/fig5-purging.toml \\
          --grid "r=0,0.25,0.5 delay_ms=5..50..5" --seeds 20
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.pipeline import sweep as run

    with spark_opener("sweep", master, conf) as spark, _interrupted_with_words() as watch:
        found = run(
            scenario,
            grid,
            seeds=seeds,
            out=out,
            journals=journals,
            check=check,
            watch=watch,
            spark=spark,
        )
    if picture is not None:
        measure, words = next(iter(_measured(found).items()))
        picture.write_text(found.picture(measure, words), encoding="utf-8")
    if as_json:
        from semcast.pipeline.sweeping.outcome import as_json as object_of

        print_json(object_of(found))
    else:
        _print(found)
    return FAILED if found.failures else 0


@contextmanager
def _interrupted_with_words() -> "Iterator[Watcher]":
    """Say how far the sweep came if it is interrupted: who starts it again wants to know."""
    reached: tuple[int, int] | None = None

    def watch(done: int, total: int) -> None:
        nonlocal reached
        reached = done, total

    try:
        yield watch
    except KeyboardInterrupt:
        done = "before the first cells were done"
        if reached is not None:
            done = f"after {reached[0]} of {reached[1]} missing cells"
        print(f"semcast: interrupted {done}; the same command goes on from there", file=sys.stderr)
        raise


# -- output ----------------------------------------------------------------------------------------


def _measured(found: "Sweep") -> dict[str, str]:
    """What people look at first, without what these runs did not measure."""
    shown = SHOWN[found.asked.model]
    points = found.asked.points
    there = {
        name: words
        for name, words in shown.items()
        if any(found.mean(point, name) is not None for point in points)
    }
    return there or shown


def _print(found: "Sweep") -> None:
    asked = found.asked
    shown = _measured(found)
    axes = [axis for axis in asked.axes if len(axis.values) > 1] or asked.axes
    columns = [*(axis.name for axis in axes), *shown.values()] if axes else ["", *shown.values()]
    rows = []
    for point in asked.points:
        values = dict(point.settings)
        cells = [values[axis.setting] for axis in axes] or [asked.scenario.stem]
        rows.append([*cells, *(_shown(name, found.mean(point, name)) for name in shown)])
    print_table(asked.title, columns, rows)
    already = len(asked.cells) - found.ran
    print_words(
        f"{len(asked.cells)} cells: {found.ran} run now, {already} there already. "
        f"Mean ± half of the 95% confidence interval, over {asked.seeds} seeds. "
        f"Results: {asked.out}",
        *_warnings(asked),
    )
    for one in found.failures[:FAILURES_SHOWN_MAX]:
        print_words(f"{one.status.upper()}: {one.detail}", f"  {one.replay}")
    if len(found.failures) > FAILURES_SHOWN_MAX:
        print_words(f"{len(found.failures)} cells failed; --json shows all of them.")


def _shown(measure: str, one: "Mean | None") -> str:
    if one is None:
        return "none"
    form = ".1%" if measure.endswith(("_share", "_share_max")) else ".1f"
    form = ".2f" if measure in _FINE else form
    width = None if one.ci95 is None else f"{one.ci95:{form}}"
    mean = f"{one.mean:{form}}"
    return mean if width in (None, f"{0:{form}}") else f"{mean} ± {width}"


def _warnings(asked: "Asked") -> list[str]:
    from semcast.sim.scenario import ProtocolScenario
    from semcast.sim.surroundings import Measured

    measured = any(
        isinstance(point.scenario, ProtocolScenario) and isinstance(point.scenario.host, Measured)
        for point in asked.points
    )
    return ['host.kind is "measured": such runs do not repeat exactly.'] if measured else []
