"""Actions of Spark on a user's files in; what is wrong with the files out, as one line of ours."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from semcast.errors import InputError, PipelineError
from semcast.pipeline.spark.progress import run_job

T = TypeVar("T")
_GZIP: Final = re.compile(r"EOFException|ZipException|gzip|inflate", re.IGNORECASE)


def run_on_files(
    spark: SparkSession, label: str, files: Sequence[Path], action: Callable[[], T]
) -> T:
    """Like `run_job`, but a file that is not what its name says becomes an InputError."""
    about = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    try:
        return run_job(spark, f"{label} {about}", action)
    except PipelineError as error:
        packed = any(path.suffix == ".gz" for path in files)
        if packed and _GZIP.search(f"{error} {error.__cause__}"):
            raise InputError(f"{about}: damaged gzip; get the file again") from error
        raise
