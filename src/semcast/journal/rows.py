"""Events as Arrow's columns, and back; where a run's files are. Knows nothing of what they mean."""

from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import quote

from semcast.journal.event import Event
from semcast.journal.header import Header
from semcast.journal.schema import SCHEMA_VERSION, ArrowSchema, ArrowTable, arrow_schema

HEADER_KEY: Final = b"semcast.header"
VERSION_KEY: Final = b"semcast.schema_version"
# Columns of few distinct values: each value becomes one object, however many rows have it.
_REPEATED: Final = frozenset(("node", "event", "sender", "key", "where", "by_sender"))


def folder_of(directory: str | Path, run: str) -> Path:
    """Where the files of a run are."""
    return Path(directory) / f"run={quote(run, safe='')}"


def schema_of(header: Header) -> ArrowSchema:
    """The schema of a run's files, with its header."""
    return arrow_schema(with_run=False).with_metadata(
        {HEADER_KEY: header.to_json().encode(), VERSION_KEY: str(SCHEMA_VERSION).encode()}
    )


def batch_of(arrow: ModuleType, schema: ArrowSchema, rows: list[Event], group: str) -> ArrowTable:
    """Rows as columns."""
    columns = dict(zip(Event._fields, zip(*rows, strict=True), strict=True))
    arrays = [
        arrow.repeat(group, len(rows))
        if field.name == "group"
        else arrow.array(columns[field.name], field.type)
        for field in schema
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def events_of(table: ArrowTable) -> list[Event]:
    """Columns as rows."""
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
