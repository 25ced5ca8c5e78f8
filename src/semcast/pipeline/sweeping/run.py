"""A whole sweep: cells and a folder in, results as Parquet in that folder out.

Cells go to Spark in chunks, two at a time, so that no core waits for the last task of a chunk. What
a chunk computed comes back and is written as one file when it ends: interrupted, killed or out of
power, a sweep loses two chunks at most, and the next one begins where it was. A chunk is work for
eight seconds, as the cells before took, or one cell for each core if that is more. Each task gets
cells for a second, because a task costs some time of its own.
"""

import math
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)

from semcast.errors import InputError
from semcast.journal import runs_in
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.sweeping.cells import Cell
from semcast.pipeline.sweeping.simulate import ERROR
from semcast.pipeline.sweeping.stages import RESULTS, settled, simulated

TASK_S: Final = 1.0
CELLS_PER_TASK_MAX: Final = 1000
CHUNK_S: Final = 8.0
# This holds for the first chunks, before it is known how long a cell takes.
TASKS_PER_CORE_FIRST: Final = 2
CHUNKS_AT_ONCE: Final = 2
CORES_UNKNOWN: Final = 8
RESULTS_FOLDER: Final = "results"
JOURNALS_FOLDER: Final = "journals"


class Watcher(Protocol):
    """Is called with how many cells are done, of how many, after each chunk."""

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
    left = run_job(spark, "looking for results", lambda: cells_left(cells, folder, journals))
    where = folder.journals.resolve() if journals else None

    def store(results: Any) -> None:
        name = uuid.uuid4().hex
        # Spark, and whoever looks for results, passes over names that begin with a dot.
        unfinished = folder.results / f".{name}.unfinished"
        pq.write_table(results, unfinished)
        unfinished.replace(folder.results / f"{name}.parquet")

    run_cells(spark, left, store, where, watch)
    return len(left)


def run_cells(
    spark: SparkSession,
    cells: Sequence[Cell],
    store: Callable[[Any], None],
    journals: Path | None = None,
    watch: Watcher | None = None,
) -> None:
    """Simulate the cells, chunk by chunk; `store` gets the results of each as an Arrow table.

    It is called by one thread at a time.
    """
    if cells:
        chunks = _Chunks(spark, cells, store, journals, watch)
        run_job(spark, f"{len(cells)} cells", chunks.run, tasks_to_come=chunks.tasks_to_come)


class _Chunks:
    """The chunks of one sweep. Each thread takes one after the other, until none is left."""

    def __init__(
        self,
        spark: SparkSession,
        cells: Sequence[Cell],
        store: Callable[[Any], None],
        journals: Path | None,
        watch: Watcher | None,
    ) -> None:
        self._spark: Final = spark
        # Names are digests, so this order mixes quick and slow points: tasks take about as long.
        self._cells: Final = sorted(cells, key=lambda cell: cell.cell)
        self._store: Final = store
        self._journals: Final = journals
        self._watch: Final = watch
        self._lock: Final = threading.Lock()
        self._taken = 0
        self._done = 0
        # How long a cell took in the last chunk.
        self._cell_s: float | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run all of them; the first error is raised when everything has stopped."""
        threads = [
            InheritableThread(target=self._work, session=self._spark, daemon=True)
            for _ in range(CHUNKS_AT_ONCE)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def tasks_to_come(self) -> int:
        """How many tasks the cells will make that nobody has taken yet."""
        left = len(self._cells) - self._taken
        return math.ceil(left / task_sizes(self._cell_s, left, cores_of(self._spark))[0])

    def _work(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._keep(self._run_chunk(*taken))
        except BaseException as error:  # it is raised again where the sweep was asked for
            with self._lock:
                self._error = self._error or error

    def _take(self) -> tuple[Sequence[Cell], int] | None:
        """The next cells, and how many of them make a task; None if there are no more."""
        with self._lock:
            left = len(self._cells) - self._taken
            if not left or self._error is not None:
                return None
            cores = cores_of(self._spark)  # again each time: machines of a cluster come and go
            per_task, per_core = task_sizes(self._cell_s, left, cores)
            part = self._cells[self._taken : self._taken + per_task * per_core * cores]
            self._taken += len(part)
            return part, per_task

    def _run_chunk(self, cells: Sequence[Cell], per_task: int) -> Any:
        """The results of these cells, as a table."""
        tasks = [cells[at : at + per_task] for at in range(0, len(cells), per_task)]
        return simulated(self._spark, tasks, self._journals).toArrow()

    def _keep(self, results: Any) -> None:
        with self._lock:
            self._store(results)
            self._done += results.num_rows
            self._cell_s = sum(results["took_s"].to_pylist()) / max(1, results.num_rows)
            if self._watch is not None:
                self._watch(self._done, len(self._cells))


def task_sizes(cell_s: float | None, left: int, cores: int) -> tuple[int, int]:
    """How many cells make a task, and how many tasks each core gets in a chunk."""
    if cell_s is None:
        return 1, TASKS_PER_CORE_FIRST
    cell_s = max(cell_s, 1e-6)
    # In the end tasks are small, so that all cores end together.
    per_task = max(1, min(round(TASK_S / cell_s), CELLS_PER_TASK_MAX, left // (4 * cores)))
    return per_task, max(1, min(round(CHUNK_S / (cell_s * per_task)), round(CHUNK_S / TASK_S)))


def cells_left(cells: Sequence[Cell], folder: Folder, journals: bool) -> list[Cell]:
    """The cells to run: those without a result or, if journals are wanted, without a journal.

    A cell that failed, for want of a file or of memory, counts as one without. A violation is a
    result: the same cell would break the same promise again. Spark is not asked, because a job
    takes longer than reading the files here.
    """
    done = _done(folder)
    if journals:
        done &= set(runs_in(folder.journals))
    return [cell for cell in cells if cell.cell not in done]


def _done(folder: Folder) -> set[str]:
    files = [
        str(path) for path in folder.results.rglob("*.parquet") if not path.name.startswith(".")
    ]
    schema = pa.schema([("cell", pa.string()), ("status", pa.string())])
    try:
        found = ds.dataset(files, schema, format="parquet").to_table(
            ["cell"], filter=ds.field("status") != ERROR
        )
    except (pa.ArrowException, OSError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(f"{folder.results}: a file there cannot be read ({line})") from error
    return set(found["cell"].to_pylist())


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at once, as far as the session says."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context, and says so in its own ways
        return CORES_UNKNOWN
