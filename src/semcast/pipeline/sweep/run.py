"""A whole sweep: cells and a folder in, results as Parquet in that folder out.

Cells go to Spark in chunks, and what a chunk computed is committed when it ends: interrupted,
killed or out of power, a sweep loses a chunk at most, and the next one begins where it was. Each
task gets cells for a second or two, as the cells before them took, because a task costs about
75 ms of its own whatever it does.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)

from semcast.errors import InputError
from semcast.journal import runs_in
from semcast.pipeline.progress import run_job
from semcast.pipeline.sweep.cells import Cell
from semcast.pipeline.sweep.stages import CELLS, RESULTS, missing, row_of, settled, simulated

TASK_S: Final = 1.5
CELLS_PER_TASK_MAX: Final = 1000
TASKS_PER_CORE: Final = 16  # in a chunk: what its last tasks leave idle is then little
CORES_UNKNOWN: Final = 8
RESULTS_FOLDER: Final = "results"
JOURNALS_FOLDER: Final = "journals"


class Watcher(Protocol):
    """Is told how many cells are done, of how many, after each chunk."""

    def __call__(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Folder:
    """Where a sweep keeps what it found."""

    path: Path

    @property
    def results(self) -> Path:
        return self.path / RESULTS_FOLDER

    @property
    def journals(self) -> Path:
        return self.path / JOURNALS_FOLDER

    def prepare(self) -> None:
        """Make the folders, or say why not."""
        try:
            self.results.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror}") from error


def results_in(spark: SparkSession, folder: Folder) -> DataFrame:
    """`RESULTS`: all that is stored there, also of other sweeps into the same folder."""
    reader = spark.read.schema(RESULTS).option("recursiveFileLookup", True)
    return reader.parquet(str(folder.results.resolve()))


def results_of(spark: SparkSession, folder: Folder, cells: Sequence[Cell]) -> DataFrame:
    """The results of these cells, each once and in order."""
    wanted = spark.createDataFrame([(cell.cell,) for cell in cells], "cell string")
    return settled(results_in(spark, folder).join(F.broadcast(wanted), "cell", "left_semi"))


def run_sweep(
    spark: SparkSession,
    cells: Sequence[Cell],
    folder: Folder,
    journals: bool = False,
    watch: Watcher | None = None,
) -> int:
    """Run the cells that have no result yet; returns how many those were."""
    folder.prepare()
    left = _left(spark, cells, folder, journals)
    where = folder.journals.resolve() if journals else None

    def store(results: DataFrame) -> None:
        # A folder for each chunk: jobs that append to one folder at once take away each other's
        # unfinished files.
        results.write.parquet(str(folder.results.resolve() / uuid.uuid4().hex))

    run_cells(spark, left, store, where, watch)
    return len(left)


def run_cells(
    spark: SparkSession,
    cells: Sequence[Cell],
    store: Callable[[DataFrame], None],
    journals: Path | None = None,
    watch: Watcher | None = None,
) -> None:
    """Simulate the cells, chunk by chunk; `store` gets the results of each as a DataFrame."""
    # Names are digests, so this order mixes quick and slow points: all tasks take about as long.
    ordered = sorted(cells, key=lambda cell: cell.cell)
    cores = cores_of(spark)
    done, per_task, chunk = 0, 1, 2 * cores
    while done < len(ordered):
        part = ordered[done : done + chunk]
        label = f"cells {done + 1} to {done + len(part)} of {len(ordered)}"
        took_s = _run_chunk(spark, part, per_task, store, journals, label)
        done += len(part)
        if watch is not None:
            watch(done, len(ordered))
        per_task = max(1, min(CELLS_PER_TASK_MAX, round(TASK_S / max(took_s, 1e-6))))
        chunk = per_task * cores * TASKS_PER_CORE


def _run_chunk(
    spark: SparkSession,
    cells: Sequence[Cell],
    per_task: int,
    store: Callable[[DataFrame], None],
    journals: Path | None,
    label: str,
) -> float:
    """Run one job; returns how long a cell took in the mean."""
    rows = [row_of(cell, at // per_task) for at, cell in enumerate(cells)]
    tasks = (len(rows) + per_task - 1) // per_task
    times = Observation()
    results = simulated(spark.createDataFrame(rows, CELLS), tasks, journals)
    watched = results.observe(times, F.avg("took_s").alias("took_s"))
    run_job(spark, label, lambda: store(watched))
    return float(times.get["took_s"])


def _left(spark: SparkSession, cells: Sequence[Cell], folder: Folder, journals: bool) -> list[Cell]:
    """The cells to run: those without a result or, if journals are wanted, without a journal."""
    names = spark.createDataFrame([(cell.cell,) for cell in cells], "cell string")
    left = missing(names, results_in(spark, folder))
    found = {row["cell"] for row in run_job(spark, "looking for results", left.collect)}
    if journals:
        found |= {cell.cell for cell in cells} - set(runs_in(folder.journals))
    return [cell for cell in cells if cell.cell in found]


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at once, as far as the session says."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context, and says so in its own ways
        return CORES_UNKNOWN
