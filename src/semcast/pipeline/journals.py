"""Journals of any size: a folder `run=<name>/` for each run in, one DataFrame of events out.

    journals = read_journals(spark, "journals")
    journals.events.groupBy("run", "event").count()
    journals.headers["quotes-1"].reliability

Only footers are read here, by pyarrow on the driver: headers are in them. The same rules hold as in
`journal.read_journal`, and the same faults are refused with the same words. The logs of live
members become one journal by Spark stages (`settle`); a log that its member never finished is an
Arrow stream, which Spark cannot split, and is made into Parquet first (`unfinished_logs`). Knows
nothing of what the events mean.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.journal import COLUMNS, Header, chosen_runs
from semcast.journal.growing_log import GROWING_SUFFIX, finished, require_ipc
from semcast.journal.lives import merged_header
from semcast.journal.parquet import check_schema, events_of_part, first_line, parts_in
from semcast.journal.rows import folder_of
from semcast.journal.schema import NEVER_NULL, require_pyarrow
from semcast.pipeline.settle import settle
from semcast.pipeline.unfinished_logs import LogFinishedError, as_parquet

# The journal's columns, and `at`: the order of events. Where a run's header says `one_order` it is
# the order in which everything happened; else it holds for each node by itself.
EVENTS: Final = ", ".join(f"`{name}` {kind}" for name, kind in (*COLUMNS, ("at", "long")))
_FILE: Final = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
_FOOTERS_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Journals:
    """The journals of several runs. Spark reads events only when somebody asks for them."""

    # Of schema `EVENTS`. Of live runs it is computed anew each time: persist it if asked often.
    events: DataFrame
    headers: dict[str, Header]
    # The runs whose events were put together from logs of single lives.
    live: frozenset[str] = frozenset()
    # Where they are; and by run how many events, by their footers. Of growing logs it is a bound.
    folder: Path = Path()
    sizes: dict[str, int] = field(default_factory=dict)
    # The files of runs that lie in one each, in the order in which everything happened.
    files: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _Part:
    run: str
    path: Path
    header: Header
    events: int


def read_journals(
    spark: SparkSession, path: str | Path, runs: Sequence[str] | None = None
) -> Journals:
    """The journals of these runs below `path`, or of all."""
    # Java stays in the folder in which it was started, whatever this process does later.
    path = Path(path).absolute()
    while True:
        try:
            return _read_all(spark, path, runs)
        except LogFinishedError:
            pass  # a growing log has become its final file: look again


def _read_all(spark: SparkSession, path: Path, runs: Sequence[str] | None) -> Journals:
    parts = [part for run in chosen_runs(path, runs) for part in _parts_of(path, run)]
    by_run: dict[str, list[_Part]] = {}
    for part in _checked(parts):
        by_run.setdefault(part.run, []).append(part)
    headers = {run: _header_of(some) for run, some in by_run.items()}
    live = {run for run, some in by_run.items() if any(part.header.node for part in some)}
    frames = []
    written_by_one = [some for run, some in by_run.items() if run not in live]
    whole = [some[0] for some in written_by_one if len(some) == 1]
    if whole:
        frames.append(_read(spark, path, whole))
    several = [part for some in written_by_one if len(some) > 1 for part in some]
    if several:
        frames.append(_one_order(_read(spark, path, several)))
    lives = [part for run in live for part in by_run[run]]
    if lives:
        frames.append(settle(_read(spark, path, lives), _nodes_of(spark, lives)))
    events = frames[0]
    for frame in frames[1:]:
        events = events.unionByName(frame)
    return Journals(
        events.select([name for name, _ in COLUMNS] + ["at"]),
        headers,
        frozenset(live),
        path,
        {run: sum(part.events for part in some) for run, some in by_run.items()},
        {part.run: part.path for part in whole if part.path.suffix != GROWING_SUFFIX},
    )


# -- files and headers -----------------------------------------------------------------------------


def _parts_of(path: Path, run: str) -> list[tuple[str, Path]]:
    found = parts_in(folder_of(path, run))
    if not found:
        raise InputError(f"{path} holds no journal of run {run!r}, only empty files")
    return [(run, part) for part in found]


def _checked(parts: list[tuple[str, Path]]) -> list[_Part]:
    """All parts with their headers; raises InputError for a file that is no journal."""
    require_pyarrow()
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        headers = pool.map(lambda part: _read_header(*part), parts)
        return [_Part(run, path, *found) for (run, path), found in zip(parts, headers, strict=True)]


def _read_header(run: str, path: Path) -> tuple[Header, int]:
    """The header of a part, and how many events it has."""
    arrow = require_pyarrow()
    try:
        if path.suffix == GROWING_SUFFIX:
            require_ipc()
            with arrow.OSFile(str(path)) as file, arrow.ipc.open_stream(file) as stream:
                return check_schema(path, run, stream.schema), events_of_part(path)
        with arrow.parquet.ParquetFile(path) as file:
            header = check_schema(path, run, file.schema_arrow)
            _check_statistics(path, header, file.metadata)
            return header, events_of_part(path)
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        if finished(path) is not None:
            raise LogFinishedError from error
        raise InputError(
            f"{path}: cannot be read as a journal, it may be damaged ({first_line(error)}); "
            "write it again"
        ) from error


def _check_statistics(path: Path, header: Header, metadata: object) -> None:
    """Refuse events that lack what every event has, by what the footer says of each column."""
    for number in range(metadata.num_row_groups):  # type: ignore[attr-defined]  # pyarrow's
        group = metadata.row_group(number)  # type: ignore[attr-defined]
        for at in range(group.num_columns):
            column = group.column(at)
            known = column.statistics
            if known is None:
                continue
            name = column.path_in_schema
            if name in NEVER_NULL and known.null_count:
                raise InputError(
                    f"{path}: {known.null_count} of {group.num_rows} events have no {name!r}"
                )
            if name == "group" and known.has_min_max and not header.federated:
                for other in (known.min, known.max):
                    if other != header.group:
                        raise InputError(
                            f"{path}: an event of group {other!r} in the journal of "
                            f"{header.group!r}"
                        )


def _header_of(parts: list[_Part]) -> Header:
    headers = [part.header for part in parts]
    if any(header.node for header in headers):
        return merged_header(headers)
    for part in parts:
        if part.header != headers[0]:
            raise InputError(
                f"{part.path}: its header differs from that of {parts[0].path.name} beside it"
            )
    return headers[0]


# -- frames ----------------------------------------------------------------------------------------


def _read(spark: SparkSession, path: Path, parts: list[_Part]) -> DataFrame:
    """The rows of these files, as they are, with their place in their file as `at`."""
    streams = [part.path for part in parts if part.path.suffix == GROWING_SUFFIX]
    files = [part.path for part in parts if part.path.suffix != GROWING_SUFFIX]
    places = {path: files}
    if streams:
        base, made = as_parquet(spark, path, streams)
        places[base] = made
    frames = [
        spark.read.schema(_FILE)
        .option("basePath", str(base))
        .parquet(*map(str, files))
        .withColumn("at", F.col("_metadata.row_index"))
        for base, files in places.items()
        if files
    ]
    frame = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    return _named(frame, sorted({part.run for part in parts}))


def _named(frame: DataFrame, runs: list[str]) -> DataFrame:
    """Give runs their own names: Spark undoes the quoting of a folder's name byte by byte."""
    as_read = {unquote(quote(run, safe=""), encoding="latin-1"): run for run in runs}
    other = [(read, run) for read, run in as_read.items() if read != run]
    if not other:
        return frame
    names = F.create_map(*[F.lit(name) for pair in other for name in pair])
    return frame.withColumn("run", F.coalesce(names[F.col("run")], F.col("run")))


def _one_order(frame: DataFrame) -> DataFrame:
    """Events of several files in one order, as `read_journal` merges them.

    By time, but those of each node in their own order: an event whose clock went back counts as of
    the latest time before it.
    """
    own = Window.partitionBy("run", "node").orderBy("lsn")
    everything = Window.partitionBy("run").orderBy("latest_ns", "node", "lsn")
    return (
        frame.withColumn("latest_ns", F.max("time_ns").over(own))
        .withColumn("at", F.row_number().over(everything).cast("long") - 1)
        .drop("latest_ns")
    )


def _nodes_of(spark: SparkSession, parts: list[_Part]) -> DataFrame:
    rows = sorted({(part.run, part.header.node) for part in parts})
    return spark.createDataFrame(rows, "run string, node string")
