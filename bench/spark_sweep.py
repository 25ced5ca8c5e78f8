"""`python -m bench.spark_sweep`: what Spark costs a sweep, against a plain process pool.

The same cells, of a second and more each, run in a pool of as many processes as there are cores
and as a sweep on Spark with its results in Parquet, in turns. Every row must be the same in both.
The best of the rounds counts. Processes are started and have run a few cells before the clock
starts, in both; how long Spark's session took is told on its own. There are as many cells for each
core, so that none has one more than another. JSON goes to standard output, a table to standard
error.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from semcast.pipeline.spark.session import open_session
from semcast.pipeline.sweeping.cells import Cell, cells_of
from semcast.pipeline.sweeping.grid import points_of
from semcast.pipeline.sweeping.run import Folder, results_of, run_sweep
from semcast.pipeline.sweeping.simulate import simulate

SCENARIO = Path(__file__).resolve().parent.parent / "examples/scenarios/fig5-purging.toml"
OVERHEAD_MAX = 0.15


def cells(count: int, duration_s: float) -> list[Cell]:
    """So many cells of about the same length."""
    points = points_of(SCENARIO, f"duration_s={duration_s:g} warm_up_s=1")[1]
    return cells_of(points, range(1, count + 1))


def warm_up(cores: int) -> list[Cell]:
    """A few short ones for each core."""
    return cells(4 * cores, 1.5)


def timed_pool(wanted: list[Cell], cores: int) -> tuple[float, dict[str, object], float]:
    """Seconds, a measure by cell, and the mean time of a cell."""
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork")) as pool:
        list(pool.map(simulate, warm_up(cores)))
        started_s = time.perf_counter()
        rows = list(pool.map(simulate, wanted))
        took_s = time.perf_counter() - started_s
    times = [row["took_s"] for row in rows]
    mean_s = sum(one for one in times if isinstance(one, float)) / len(times)
    return took_s, {str(row["cell"]): row["purged_share"] for row in rows}, mean_s


def timed_spark(spark: SparkSession, wanted: list[Cell]) -> tuple[float, dict[str, object]]:
    """Seconds, and a measure by cell."""
    with tempfile.TemporaryDirectory() as folder:
        started_s = time.perf_counter()
        run_sweep(spark, wanted, Folder(Path(folder)))
        took_s = time.perf_counter() - started_s
        rows = results_of(spark, Folder(Path(folder)), wanted).collect()
        return took_s, {row.cell: row.purged_share for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time a sweep on Spark against a process pool.")
    parser.add_argument("--cells", type=int, default=32)
    parser.add_argument("--duration-s", type=float, default=1_200.0, help="virtual, of each cell")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    wanted = cells(max(1, round(options.cells / cores)) * cores, options.duration_s)
    # Before the JVM is there: a forked pool must not inherit its threads.
    rounds = [timed_pool(wanted, cores)]
    started_s = time.perf_counter()
    spark = open_session("bench", f"local[{cores}]")
    timed_spark(spark, warm_up(cores))
    start_s = time.perf_counter() - started_s
    sparks = []
    for at in range(options.rounds):
        sparks.append(timed_spark(spark, wanted))
        if at + 1 < options.rounds:
            rounds.append(timed_pool(wanted, cores))
    spark.stop()
    same = all(found == rounds[0][1] for _, found in sparks)
    pool_s, spark_s = min(one[0] for one in rounds), min(one[0] for one in sparks)
    result: dict[str, object] = {
        "cells": len(wanted),
        "cores": cores,
        "cell_mean_s": min(one[2] for one in rounds),
        "pool_s": pool_s,
        "spark_s": spark_s,
        "spark_start_s": start_s,
        "overhead": spark_s / pool_s - 1,
        "overhead_max": OVERHEAD_MAX,
        "same_results": same,
    }
    print(json.dumps(result, indent=2))
    _show(result)
    return 0 if same and spark_s / pool_s - 1 <= OVERHEAD_MAX else 1


def _show(result: dict[str, object]) -> None:
    table = Table(title="A sweep on Spark and in a process pool")
    table.add_column("")
    table.add_column("value", justify="right")
    for name, value in result.items():
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    Console(stderr=True).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
