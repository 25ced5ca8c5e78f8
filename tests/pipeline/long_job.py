"""A command that takes for ever: `python -m tests.pipeline.long_job FOLDER MASTER [CONF…]`.

Its tasks leave files named `started-…` in the folder and run until the process is interrupted. Says
on stdout how many jobs were left then, and exits as a command of semcast does.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import SparkContext

from semcast.cli._errors import exit_code_of
from semcast.cli._spark import spark_session
from semcast.pipeline.spark.progress import run_job

TASK_S_MAX: Final = 600.0


def main(folder: str, master: str, *conf: str) -> None:
    def stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (Path(folder) / f"started-{time.monotonic_ns()}").touch()
            deadline = time.monotonic() + TASK_S_MAX
            while time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    with spark_session("test", master, conf) as spark:
        frame = spark.range(0, 2, 1, 2).mapInArrow(stay, "id long")
        try:
            run_job(spark, "stay", frame.count)
        finally:
            context = SparkContext._active_spark_context
            assert context is not None
            print("jobs left:", len(context.statusTracker().getActiveJobsIds()))


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: main(*sys.argv[1:])))
