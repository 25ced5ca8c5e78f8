"""Runs that fit into one task's memory are judged there whole, one after the other, by `check`.

The names of runs go to tasks, which read the journals themselves; verdicts come back. No event goes
through Spark, and nothing is sorted: for small journals that would be most of the cost. A few small
runs are judged by this process, because a task would take longer to start.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.property import Property
from semcast.check.report import chosen
from semcast.check.verdict import EVENTS_MAX, RunVerdict, verdict_on
from semcast.journal import read_journal
from semcast.journal.schema import require_pyarrow
from semcast.pipeline.spark.progress import run_job

_SCHEMA: Final = "verdict binary"


def judge_whole(
    spark: SparkSession,
    folder: Path,
    runs: Mapping[str, int],
    properties: Sequence[Property],
    rest: bool | None,
    shown_max: int,
    here_events_max: int = EVENTS_MAX,
) -> list[RunVerdict]:
    """The verdicts on these runs, given with their numbers of events.

    If they have at most `here_events_max` together, this process judges them.
    """
    names = [one.name for one in properties]
    judge = partial(
        _verdict, folder=str(folder.absolute()), names=names, rest=rest, shown_max=shown_max
    )
    if sum(runs.values()) <= here_events_max:
        return [judge(run) for run in runs]
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions", "32") or "32")
    frame = spark.createDataFrame(list(enumerate(runs)), "number int, run string")
    shared = frame.repartitionById(min(len(runs), tasks), F.col("number"))
    judged = shared.mapInArrow(partial(_judge, judge=judge), _SCHEMA)
    return [pickle.loads(row.verdict) for row in run_job(spark, "judge", judged.collect)]


def _verdict(
    run: str, folder: str, names: Sequence[str], rest: bool | None, shown_max: int
) -> RunVerdict:
    return verdict_on(read_journal(folder, run), chosen(names), rest, shown_max)


def _judge(batches: Iterator[Any], judge: Callable[[str], RunVerdict]) -> Iterator[Any]:
    """What a task does: names of runs in, verdicts out."""
    pyarrow = require_pyarrow()
    for batch in batches:
        for run in batch.column("run").to_pylist():
            column = pyarrow.array([pickle.dumps(judge(run))], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([column], names=["verdict"])
