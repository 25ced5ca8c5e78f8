"""A whole sweep, as it is asked for and as it comes out: what notebooks get and commands print."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from semcast.errors import InputError
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.sweeping.cells import Cell, cells_of, keeps_journal
from semcast.pipeline.sweeping.grid import Axis, Point, points_of
from semcast.pipeline.sweeping.plot import Dot, plot
from semcast.pipeline.sweeping.run import Folder, Watcher, results_of, run_sweep
from semcast.pipeline.sweeping.simulate import OK
from semcast.pipeline.sweeping.stages import summarized


@dataclass(frozen=True)
class Mean:
    """A measure at one point: the mean over seeds, and half of its 95% confidence interval."""

    seeds: int
    mean: float
    ci95: float | None  # None with one seed


@dataclass(frozen=True)
class Failure:
    """A cell that failed, or broke a promise."""

    cell: Cell
    status: str
    detail: str
    replay: str  # the command that runs it again


@dataclass(frozen=True)
class Asked:
    """A sweep as it is asked for."""

    scenario: Path
    axes: list[Axis]
    points: list[Point]
    cells: list[Cell]
    seeds: int
    out: Path

    @property
    def model(self) -> str:
        return self.points[0].scenario.model

    @property
    def title(self) -> str:
        return self.points[0].scenario.title or self.scenario.stem


@dataclass(frozen=True)
class Sweep:
    """A sweep as it came out. `ran` cells were run now; the others were there already."""

    asked: Asked
    ran: int
    failures: list[Failure]
    summary: dict[tuple[str, str], Mean]  # by point, as its label, and measure
    results: DataFrame  # one row for each cell; schema `stages.RESULTS`, without `took_s`

    @cached_property
    def measures(self) -> list[str]:
        """What was measured, by name."""
        return sorted({measure for _, measure in self.summary})

    def mean(self, point: Point, measure: str) -> Mean | None:
        """A measure at a point; None if no cell of it went well."""
        return self.summary.get((point.label, measure))

    def picture(self, measure: str, words: str | None = None) -> str:
        """An SVG of one measure, called `words`, against the first axis of the grid."""
        lines: dict[str, list[Dot]] = {}
        for point in self.asked.points:
            one = self.mean(point, measure)
            if one is not None:
                x = point.settings[0][1] if point.settings else self.asked.scenario.stem
                others = point.settings[1:]
                name = " ".join(f"{key.split('.')[-1]}={value}" for key, value in others)
                lines.setdefault(name, []).append(Dot(x, one.mean, one.ci95 or 0.0))
        axis = self.asked.axes[0].name if self.asked.axes else ""
        return plot(self.asked.title, axis, words or measure, lines)


def asked(
    scenario: Path, grid: str, seeds: int, check: bool, journals: bool, out: Path | None
) -> Asked:
    """All cells of a sweep. The first seed is the scenario's own. Needs no Spark."""
    axes, points = points_of(scenario, grid)
    if journals and not all(keeps_journal(point.scenario) for point in points):
        raise InputError(
            f"{scenario}: the {points[0].scenario.model} model keeps no journal; "
            "leave out --journals"
        )
    first = points[0].scenario.seed
    cells = cells_of(points, range(first, first + seeds), check)
    return Asked(scenario, axes, points, cells, seeds, out or Path(f"sweep-{scenario.stem}"))


def run_asked(
    spark: SparkSession, wanted: Asked, journals: bool = False, watch: Watcher | None = None
) -> Sweep:
    """Run the cells that have no result yet, and put all results together."""
    folder = Folder(wanted.out)
    ran = run_sweep(spark, wanted.cells, folder, journals, watch)
    results = results_of(spark, folder, wanted.cells)
    rows = run_job(spark, "summing up", summarized(results).collect)
    summary = {(row.point, row.measure): Mean(row.seeds, row.mean, row.ci95) for row in rows}
    return Sweep(wanted, ran, _failures(spark, wanted, results), summary, results)


def _failures(spark: SparkSession, wanted: Asked, results: DataFrame) -> list[Failure]:
    by_name = {cell.cell: cell for cell in wanted.cells}
    failed = results.where(results.status != OK).select("cell", "status", "detail")
    rows = run_job(spark, "failures", failed.collect)
    path = str(wanted.scenario)
    found = [(by_name[row.cell], row) for row in rows]
    return [Failure(cell, row.status, row.detail, cell.replay(path)) for cell, row in found]


# -- for programs ----------------------------------------------------------------------------------


def as_json(found: Sweep) -> dict[str, object]:
    """One object with stable keys."""
    wanted = found.asked
    return {
        "scenario": str(wanted.scenario),
        "model": wanted.model,
        "axes": {axis.setting: list(axis.values) for axis in wanted.axes},
        "seeds": wanted.seeds,
        "cells": len(wanted.cells),
        "cells_run": found.ran,
        "cells_failed": len(found.failures),
        "points": [
            {"settings": dict(point.settings), "measures": _measures(found, point)}
            for point in wanted.points
        ],
        "failures": [_failure(one) for one in found.failures],
        "folder": str(wanted.out),
    }


def _measures(found: Sweep, point: Point) -> dict[str, object]:
    known = {name: found.mean(point, name) for name in found.measures}
    return {
        name: {"seeds": one.seeds, "mean": one.mean, "ci95": one.ci95}
        for name, one in known.items()
        if one is not None
    }


def _failure(one: Failure) -> dict[str, object]:
    return {
        "cell": one.cell.cell,
        "settings": dict(one.cell.settings),
        "seed": one.cell.seed,
        "status": one.status,
        "detail": one.detail,
        "replay": one.replay,
    }
