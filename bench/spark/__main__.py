"""`python -m bench.spark`: verify, analyse and profile millions of rows, beside DuckDB.

    python -m bench.spark --rows 10,50,100 --json spark.json --markdown docs/pipeline/sizing.md
    python -m bench.spark --rows 5 --only verify,latency --data DIR
    python -m bench.spark --only sweep --add spark.json --markdown docs/pipeline/sizing.md

Tables and progress go to stderr, JSON to stdout.
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.spark import environment
from bench.spark.before import read_before, with_before
from bench.spark.jobs import JOBS
from bench.spark.page import markdown, write_page
from bench.spark.run import DUCKDB, SWEEP, Plan, Results, duckdb_reason, run
from bench.spark.show import as_object, show
from semcast.errors import SemcastError
from semcast.pipeline.spark.conf import driver_memory_gb

_WIDTH: Final = 130
_MILLION: Final = 1_000_000
_ROWS_MIN: Final = 2_000
_ROWS_MAX: Final = 2_000 * _MILLION
_CELLS_MAX: Final = 10_000


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.spark", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--rows", default="50", help="millions, with commas, as in 10,50,100 or 0.5 [50]")
    add("--only", default="", help=f"groups or jobs, with commas; groups: {', '.join(_groups())}")
    add("--cores", type=int, default=2, help="of Spark and of DuckDB [2]")
    add("--memory-gb", type=int, default=driver_memory_gb(), help="of the JVM, and of DuckDB")
    add("--cells", type=int, default=32, help="of the sweep, of more than a second each [32]")
    add("--data", type=Path, help="keep the data here, and use again what is there")
    add("--seconds-max", type=float, help="leave out what does not fit into this time, and say so")
    add("--json", type=Path, help="save the JSON here too")
    add("--add", type=Path, help="put the results in this JSON, of an earlier run, to the new ones")
    add("--markdown", type=Path, help="write the tables of docs/pipeline/sizing.md there")
    add("--no-duckdb", action="store_true", help="ask Spark only, and install nothing")
    chosen = parser.parse_args(words)
    try:
        chosen.sizes = _sizes(chosen.rows)
        chosen.jobs = _jobs(chosen.only)
        chosen.before = read_before(chosen.add) if chosen.add else None
    except ValueError as error:
        parser.error(str(error))
    if not 1 <= chosen.cores <= (os.cpu_count() or 1):
        parser.error(f"--cores is {chosen.cores}; this machine has {os.cpu_count()}")
    if chosen.memory_gb < 1:
        parser.error(f"--memory-gb is {chosen.memory_gb}; give at least 1")
    if not 2 <= chosen.cells <= _CELLS_MAX:
        parser.error(f"--cells is {chosen.cells}; choose 2 to {_CELLS_MAX}")
    if chosen.seconds_max is not None and chosen.seconds_max <= 0:
        parser.error(f"--seconds-max is {chosen.seconds_max:g}; give more than 0")
    return chosen


def _groups() -> list[str]:
    return [*JOBS, DUCKDB, SWEEP]


def _sizes(text: str) -> list[int]:
    sizes = []
    for word in text.split(","):
        try:
            rows = round(float(word) * _MILLION)
        except (ValueError, OverflowError):
            raise ValueError(f"--rows {word!r} is no number of millions") from None
        if not _ROWS_MIN <= rows <= _ROWS_MAX:
            raise ValueError(f"--rows {word} million is not from {_ROWS_MIN:,} to {_ROWS_MAX:,}")
        sizes.append(rows)
    return sorted(set(sizes))


def _jobs(text: str) -> dict[str, list[str]]:
    """By group: the jobs that are wanted; `duckdb` and `sweep` have none of their own.

    DuckDB is asked beside those jobs, unless others are named and it is not.
    """
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    names = [*_groups(), *(job.lower() for jobs in JOBS.values() for job in jobs)]
    for word in words:
        if word not in names:
            raise ValueError(
                f"--only {word!r} is no group and no job; there are: {', '.join(names)}"
            )
    words = words or _groups()
    found = {
        group: [job for job in jobs if group in words or job.lower() in words]
        for group, jobs in JOBS.items()
    }
    kept = {group: jobs for group, jobs in found.items() if jobs}
    return kept | {group: [] for group in (DUCKDB, SWEEP) if group in words}


def _about(duckdb: bool) -> dict[str, Any]:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "niceness": os.nice(0),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {
            "semcast": version("semcast"),
            "pyspark": version("pyspark"),
            "duckdb": environment.version() if duckdb else None,
        },
    }


def main(words: list[str] | None = None) -> int:
    chosen = _arguments(words)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH)
    started_s = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - started_s:6.0f} s  {text}", markup=False)

    asks = DUCKDB in chosen.jobs and not chosen.no_duckdb
    no_duckdb = duckdb_reason(asks, say)
    results = Results()
    with contextlib.ExitStack() as stack:
        folder = chosen.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(
            chosen.sizes,
            {group: jobs for group, jobs in chosen.jobs.items() if jobs},
            folder.resolve(),
            chosen.cores,
            chosen.memory_gb,
            no_duckdb,
            chosen.cells if SWEEP in chosen.jobs else 0,
            None if chosen.seconds_max is None else started_s + chosen.seconds_max,
        )
        about = _about(no_duckdb == "")
        try:
            run(plan, results, say)
        except KeyboardInterrupt:
            # Whoever has waited long enough still gets what was measured so far.
            results.left_out.append("everything else: interrupted")
        except (SemcastError, OSError) as error:
            print(f"bench.spark: {error}", file=sys.stderr)
            return 1
    if chosen.before:
        load_before = chosen.before["machine"]["load_before"]
        if results.spark or results.duckdb or results.sweep:
            load_before = max(load_before, about["machine"]["load_before"])
        about["machine"]["load_before"] = load_before
        results = with_before(results, chosen.before)
    show(console, plan, results)
    text = json.dumps(as_object(plan, results, about), indent=2)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    if chosen.markdown:
        write_page(chosen.markdown, markdown(plan, results, about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
