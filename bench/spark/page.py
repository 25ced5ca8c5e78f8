"""Results in; the tables of docs/pipeline/sizing.md out, between the marks that the page has.

Nothing is typed by hand: `python -m bench.spark … --markdown docs/pipeline/sizing.md`. A file
without marks is written anew.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.page import mark_of, write_between
from bench.spark.meter import Line
from bench.spark.run import Measured, Plan, Results
from bench.spark.show import growth, rate, spark_ratio, spark_seconds, totals
from bench.spark.worker import START

BEGIN: Final = mark_of("python -m bench.spark --markdown")
_GB: Final = 1e9
_BUSY_LOAD: Final = 0.5
# Of processor time at the largest size: how a job grows that takes less is noise.
_GROWTH_S_MIN: Final = 5.0


def write_page(path: Path, text: str) -> None:
    """Put the text between the marks, or into a file of its own."""
    write_between(path, BEGIN, text)


def markdown(plan: Plan, results: Results, about: dict[str, Any]) -> str:
    """All tables, with a sentence on where they come from."""
    parts = [_where(plan, results, about), _jobs(results), _wholes(results)]
    if results.duckdb:
        parts += ["### Beside DuckDB", _duckdb(results)]
    if len(_sizes(results)) > 1:
        parts += ["### Time against rows", _growth(results)]
    if results.sweep:
        parts += ["### A sweep", _sweep(results.sweep)]
    left_out = [*results.left_out, *_gaps(results)]
    if left_out:
        parts.append("Left out: " + "; ".join(left_out) + ".")
    return "\n\n".join(parts)


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _sizes(results: Results) -> list[int]:
    """As they were asked for: rounded, because a journal has a few rows less than that."""
    return sorted({_asked(one.rows) for one in results.spark})


def _asked(rows: int) -> int:
    digits: int = 10 ** max(0, len(str(rows)) - 1)
    return round(rows / digits * 2) * digits // 2


def _where(plan: Plan, results: Results, about: dict[str, Any]) -> str:
    machine, versions = about["machine"], about["versions"]
    busy = machine["load_before"] > _BUSY_LOAD or machine["niceness"] > 0
    sizes = ", ".join(f"{rows:,}" for rows in _sizes(results))
    quiet = (
        "**The machine was busy with other work** (load "
        f"{machine['load_before']:.1f} before, niceness {machine['niceness']}): do not plan with "
        "the seconds; the processor time is nearer to the truth."
        if busy
        else "The machine had nothing else to do."
    )
    return (
        f"{sizes} rows (journals: a few less) on {plan.cores} cores, a JVM of "
        f"{plan.memory_gb} GB; Spark {versions['pyspark']}, Python {machine['python']}. {quiet}"
    )


def _jobs(results: Results) -> str:
    """Every job at the largest size; the seconds of the other sizes beside it."""
    sizes = _sizes(results)
    if not sizes:
        return "Nothing was measured."
    known = {(one.group, one.line.job, _asked(one.rows)): one.line for one in results.spark}
    order = dict.fromkeys(
        (one.group, one.line.job) for one in results.spark if one.line.job != START
    )
    rows = []
    for group, job in order:
        there = [known.get((group, job, size)) for size in sizes]
        line = next((one for one in reversed(there) if one is not None), None)
        if line is None:
            continue
        size = max(rows for name, what, rows in known if (name, what) == (group, job))
        rows.append(
            [
                group,
                f"shared: {job}" if line.shared else job,
                *("" if one is None else f"{one.seconds:.1f}" for one in there),
                f"{line.processor_s:.0f}",
                f"{rate(size, line.processor_s):,.0f}",
                f"{line.peak.jvm_bytes / _GB:.1f}",
                f"{line.peak.python_bytes / _GB:.1f}",
            ]
        )
    heading = ["command", "job", *(f"{_millions(size)}, s" for size in sizes)]
    return _table([*heading, "processor s", "rows/s/core", "JVM, GB", "Python, GB"], rows)


def _millions(rows: int) -> str:
    return f"{rows / 1e6:.3g} million"


def _wholes(results: Results) -> str:
    names = _names(results)
    rows = [
        [
            f"**{one['group']}**{_only(names, one['group'], one['rows'])}",
            f"{one['rows']:,}",
            f"{one['seconds']:.0f}",
            f"{one['processor_s']:.0f}",
            f"{one['processor_s'] / one['rows'] * 1e6:.1f}",
            f"{one['peak_jvm_bytes'] / _GB:.1f}",
            f"{one['peak_python_bytes'] / _GB:.1f}",
        ]
        for one in totals(results.spark)
    ]
    heading = ["all of", "rows", "s", "processor s", "t: processor s per million rows"]
    return _table([*heading, "JVM, GB", "Python, GB"], rows)


def _names(results: Results) -> dict[tuple[str, int], tuple[str, ...]]:
    """By command and rows: its jobs."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for one in results.spark:
        if one.line.job != START:
            found[one.group, one.rows] = (*found.get((one.group, one.rows), ()), one.line.job)
    return found


