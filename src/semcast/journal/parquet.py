"""Journals as Parquet: one folder per run, `run=<name>/<part>.parquet`, the header in each file.

Journals in, files out, and back. pyarrow is imported when it is needed and not before. A file is
written under another name and then put in its place, so that half of one is never read.
"""

import heapq
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import quote, unquote

from semcast.errors import InputError
from semcast.journal.event import Event
from semcast.journal.header import Header
from semcast.journal.journal import Journal
from semcast.journal.schema import (
    NEVER_NULL,
    SCHEMA_VERSION,
    ArrowSchema,
    ArrowTable,
    arrow_schema,
    require_pyarrow,
)

_HEADER: Final = b"semcast.header"
_VERSION: Final = b"semcast.schema_version"
_ROWS_PER_GROUP: Final = 1 << 17
# Columns of few distinct values: each value becomes one object, however many rows have it.
_REPEATED: Final = frozenset(("node", "event", "sender", "key", "where", "by_sender"))


def write_journal(journal: Journal, directory: str | Path, part: str = "journal") -> Path:
    """Write a journal below `directory` and say where it is.

    Worlds with a log on each machine give each a `part` of its own.
    """
    arrow = require_pyarrow()
    header = journal.header
    schema = arrow_schema(with_run=False).with_metadata(
        {_HEADER: header.to_json().encode(), _VERSION: str(SCHEMA_VERSION).encode()}
    )
    folder = Path(directory) / f"run={quote(header.run, safe='')}"
    path = folder / f"{part}.parquet"
    unfinished = folder / f".{part}.unfinished"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with arrow.parquet.ParquetWriter(
            unfinished, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for first in range(0, len(journal.events), _ROWS_PER_GROUP):
                rows = journal.events[first : first + _ROWS_PER_GROUP]
                writer.write_batch(_batch(arrow, schema, rows, header.group))
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"cannot write the journal to {folder}: {_line(error)}") from error
    return path


def runs_in(directory: str | Path) -> list[str]:
    """The names of the runs that have a journal below `directory`."""
    return sorted({_run_of(path) for path in Path(directory).glob("run=*/*.parquet")})


def read_journal(directory: str | Path, run: str | None = None) -> Journal:
    """Read one run's journal. `run` may be left out if there is only one."""
    if run is None:
        run = _only_run(directory)
    paths = sorted((Path(directory) / f"run={quote(run, safe='')}").glob("*.parquet"))
    if not paths:
        raise InputError(f"{directory} holds no journal of run {run!r}; {_those(directory)}")
    parts = [_read_part(path, run) for path in paths]
    header = parts[0][0]
    for path, part in zip(paths, parts, strict=True):
        if part[0] != header:
            raise InputError(f"{path}: its header differs from that of {paths[0].name} beside it")
    journal = Journal(header)
    events = parts[0][1] if len(parts) == 1 else _merged([events for _, events in parts])
    for event in events:
        journal.append(event)
    return journal


# -- files -------------------------------------------------------------------------------------


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
    """What there is instead, and what to do."""
    if not Path(directory).is_dir():
        return "there is no such folder"
    runs = runs_in(directory)
    if not runs:
        return "there should be files run=<name>/*.parquet in it"
    shown = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    return f"choose one of its {len(runs)} runs: {shown}"


def _read_part(path: Path, run: str) -> tuple[Header, list[Event]]:
    arrow = require_pyarrow()
    try:
        with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            header = _check_schema(path, run, file.schema_arrow)
            table = file.read()
            table.validate(full=True)
            _check_rows(path, header, table)
            return header, _events(table)
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read as a journal, it may be damaged ({_line(error)}); "
            "write it again"
        ) from error


def _check_schema(path: Path, run: str, schema: ArrowSchema) -> Header:
    metadata = schema.metadata or {}
    if _VERSION not in metadata or _HEADER not in metadata:
        raise InputError(f"{path}: no journal, but some other Parquet file: it has no header")
    version = metadata[_VERSION].decode(errors="replace")
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
        header = Header.from_json(metadata[_HEADER].decode(errors="replace"))
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
    for group in table["group"].unique().to_pylist():
        if group != header.group:
            raise InputError(
                f"{path}: an event of group {group!r} in the journal of {header.group!r}"
            )


def _line(error: Exception) -> str:
    """The first line of what another library has to say."""
    return str(error).partition("\n")[0] or type(error).__name__


# -- rows --------------------------------------------------------------------------------------


def _batch(arrow: ModuleType, schema: ArrowSchema, rows: list[Event], group: str) -> ArrowTable:
    columns = dict(zip(Event._fields, zip(*rows, strict=True), strict=True))
    arrays = [
        arrow.repeat(group, len(rows))
        if field.name == "group"
        else arrow.array(columns[field.name], field.type)
        for field in schema
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _events(table: ArrowTable) -> list[Event]:
    columns = []
    for name in Event._fields:
        column = table[name].combine_chunks()
        if name in _REPEATED:
            encoded = column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            columns.append(
                [None if at is None else values[at] for at in encoded.indices.to_pylist()]
            )
        elif name == "obsoletes":
            columns.append([None if x is None else tuple(x) for x in column.to_pylist()])
        else:
            columns.append(column.to_pylist())
    return list(map(Event._make, zip(*columns, strict=True)))


def _merged(parts: list[list[Event]]) -> Iterator[Event]:
    """The events of several logs by time, but those of each node in its own order."""
    by_node: dict[str, list[Event]] = {}
    for part in parts:
        for event in part:
            by_node.setdefault(event.node, []).append(event)
    return (event for *_, event in heapq.merge(*map(_timed, by_node.values())))


def _timed(events: list[Event]) -> Iterator[tuple[int, str, int, Event]]:
    """By number; an event whose clock went back counts as of the latest time before it."""
    latest_ns = 0
    for at, event in enumerate(sorted(events, key=lambda event: event.lsn)):
        latest_ns = event.time_ns if at == 0 else max(latest_ns, event.time_ns)
        yield latest_ns, event.node, event.lsn, event
