"""Logs that were never finished: Arrow streams in, Parquet files of the same rows out.

One task for each file reads batch by batch, as far as the log goes, so that no file needs to fit
into memory. The Parquet files are kept below the journal's folder, in `.ingested/`, and made again
only when a log has grown. This file knows nothing of what the events mean.
"""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from semcast.errors import InputError
from semcast.journal.growing_log import finished, require_ipc
from semcast.journal.schema import NEVER_NULL
from semcast.pipeline.spark.progress import run_job

FOLDER: Final = ".ingested"
# What became of a log: where it is now, and what is wrong with it.
_CONVERTED: Final = "source string, target string, rows long, fault string"
_ROWS_PER_GROUP: Final = 1 << 17
_TASKS_MAX: Final = 32


class LogFinishedError(Exception):
    """A log was finished, and is gone, since it was found: look again."""


def as_parquet(spark: SparkSession, journal: Path, streams: list[Path]) -> tuple[Path, list[Path]]:
    """The folder of the converted files, and the files; folders in it are named as the runs'.

    Raises `LogFinishedError` if a log was finished meanwhile.
    """
    base = journal / FOLDER
    targets = {stream: _target(base, stream) for stream in streams}
    missing = [(str(one), str(to)) for one, to in targets.items() if not to.exists()]
    if missing:
        tasks = spark.createDataFrame(missing, "source string, target string")
        made = convert(tasks.repartition(min(len(missing), _TASKS_MAX)))
        for row in run_job(spark, "logs of lives", made.collect):
            if row.fault:
                _require_unfinished(Path(row.source))
                raise InputError(f"{row.source}: {row.fault}")
    return base, list(targets.values())


def convert(tasks: DataFrame) -> DataFrame:
    """Stage: rows of source and target in, one row on each file written out (`_CONVERTED`)."""
    return tasks.mapInArrow(_convert_all, _CONVERTED)


def _target(base: Path, stream: Path) -> Path:
    # The size is part of the name, so that a log that has grown is converted again.
    try:
        size = stream.stat().st_size
    except OSError as error:
        _require_unfinished(stream)
        raise InputError(f"{stream}: it was there, and is gone ({error.strerror})") from error
    return base / stream.parent.name / f"{stream.stem}-{size}.parquet"


def _require_unfinished(stream: Path) -> None:
    if finished(stream) is not None:
        raise LogFinishedError


def _convert_all(batches: Iterator[Any]) -> Iterator[Any]:
    arrow = require_ipc()
    for batch in batches:
        for row in batch.to_pylist():
            rows, fault = _convert(arrow, Path(row["source"]), Path(row["target"]))
            result = {**row, "rows": rows, "fault": fault}
            yield arrow.RecordBatch.from_pylist(
                [result],
                arrow.schema(
                    [
                        ("source", "string"),
                        ("target", "string"),
                        ("rows", "int64"),
                        ("fault", "string"),
                    ]
                ),
            )


def _convert(arrow: Any, source: Path, target: Path) -> tuple[int, str]:
    """Convert one log; returns how many rows were written, or what is wrong with them."""
    # The name is unique, because two commands may read the same journal at the same time.
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.unfinished")
    rows = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            arrow.OSFile(str(source)) as file,
            arrow.ipc.open_stream(file) as stream,
            arrow.parquet.ParquetWriter(unfinished, stream.schema, compression="zstd") as writer,
        ):
            for table in _tables(arrow, stream):
                for name in NEVER_NULL:
                    if table[name].null_count:
                        return 0, f"{table[name].null_count} events have no {name!r}"
                writer.write_table(table)
                rows += len(table)
        unfinished.replace(target)
    except (arrow.ArrowException, OSError) as error:
        return 0, f"cannot be made into Parquet: {str(error).partition(chr(10))[0]}"
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return rows, ""


def _tables(arrow: Any, stream: Any) -> Iterator[Any]:
    """The whole batches of a log, as many together as make a good row group."""
    held: list[Any] = []
    rows = 0
    while True:
        try:
            batch = stream.read_next_batch()
            batch.validate(full=True)
        except (StopIteration, arrow.ArrowException, OSError):
            break  # the end, or where its writer was killed
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_PER_GROUP:
            yield arrow.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield arrow.Table.from_batches(held)
