"""Journals as Parquet: one folder per run, `run=<name>/<part>.parquet`, the header in each file.

Journals in, files out, and back. pyarrow is imported when it is needed and not before. A file is
written under another name and then put in its place, so that half of one is never read. The files
of live members, one for each life, are read as one journal (`lives`).
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from semcast.errors import InputError
from semcast.journal.event import Event
from semcast.journal.growing_log import (
    FINAL_SUFFIX,
    GROWING_SUFFIX,
    finished,
    has_begun,
    read_growing_log,
)
from semcast.journal.header import Header
from semcast.journal.journal import Journal
from semcast.journal.lives import settle
from semcast.journal.rows import (
    HEADER_KEY,
    VERSION_KEY,
    batch_of,
    events_of,
    folder_of,
    schema_of,
)
from semcast.journal.schema import (
    NEVER_NULL,
    SCHEMA_VERSION,
    ArrowSchema,
    ArrowTable,
    arrow_schema,
    require_pyarrow,
)

_ROWS_PER_GROUP: Final = 1 << 17
# An event takes at least so much in a growing log.
_GROWING_EVENT_BYTES: Final = 4
# In this order: what comes later goes first if a part has both, and a stream that is finished
# while we look is found as its final file.
_SUFFIXES: Final = (GROWING_SUFFIX, FINAL_SUFFIX)


def write_journal(journal: Journal, directory: str | Path, part: str = "journal") -> Path:
    """Write a journal below `directory` and say where it is.

    Worlds with a log on each machine give each a `part` of its own.
    """
    arrow = require_pyarrow()
    header = journal.header
    schema = schema_of(header)
    folder = folder_of(directory, header.run)
    path = folder / f"{part}.parquet"
    unfinished = folder / f".{part}.unfinished"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with arrow.parquet.ParquetWriter(
            unfinished, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for first in range(0, len(journal.events), _ROWS_PER_GROUP):
                rows = journal.events[first : first + _ROWS_PER_GROUP]
                writer.write_batch(batch_of(arrow, schema, rows, header.group))
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"cannot write the journal to {folder}: {first_line(error)}") from error
    return path


def runs_in(directory: str | Path) -> list[str]:
    """The names of the runs that have a journal below `directory`."""
    found = (
        _run_of(path) for suffix in _SUFFIXES for path in Path(directory).glob(f"run=*/*{suffix}")
    )
    return sorted(set(found))


def chosen_runs(path: str | Path, runs: Sequence[str] | None) -> list[str]:
    """The runs below `path` that are asked for, or all; InputError if there are none."""
    there = runs_in(path)
    if not there:
        raise InputError(f"{path} holds no journal; {_those(path)}")
    for run in runs or ():
        if run not in there:
            raise InputError(f"{path} holds no journal of run {run!r}; {_those(path)}")
    return sorted(set(runs)) if runs else there


def read_journal(directory: str | Path, run: str | None = None) -> Journal:
    """Read one run's journal. `run` may be left out if there is only one."""
    if run is None:
        run = _only_run(directory)
    paths = parts_in(folder_of(directory, run))
    if not paths:
        raise InputError(f"{directory} holds no journal of run {run!r}; {_those(directory)}")
    parts = [_read_part(path, run) for path in paths]
    if any(header.node for header, _ in parts):
        header, logs = settle(parts)
        return _journal(header, _merged(logs))
    header = parts[0][0]
    for path, part in zip(paths, parts, strict=True):
        if part[0] != header:
            raise InputError(f"{path}: its header differs from that of {paths[0].name} beside it")
    one = parts[0][1] if len(parts) == 1 else _merged([events for _, events in parts])
    return _journal(header, one)


def _journal(header: Header, events: Iterable[Event]) -> Journal:
    journal = Journal(header)
    for event in events:
        journal.append(event)
    return journal


# -- files -------------------------------------------------------------------------------------


def parts_in(folder: Path) -> list[Path]:
    """All parts, by name; a life that has its final file needs no other.

    A stream without a head is of a life that was killed before it wrote anything, or just begins.
    """
    found = {
        path.stem: path
        for suffix in _SUFFIXES
        for path in folder.glob(f"*{suffix}")
        if suffix != GROWING_SUFFIX or has_begun(path)
    }
    return [path for _, path in sorted(found.items())]


