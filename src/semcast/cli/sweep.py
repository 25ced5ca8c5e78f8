"""`semcast sweep`: a scenario and a grid of settings in; what each point of it gives, out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from semcast.pipeline.sweeping.cells import Cell
    from semcast.pipeline.sweeping.grid import Axis, Point
    from semcast.pipeline.sweeping.run import Folder

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
}


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

    Interrupted, it goes on where it was: the same command runs only what is missing. The first
    seed is the scenario's own. The exit code is 1 if a cell failed or broke a promise; each such
    cell is shown with the command that runs it again.

    \b
    Example:
      semcast sweep examples/scenarios/fig5-purging.toml \\
          --grid "r=0,0.25,0.5 delay_ms=5..50..5" --seeds 20
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.errors import InputError
    from semcast.pipeline.sweeping.cells import cells_of, keeps_journal
    from semcast.pipeline.sweeping.grid import points_of

    axes, points = points_of(scenario, grid)
    first = points[0].scenario
    if journals and not all(keeps_journal(point.scenario) for point in points):
        raise InputError(
            f"{scenario}: the two-buffers model keeps no journal; leave out --journals"
        )
    cells = cells_of(points, range(first.seed, first.seed + seeds), check)
    plan = _Sweep(scenario, axes, points, cells, seeds, out or Path(f"sweep-{scenario.stem}"))
    with spark_session("sweep", master, conf) as spark:
        found = _run(spark, plan, journals)
    if picture is not None:
        picture.write_text(_drawn(plan, found), encoding="utf-8")
    if as_json:
        print_json(_as_json(plan, found))
    else:
        _print(plan, found)
    return FAILED if found.failures else 0


@dataclass(frozen=True)
class _Sweep:
    """What is asked for."""

    path: Path
    axes: "list[Axis]"
    points: "list[Point]"
    cells: "list[Cell]"
    seeds: int
    out: Path

    @property
    def model(self) -> str:
        return self.points[0].scenario.model


@dataclass(frozen=True)
class _Found:
    """What came of it; `summary` has (seeds, mean, half of the interval) by point and measure."""

    ran: int
    failures: "list[tuple[Cell, Row]]"
    summary: dict[tuple[str, str], tuple[int, float, float | None]]


def _run(spark: "SparkSession", plan: _Sweep, journals: bool) -> _Found:
    from semcast.pipeline.spark.progress import run_job
    from semcast.pipeline.sweeping.run import Folder, results_of
    from semcast.pipeline.sweeping.simulate import OK
    from semcast.pipeline.sweeping.stages import summarized

    folder = Folder(plan.out)
    ran = _run_or_say_how_far(spark, plan.cells, folder, journals)
    results = results_of(spark, folder, plan.cells)
    rows = run_job(spark, "summing up", summarized(results).collect)
    failed = results.where(results.status != OK).select("cell", "status", "detail")
    by_name = {cell.cell: cell for cell in plan.cells}
    failures = [(by_name[row.cell], row) for row in run_job(spark, "failures", failed.collect)]
    summary = {(row.point, row.measure): (row.seeds, row.mean, row.ci95) for row in rows}
    return _Found(ran, failures, summary)


def _run_or_say_how_far(
    spark: "SparkSession", cells: "Sequence[Cell]", folder: "Folder", journals: bool
) -> int:
    from semcast.pipeline.sweeping.run import run_sweep

    reached = (0, 0)

    def watch(done: int, total: int) -> None:
        nonlocal reached
        reached = done, total

    try:
        return run_sweep(spark, cells, folder, journals, watch)
    except KeyboardInterrupt:
        done, total = reached
        typer.echo(
            f"semcast: interrupted after {done} of {total or len(cells)} missing cells; "
            "the same command goes on from there",
            err=True,
        )
        raise


# -- output ----------------------------------------------------------------------------------------


def _failure(plan: _Sweep, cell: "Cell", row: "Row") -> dict[str, object]:
    return {
        "cell": cell.cell,
        "settings": dict(cell.settings),
        "seed": cell.seed,
        "status": row.status,
        "detail": row.detail,
        "replay": cell.replay(str(plan.path)),
    }


def _as_json(plan: _Sweep, found: _Found) -> dict[str, object]:
    measures = sorted({measure for _, measure in found.summary})
    points = []
    for point in plan.points:
        known = {name: found.summary.get((point.label, name)) for name in measures}
        points.append(
            {
                "settings": dict(point.settings),
                "measures": {
                    name: {"seeds": one[0], "mean": one[1], "ci95": one[2]}
                    for name, one in known.items()
                    if one is not None
                },
            }
        )
    return {
        "scenario": str(plan.path),
        "model": plan.model,
        "axes": {axis.setting: list(axis.values) for axis in plan.axes},
        "seeds": plan.seeds,
        "cells": len(plan.cells),
        "cells_run": found.ran,
        "cells_failed": len(found.failures),
        "points": points,
        "failures": [_failure(plan, cell, row) for cell, row in found.failures],
        "folder": str(plan.out),
    }


def _print(plan: _Sweep, found: _Found) -> None:
    shown = SHOWN[plan.model]
    axes = [axis for axis in plan.axes if len(axis.values) > 1] or plan.axes
    columns = [*(axis.name for axis in axes), *shown.values()] if axes else ["", *shown.values()]
    rows = []
    for point in plan.points:
        values = dict(point.settings)
        cells = [values[axis.setting] for axis in axes] or [plan.path.stem]
        rows.append([*cells, *(_shown(found, point.label, name) for name in shown)])
    title = plan.points[0].scenario.title or plan.path.stem
    print_table(title, columns, rows)
    already = len(plan.cells) - found.ran
    print_words(
        f"{len(plan.cells)} cells: {found.ran} run now, {already} there already. "
        f"Mean ± half of the 95% confidence interval, over {plan.seeds} seeds. "
        f"Results: {plan.out}",
        *_warnings(plan),
    )
    for cell, row in found.failures[:FAILURES_SHOWN_MAX]:
        print_words(f"{row.status.upper()}: {row.detail}", f"  {cell.replay(str(plan.path))}")
    if len(found.failures) > FAILURES_SHOWN_MAX:
        print_words(f"{len(found.failures)} cells failed; --json shows all of them.")


def _shown(found: _Found, point: str, measure: str) -> str:
    one = found.summary.get((point, measure))
    if one is None:
        return "none"
    _, mean, ci95 = one
    form = ".1%" if measure.endswith(("_share", "_share_max")) else ".1f"
    width = None if ci95 is None else f"{ci95:{form}}"
    return f"{mean:{form}}" if width in (None, f"{0:{form}}") else f"{mean:{form}} ± {width}"


def _warnings(plan: _Sweep) -> list[str]:
    from semcast.sim.scenario import Measured, ProtocolScenario

    measured = any(
        isinstance(point.scenario, ProtocolScenario) and isinstance(point.scenario.host, Measured)
        for point in plan.points
    )
    return ['host.kind is "measured": such runs do not repeat exactly.'] if measured else []


def _drawn(plan: _Sweep, found: _Found) -> str:
    from semcast.pipeline.sweeping.plot import Dot, plot

    measure, words = next(iter(SHOWN[plan.model].items()))
    lines: dict[str, list[Dot]] = {}
    for point in plan.points:
        one = found.summary.get((point.label, measure))
        if one is not None:
            x = point.settings[0][1] if point.settings else plan.path.stem
            name = " ".join(f"{key.split('.')[-1]}={value}" for key, value in point.settings[1:])
            lines.setdefault(name, []).append(Dot(x, one[1], one[2] or 0.0))
    title = plan.points[0].scenario.title or plan.path.stem
    return plot(title, plan.axes[0].name if plan.axes else "", words, lines)
