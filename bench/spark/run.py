"""Sizes and groups in; everything measured, one after the other, small sizes first, out.

Each group at each size has a process of its own, so that its memory is its own and a crash loses
nothing else. What a smaller size took says what a larger one will take, for --seconds-max.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.spark import duck, environment
from bench.spark.data import Data, make_journal, make_trace
from bench.spark.duck import Answer
from bench.spark.meter import Budget, Line, Peak
from bench.spark.queries import QUERIES, Query
from bench.spark.worker import Order

SWEEP: Final = "sweep"
DUCKDB: Final = "duckdb"
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is wanted. `jobs` by group; a group that is not there is not run."""

    sizes: Sequence[int]
    jobs: Mapping[str, Sequence[str]]
    folder: Path
    cores: int
    memory_gb: int
    # Why DuckDB cannot be asked; None: nobody wants to.
    no_duckdb: str | None = ""
    sweep_cells: int = 0
    deadline_s: float | None = None


@dataclass(frozen=True)
class Measured:
    """A job of Spark at one size."""

    group: str
    rows: int
    line: Line


@dataclass(frozen=True)
class Asked:
    """A question to DuckDB at one size."""

    query: Query
    rows: int
    answer: Answer


@dataclass
class Results:
    """All that was measured, as it comes; also what was left out, and why."""

    spark: list[Measured] = field(default_factory=list)
    duckdb: list[Asked] = field(default_factory=list)
    sweep: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def expected_s(self, group: str, rows: int) -> dict[str, float]:
        """By job: what it should take with so many rows, as the last size went."""
        if group == DUCKDB:
            told = {one.query.job: (one.answer.seconds, one.rows) for one in self.duckdb}
        else:
            mine = [one for one in self.spark if one.group == group and not one.line.skipped]
            told = {one.line.job: (one.line.seconds, one.rows) for one in mine}
        return {job: seconds * rows / done for job, (seconds, done) in told.items() if done}


def run(plan: Plan, results: Results, say: Say) -> None:
    """Measure everything; `results` has what is there so far, also if this is interrupted."""
    if plan.no_duckdb:
        results.left_out.append(f"DuckDB: {plan.no_duckdb}")
    for size in sorted(plan.sizes):
        data = Data(plan.folder, size)
        for group, jobs in plan.jobs.items():
            why = Budget(deadline_s=plan.deadline_s).refusal(group)
            if why:
                results.left_out.append(f"{group}, {size:,} rows: {why}")
                continue
            say(f"{group}: making {size:,} rows ...")
            rows = make_trace(data) if group == "profile" else make_journal(data)
            _ask_spark(plan, group, jobs, data, rows, results, say)
            if plan.no_duckdb == "":
                _ask_duckdb(plan, group, jobs, data, rows, results, say)
    if plan.sweep_cells:
        _sweep(plan, results, say)


def _ask_spark(
    plan: Plan,
    group: str,
    jobs: Sequence[str],
    data: Data,
    rows: int,
    results: Results,
    say: Say,
) -> None:
    order = Order(
        group,
        str(plan.folder),
        data.rows,
        plan.cores,
        tuple(jobs),
        plan.memory_gb,
        results.expected_s(group, rows),
        plan.deadline_s,
    )
    command = [sys.executable, "-m", "bench.spark.worker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(order.as_json())
        worker.stdin.close()
        for text in worker.stdout:
            line = line_of(json.loads(text))
            if line.skipped:
                results.left_out.append(f"{group}, {rows:,} rows, {line.job}: {line.skipped}")
            else:
                results.spark.append(Measured(group, rows, line))
            say(f"{group}, {rows:,} rows: {line.job}: {line.skipped or f'{line.seconds:.1f} s'}")
    if worker.returncode:
        results.left_out.append(f"{group}, {rows:,} rows: it ended with code {worker.returncode}")


def line_of(told: dict[str, Any]) -> Line:
    """A line as the worker told it."""
    return Line(**{**told, "peak": Peak(**told["peak"])})


def _ask_duckdb(
    plan: Plan,
    group: str,
    jobs: Sequence[str],
    data: Data,
    rows: int,
    results: Results,
    say: Say,
) -> None:
    budget = Budget(results.expected_s(DUCKDB, rows), plan.deadline_s)
    for query in QUERIES:
        if query.group != group or query.job not in jobs:
            continue
        what = f"DuckDB, {rows:,} rows: {query.job}"
        why = budget.refusal(query.job)
        answer = Answer(failed=why) if why else duck.ask(query, data, plan.cores, plan.memory_gb)
        if answer.failed:
            results.left_out.append(f"{what}: {answer.failed}")
        else:
            results.duckdb.append(Asked(query, rows, answer))
        say(f"{what}: {answer.failed or f'{answer.seconds:.1f} s'}")


def _sweep(plan: Plan, results: Results, say: Say) -> None:
    why = Budget(deadline_s=plan.deadline_s).refusal(SWEEP)
    if not why:
        say(f"sweep: {plan.sweep_cells} cells, in a pool and on Spark ...")
        command = [sys.executable, "-m", "bench.spark_sweep", "--cells", str(plan.sweep_cells)]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        # Its exit code says whether the overhead is small enough; the figures say it too.
        try:
            results.sweep = json.loads(done.stdout)
        except json.JSONDecodeError:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            why = lines[-1]
    if why:
        results.left_out.append(f"sweep: {why}")


def duckdb_reason(wanted: bool, say: Say) -> str | None:
    """Have DuckDB installed; why it cannot be, or None if it is not wanted."""
    return environment.prepare(say) if wanted else None