def events_of_part(path: Path) -> int:
    """How many events a part has, by its footer; a growing log has none: at most so many."""
    arrow = require_pyarrow()
    try:
        if path.suffix == GROWING_SUFFIX:
            return path.stat().st_size // _GROWING_EVENT_BYTES
        return int(arrow.parquet.read_metadata(path).num_rows)
    except (arrow.ArrowException, OSError) as error:
        final = finished(path)
        if final is not None:
            return events_of_part(final)
        raise _unreadable(path, error) from error


def events_in(directory: str | Path, run: str) -> int:
    """How many events the journal of a run has, as `events_of_part`; nothing else is read."""
    return sum(events_of_part(part) for part in parts_in(folder_of(directory, run)))


def _run_of(path: Path) -> str:
    return unquote(path.parent.name.removeprefix("run="))


def _only_run(directory: str | Path) -> str:
    runs = runs_in(directory)
    if len(runs) != 1:
        there = _those(directory)
        if runs:
            raise InputError(f"{directory} holds the journals of several runs; {there}")
        raise InputError(f"{directory} holds no journal; {there}")
    return runs[0]


def _those(directory: str | Path) -> str:
    """What there is in the folder instead, and what to do."""
    if not Path(directory).is_dir():
        there = Path(directory).exists()
        return "it is a file, not a folder" if there else "there is no such folder"
    runs = runs_in(directory)
    if not runs:
        return "there should be files run=<name>/*.parquet in it"
    shown = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    return f"choose from its {len(runs)} runs: {shown}"


def _read_part(path: Path, run: str) -> tuple[Header, list[Event]]:
    arrow = require_pyarrow()
    try:
        if path.suffix == GROWING_SUFFIX:
            table = read_growing_log(path)
            header = check_schema(path, run, table.schema)
            _check_rows(path, header, table)
            return header, events_of(table, header.group)
        with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            header = check_schema(path, run, file.schema_arrow)
            table = file.read()
            table.validate(full=True)
            _check_rows(path, header, table)
            return header, events_of(table, header.group)
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        final = finished(path)
        if final is not None:
            return _read_part(final, run)
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: cannot be read as a journal, it may be damaged ({first_line(error)}); "
        "write it again"
    )


def check_schema(path: Path, run: str, schema: ArrowSchema) -> Header:
    """The header of a file, if that is a journal of this run that we can read."""
    metadata = schema.metadata or {}
    if VERSION_KEY not in metadata or HEADER_KEY not in metadata:
        raise InputError(f"{path}: no journal, but some other Parquet file: it has no header")
    version = metadata[VERSION_KEY].decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise InputError(
            f"{path}: journal of schema version {version}, and this semcast reads "
            f"version {SCHEMA_VERSION}; use the semcast that wrote it"
        )
    for expected in arrow_schema(with_run=False):
        at = schema.get_field_index(expected.name)
        if at < 0:
            raise InputError(f"{path}: the journal has no column {expected.name!r}")
        if schema.field(at).type != expected.type:
            raise InputError(
                f"{path}: column {expected.name!r} is {schema.field(at).type}, "
                f"and should be {expected.type}"
            )
    try:
        header = Header.from_json(metadata[HEADER_KEY].decode(errors="replace"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if header.run != run:
        raise InputError(f"{path}: the journal of run {header.run!r} in the folder of {run!r}")
    return header


def _check_rows(path: Path, header: Header, table: ArrowTable) -> None:
    for name in NEVER_NULL:
        empty = table[name].null_count
        if empty:
            raise InputError(f"{path}: {empty} of {len(table)} events have no {name!r}")
    for group in () if header.federated else table["group"].unique().to_pylist():
        if group != header.group:
            raise InputError(
                f"{path}: an event of group {group!r} in the journal of {header.group!r}"
            )


def first_line(error: Exception) -> str:
    """The first line of what another library has to say."""
    return str(error).partition("\n")[0] or type(error).__name__


# -- rows --------------------------------------------------------------------------------------


def _merged(parts: list[list[Event]]) -> Iterator[Event]:
    """The events of several logs by time, but those of each node in its own order."""
    by_node: dict[str, list[Event]] = {}
    for part in parts:
        for event in part:
            by_node.setdefault(event.node, []).append(event)
    return (event for *_, event in heapq.merge(*map(_timed, by_node.values())))


def _timed(events: list[Event]) -> Iterator[tuple[int, str, int, Event]]:
    """The events of a node by number. One whose clock went back counts as of the latest time
    before.
    """
    latest_ns = 0
    for at, event in enumerate(sorted(events, key=lambda event: event.lsn)):
        latest_ns = event.time_ns if at == 0 else max(latest_ns, event.time_ns)
        yield latest_ns, event.node, event.lsn, event