def _only(names: dict[tuple[str, int], tuple[str, ...]], group: str, rows: int) -> str:
    """What a sum is of, where other sizes have more jobs of the command."""
    mine = names.get((group, rows), ())
    most = max(len(jobs) for (name, _), jobs in names.items() if name == group)
    return f", only {', '.join(mine)}" if len(mine) < most else ""


def _duckdb(results: Results) -> str:
    rows = []
    for one in results.duckdb:
        seconds, ratio = spark_seconds(one, results.spark), spark_ratio(one, results.spark)
        rows.append(
            [
                one.query.job,
                f"{one.rows:,}",
                "" if seconds is None else f"{seconds:.1f}",
                f"{one.answer.seconds:.2f}",
                "" if ratio is None else f"{ratio:.0f}",
            ]
        )
    return _table(["question", "rows", "Spark, s", "DuckDB, s", "ratio"], rows)


def _growth(results: Results) -> str:
    """Each command as a whole, and its longer jobs; two columns for each size but the first."""
    spark = [*_whole_commands(results), *results.spark]
    long = {(one.group, one.line.job) for one in spark if one.line.processor_s >= _GROWTH_S_MIN}
    grown = growth([one for one in spark if (one.group, one.line.job) in long])
    sizes = _sizes(results)[1:]
    known = {(one["group"], one["job"], _asked(one["rows"])): one for one in grown}
    groups = list(dict.fromkeys(one.group for one in results.spark))
    names = dict.fromkeys((one["group"], one["job"]) for one in grown)
    rows = []
    for group, job in sorted(names, key=lambda name: groups.index(name[0])):
        there = [known.get((group, job, size)) for size in sizes]
        ratios = [
            "" if one is None else f"{one[name]:.2f}"
            for one in there
            for name in ("per_row_ratio", "processor_per_row_ratio")
        ]
        rows.append([group, job, *ratios])
    heading = [
        f"{_millions(size)}, {what}" for size in sizes for what in ("time", "processor time")
    ]
    return _table(["command", "job", *heading], rows)


def _whole_commands(results: Results) -> list[Measured]:
    """All jobs of a command as one, where every size has the same jobs."""
    jobs = _names(results)
    whole = []
    for total in totals(results.spark):
        mine = [set(names) for (group, _), names in jobs.items() if group == total["group"]]
        if all(names == mine[0] for names in mine):
            line = Line("**all of it**", seconds=total["seconds"], processor_s=total["processor_s"])
            whole.append(Measured(total["group"], total["rows"], line))
    return whole


def _gaps(results: Results) -> list[str]:
    """What was measured at one size and not at another."""
    sizes = _sizes(results)
    there = {(one.group, one.line.job, _asked(one.rows)) for one in results.spark}
    return [
        f"{job} at {_millions(size)}"
        for group, job in dict.fromkeys((group, job) for group, job, _ in sorted(there))
        for size in sizes
        if (group, job, size) not in there
    ]


def _sweep(found: dict[str, Any]) -> str:
    return (
        f"{found['cells']} cells of {found['cell_mean_s']:.2f} s on {found['cores']} cores: "
        f"{found['spark_s']:.1f} s on Spark, {found['pool_s']:.1f} s in a process pool, "
        f"{found['overhead']:+.1%} (at most {found['overhead_max']:.0%} is wanted); the session "
        f"was up after {found['spark_start_s']:.1f} s, which is not counted."
    )
