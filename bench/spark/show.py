"""Results in; tables for people and an object for JSON out. Measures nothing."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.spark.run import Asked, Measured, Plan, Results
from bench.spark.worker import START

_GB = 1e9


def spark_seconds(asked: Asked, spark: Sequence[Measured]) -> float | None:
    """What Spark takes for this question alone: with the frames that it rests on."""
    names = {asked.query.job, *asked.query.needs}
    mine = [
        one.line
        for one in spark
        if one.group == asked.query.group and one.rows == asked.rows and one.line.job in names
    ]
    if asked.query.job not in {line.job for line in mine}:
        return None
    return sum(line.seconds for line in mine)


def growth(spark: Sequence[Measured]) -> list[dict[str, Any]]:
    """By job and size: time per row, and processor time per row, against those of the smallest
    size; 1 is linear.
    """
    found = []
    smallest: dict[tuple[str, str], Measured] = {}
    for one in sorted(spark, key=lambda one: one.rows):
        if one.line.job == START:
            continue
        first = smallest.setdefault((one.group, one.line.job), one)
        if first is not one:
            found.append(
                {
                    "group": one.group,
                    "job": one.line.job,
                    "rows": one.rows,
                    "per_row_ratio": _grown(one, first, one.line.seconds, first.line.seconds),
                    "processor_per_row_ratio": _grown(
                        one, first, one.line.processor_s, first.line.processor_s
                    ),
                }
            )
    return found


def _grown(one: Measured, first: Measured, value_s: float, first_s: float) -> float:
    return (value_s / one.rows) / max(first_s / first.rows, 1e-12)


def totals(spark: Sequence[Measured]) -> list[dict[str, Any]]:
    """By group and size: all jobs together, and the most memory of any."""
    groups: dict[tuple[int, str], list[Measured]] = {}
    for one in spark:
        groups.setdefault((one.rows, one.group), []).append(one)
    return [
        {
            "group": group,
            "rows": rows,
            "seconds": sum(one.line.seconds for one in some if one.line.job != START),
            "processor_s": sum(one.line.processor_s for one in some if one.line.job != START),
            "peak_jvm_bytes": max(one.line.peak.jvm_bytes for one in some),
            "peak_python_bytes": max(one.line.peak.python_bytes for one in some),
        }
        for (rows, group), some in groups.items()
    ]


def as_object(plan: Plan, results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """Everything, under stable keys."""
    return {
        **about,
        "cores": plan.cores,
        "memory_gb": plan.memory_gb,
        "spark": [
            {
                "group": one.group,
                "job": one.line.job,
                "shared": one.line.shared,
                "rows": one.rows,
                "seconds": one.line.seconds,
                "processor_s": one.line.processor_s,
                "rows_per_s_per_core": rate(one.rows, one.line.processor_s),
                "peak_jvm_bytes": one.line.peak.jvm_bytes,
                "peak_python_bytes": one.line.peak.python_bytes,
                "found": one.line.found,
            }
            for one in results.spark
        ],
        "totals": totals(results.spark),
        "duckdb": [
            {
                "group": one.query.group,
                "job": one.query.job,
                "rows": one.rows,
                "seconds": one.answer.seconds,
                "peak_bytes": one.answer.peak_bytes,
                "spark_seconds": spark_seconds(one, results.spark),
                "spark_over_duckdb": spark_ratio(one, results.spark),
            }
            for one in results.duckdb
        ],
        "growth": growth(results.spark),
        "sweep": results.sweep,
        "left_out": results.left_out,
    }


def rate(rows: int, processor_s: float) -> float:
    """Rows for each second that one core was busy with them."""
    return rows / max(processor_s, 1e-2)  # what is counted in hundredths


def spark_ratio(asked: Asked, spark: Sequence[Measured]) -> float | None:
    """How many times as long Spark takes as DuckDB."""
    seconds = spark_seconds(asked, spark)
    return None if seconds is None else seconds / max(asked.answer.seconds, 1e-9)


def show(console: Console, plan: Plan, results: Results) -> None:
    """Print all tables that have rows."""
    for group, rows in dict.fromkeys((one.group, one.rows) for one in results.spark):
        some = [one for one in results.spark if (one.group, one.rows) == (group, rows)]
        _print_spark(console, plan, some)
    if results.duckdb:
        _print_duckdb(console, results)
    grown = growth(results.spark)
    if grown:
        table = _table("Time per row, against the smallest size (1: linear)", "group", "job")
        for name in ("rows", "time", "processor time"):
            table.add_column(name, justify="right")
        for one in grown:
            ratios = (f"{one[name]:.2f}" for name in ("per_row_ratio", "processor_per_row_ratio"))
            table.add_row(one["group"], one["job"], f"{one['rows']:,}", *ratios)
        console.print(table)
    if results.sweep:
        found = results.sweep
        console.print(
            f"Sweep of {found['cells']} cells of {found['cell_mean_s']:.1f} s: "
            f"{found['spark_s']:.1f} s on Spark, {found['pool_s']:.1f} s in a process pool: "
            f"{found['overhead']:+.1%} (at most {found['overhead_max']:.0%} wanted)"
        )
    for text in results.left_out:
        console.print(f"Left out: {text}", style="yellow", markup=False)


def _table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    return table


def _print_spark(console: Console, plan: Plan, some: list[Measured]) -> None:
    """The jobs of one group at one size."""
    (total,) = totals(some)
    rows = total["rows"]
    title = f"{total['group']}: {rows:,} rows on {plan.cores} cores, JVM of {plan.memory_gb} GB"
    table = _table(title, "job")
    for name in ("s", "processor s", "rows/s/core", "JVM GB", "Python GB"):
        table.add_column(name, justify="right")
    table.add_column("found")
    for one in some:
        line = one.line
        table.add_row(
            f"shared: {line.job}" if line.shared else line.job,
            f"{line.seconds:.2f}",
            f"{line.processor_s:.2f}",
            "" if line.job == START else f"{rate(rows, line.processor_s):,.0f}",
            f"{line.peak.jvm_bytes / _GB:.2f}",
            f"{line.peak.python_bytes / _GB:.2f}",
            line.found,
        )
    table.add_row(
        "all of it",
        f"{total['seconds']:.2f}",
        f"{total['processor_s']:.2f}",
        f"{rate(rows, total['processor_s']):,.0f}",
        f"{total['peak_jvm_bytes'] / _GB:.2f}",
        f"{total['peak_python_bytes'] / _GB:.2f}",
        "",
        style="bold",
    )
    console.print(table)


def _print_duckdb(console: Console, results: Results) -> None:
    table = _table("One question alone, on Spark and in DuckDB", "group", "question")
    for name in ("rows", "Spark s", "DuckDB s", "ratio", "DuckDB GB"):
        table.add_column(name, justify="right")
    for one in results.duckdb:
        seconds, ratio = spark_seconds(one, results.spark), spark_ratio(one, results.spark)
        table.add_row(
            one.query.group,
            one.query.job,
            f"{one.rows:,}",
            "" if seconds is None else f"{seconds:.2f}",
            f"{one.answer.seconds:.2f}",
            "" if ratio is None else f"{ratio:.1f}",
            f"{one.answer.peak_bytes / _GB:.2f}",
        )
    console.print(table)
