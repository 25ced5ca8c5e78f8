"""Runs that fit into one task's memory: judged there whole, one after the other, by `check`.

The names of runs go to tasks, which read the journals themselves; verdicts come back. No event goes
through Spark, and nothing is sorted: for small journals that is most of what verifying them costs.
"""

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from semcast.check.property import Property
from semcast.check.report import chosen
from semcast.check.verdict import RunVerdict, verdict_on
from semcast.journal import read_journal
from semcast.journal.schema import require_pyarrow
from semcast.pipeline.spark.progress import run_job

_SCHEMA: Final = "verdict binary"


def judge_whole(
    spark: SparkSession,
    folder: Path,
    runs: Sequence[str],
    properties: Sequence[Property],
    rest: bool | None,
    shown_max: int,
) -> list[RunVerdict]:
    """The verdicts on these runs."""
    if not runs:
        return []
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions", "32") or "32")
    names = spark.createDataFrame([(run,) for run in runs], "run string")
    if len(runs) > 1:
        names = names.repartition(min(len(runs), tasks))
    work = partial(
        _judge,
        folder=str(folder.absolute()),
        properties=[one.name for one in properties],
        rest=rest,
        shown_max=shown_max,
    )
    rows = run_job(spark, "judge", names.mapInArrow(work, _SCHEMA).collect)
    return [pickle.loads(row.verdict) for row in rows]


def _judge(
    batches: Iterator[Any], folder: str, properties: list[str], rest: bool | None, shown_max: int
) -> Iterator[Any]:
    pyarrow = require_pyarrow()
    for batch in batches:
        for run in batch.column("run").to_pylist():
            verdict = verdict_on(read_journal(folder, run), chosen(properties), rest, shown_max)
            told = pyarrow.array([pickle.dumps(verdict)], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([told], names=["verdict"])
