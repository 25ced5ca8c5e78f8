"""Schema version 1 of the journal, as names and types, and as Arrow's once somebody needs it.

A change here is a new version: readers refuse files of another one.
"""

import importlib
from types import ModuleType
from typing import Any, Final, TypeAlias

from semcast.errors import InputError

# pyarrow declares no types.
ArrowSchema: TypeAlias = Any
ArrowTable: TypeAlias = Any

SCHEMA_VERSION: Final = 1

# Name and type of every column, in order; types as Arrow and Spark know them.
COLUMNS: Final = (
    ("run", "string"),
    ("time_ns", "long"),
    ("lsn", "long"),
    ("node", "string"),
    ("event", "string"),
    ("group", "string"),
    ("sender", "string"),
    ("seq", "long"),
    ("obsoletes", "array<int>"),
    ("key", "string"),
    ("rank", "long"),
    ("sent_ns", "long"),
    ("size", "int"),
    ("where", "string"),
    ("by_sender", "string"),
    ("by_seq", "long"),
    ("view", "long"),
)
# What every event has.
NEVER_NULL: Final = ("time_ns", "lsn", "node", "event")


def require_pyarrow() -> ModuleType:
    """The module pyarrow, with its Parquet part, or one line on how to get it."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise InputError(
            "journals on disk need pyarrow, which is not installed; pip install 'semcast[journal]'"
        ) from error


def arrow_schema(with_run: bool = True) -> ArrowSchema:
    """The schema as Arrow's. Files have no `run`: the folder that they are in says it."""
    arrow = require_pyarrow()
    types = {
        "string": arrow.string(),
        "long": arrow.int64(),
        "int": arrow.int32(),
        "array<int>": arrow.list_(arrow.int32()),
    }
    return arrow.schema(
        [arrow.field(name, types[kind]) for name, kind in COLUMNS if with_run or name != "run"]
    )
