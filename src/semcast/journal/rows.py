"""Events as Arrow's columns, and back; where a run's files are. Knows nothing of what they mean."""

from pathlib import Path
from types import ModuleType
from typing import Any, Final
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
    """Rows as columns; those that name no group are of this one."""
    columns = dict(zip(Event._fields, zip(*rows, strict=True), strict=True))
    groups = columns.pop("group")
    if any(groups):
        columns["group"] = tuple(group if one is None else one for one in groups)
    arrays = [
        arrow.array(columns[field.name], field.type)
        if field.name in columns
        else arrow.repeat(group, len(rows))
        for field in schema
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def events_of(table: ArrowTable, group: str) -> list[Event]:
    """Columns as rows; those of this group do not name it."""
    columns = []
    for name in Event._fields:
        column = table[name].combine_chunks()
        if name in _REPEATED:
            encoded = column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            columns.append(
                [None if at is None else values[at] for at in encoded.indices.to_pylist()]
            )
        elif name == "group":
            columns.append(_other_groups(column, group))
        elif name == "obsoletes":
            columns.append([None if x is None else tuple(x) for x in column.to_pylist()])
        else:
            columns.append(column.to_pylist())
    return list(map(Event._make, zip(*columns, strict=True)))


def _other_groups(column: Any, group: str) -> list[str | None]:
    """The groups of rows, None for this one; mostly it is the only one."""
    encoded = column.dictionary_encode()
    names = [None if name == group else name for name in encoded.dictionary.to_pylist()]
    if not any(names):
        return [None] * len(column)
    return [None if at is None else names[at] for at in encoded.indices.to_pylist()]
