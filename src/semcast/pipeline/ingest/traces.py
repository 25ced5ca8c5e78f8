"""Trace files in; a lake with their rows, and a report on each file, out. A file is added once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.pipeline.ingest.ingested import read_trace_rows
from semcast.pipeline.ingest.inputs import TraceFile, TraceOptions
from semcast.pipeline.ingest.lake import Lake, identity_of
from semcast.pipeline.ingest.number import (
    BEFORE_SCHEMA,
    PLACES_SCHEMA,
    STAGED_SCHEMA,
    block_counts,
    number,
    number_in_blocks,
    rejected,
    sender_offsets,
)
from semcast.pipeline.ingest.paths import to_read, to_write
from semcast.pipeline.ingest.read import read_rows
from semcast.pipeline.ingest.trouble import run_on_files

# So many files are read together. Fewer would make many jobs; more would lose much if killed.
_FILES_PER_JOB: Final = 64
# Senders of blocks, in all, that are held in memory by every task; some hundred megabytes.
_OFFSETS_MAX: Final = 2_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class FileReport:
    """What became of one input file."""

    path: Path
    trace: str
    source: str
    # False: it was there already, and nothing was done.
    added: bool
    rows: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    # Rows that have a time before that of the row above; they keep their place.
    times_back: int = 0


def ingest_traces(
    spark: SparkSession,
    files: Sequence[TraceFile],
    out: str | Path,
    options: TraceOptions | None = None,
    trace: str | None = None,
) -> list[FileReport]:
    """Put files into the lake, each as a trace of its own name, or all of them, in order, as one.

    A trace that is there already goes on where it ended.
    """
    lake = Lake(out)
    if trace == "":
        raise InputError("the trace has no name; give it one")
    with lake.writing():
        reports = [_look(lake, file, trace or file.stem) for file in files]
        # The same file may have been named twice, or be there under another path.
        fresh = {(one.trace, one.source): file for one, file in zip(reports, files, strict=True)
                 if not one.added}  # fmt: skip
        done: dict[tuple[str, str], FileReport] = {}
        for group in _groups(list(fresh.items())):
            job = _Job(spark, lake, [key for key, _ in group], [file for _, file in group])
            done |= {(one.trace, one.source): one for one in job.run(options or TraceOptions())}
    seen: set[tuple[str, str]] = set()
    final = []
    for one in reports:
        key = (one.trace, one.source)
        final.append(done[key] if key in done and key not in seen else replace(one, added=False))
        seen.add(key)
    return final


def _look(lake: Lake, file: TraceFile, trace: str) -> FileReport:
    """A report on a file before anything is done; `added` says here that it is in the lake."""
    source = identity_of(file.path)
    return FileReport(file.path, trace, source, lake.source_folder(trace, source).is_dir())


def _groups(
    items: list[tuple[tuple[str, str], TraceFile]],
) -> Iterator[list[tuple[tuple[str, str], TraceFile]]]:
    for first in range(0, len(items), _FILES_PER_JOB):
        yield items[first : first + _FILES_PER_JOB]


class _Job:
    """Some files, on their way into the lake together."""

    def __init__(
        self, spark: SparkSession, lake: Lake, keys: list[tuple[str, str]], files: list[TraceFile]
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._keys = keys
        self._files = files
        self._streams = list(dict.fromkeys(trace for trace, _ in keys))

    def run(self, options: TraceOptions) -> list[FileReport]:
        staged = self._stage(options)
        blocks = sorted(
            self._do("count", lambda: block_counts(staged).collect()),
            key=lambda row: (row.file, row.start, row.row),
        )
        places = self._places(blocks)
        offsets = sender_offsets(staged, places, self._before())
        rows, bad = self._folder("rows"), self._folder("bad")
        few = sum(row.senders for row in blocks) <= _OFFSETS_MAX
        numbered = number(staged, places, offsets, few)
        self._do("write", lambda: numbered.write.partitionBy("file").parquet(to_write(rows)))
        if any(row.records > row.good for row in blocks):
            aside = rejected(staged, places)
            self._do("set aside", lambda: aside.write.partitionBy("file").parquet(to_write(bad)))
        reasons = self._reasons(bad)
        for at, (trace, source) in enumerate(self._keys):
            self._lake.commit(trace, source, rows / f"file={at}", bad / f"file={at}")
        return [self._report(at, blocks, reasons) for at in range(len(self._files))]

    def _stage(self, options: TraceOptions) -> DataFrame:
        """Read the files once, and write down what was read: only that is the same twice."""
        folder = self._folder("staged")
        counted = number_in_blocks(read_rows(self._spark, self._files, options))
        self._do("read", lambda: counted.write.mode("overwrite").parquet(to_write(folder)))
        return self._spark.read.schema(STAGED_SCHEMA).parquet(to_read(folder))

    def _places(self, blocks: list[Row]) -> DataFrame:
        """Where each block begins in its stream and in its file; as many rows as blocks."""
        ends = self._ends()
        records = [0] * len(self._files)
        rows = []
        for at, block in enumerate(blocks):
            stream = self._streams.index(self._keys[block.file][0])
            place = (block.file, block.start, block.row)
            rows.append((*place, stream, at, ends[stream], records[block.file]))
            ends[stream] += block.good
            records[block.file] += block.records
        return self._spark.createDataFrame(rows, PLACES_SCHEMA)

    def _there(self) -> list[tuple[int, DataFrame]]:
        """The traces that have rows already."""
        return [
            (at, read_trace_rows(self._spark, self._lake, trace))
            for at, trace in enumerate(self._streams)
            if any(self._lake.trace_folder(trace).glob("source=*/*.parquet"))
        ]

    def _ends(self) -> list[int]:
        ends = [0] * len(self._streams)
        for at, rows in self._there():
            ends[at] = self._do("count", rows.count)
        return ends

    def _before(self) -> DataFrame:
        """How many messages each sender has in its trace already."""
        parts = [
            rows.groupBy(F.lit(at).alias("stream"), "sender").agg(F.count("*").alias("n"))
            for at, rows in self._there()
        ]
        return reduce(DataFrame.union, parts, self._spark.createDataFrame([], BEFORE_SCHEMA))

    def _reasons(self, bad: Path) -> list[Row]:
        if not bad.is_dir():
            return []
        aside = self._spark.read.parquet(to_read(bad))
        return self._do("count", lambda: aside.groupBy("file", "reason").count().collect())

    def _report(self, at: int, blocks: list[Row], reasons: list[Row]) -> FileReport:
        mine = [row for row in blocks if row.file == at]
        across = sum(
            after.first_s < before.last_s
            for before, after in pairwise(mine)
            if after.first_s is not None and before.last_s is not None
        )
        trace, source = self._keys[at]
        return FileReport(
            self._files[at].path,
            trace,
            source,
            added=True,
            rows=sum(row.good for row in mine),
            rejected={row.reason: row["count"] for row in reasons if row.file == at},
            times_back=sum(row.back for row in mine) + across,
        )

    def _folder(self, name: str) -> Path:
        return self._lake.temp / name

    def _do(self, label: str, action: Callable[[], T]) -> T:
        return run_on_files(self._spark, label, [file.path for file in self._files], action)
