"""Trace files in, messages out: CSV with a heading, plain or gzip, read row by row.

The columns are `time_s, sender, key, kind, size`; only `key` must be there. An empty key means a
message that is never replaced.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from semcast.errors import InputError


class TraceRow(NamedTuple):
    """What profiling needs of a message."""

    sender: str
    key: str


def read_trace(path: Path) -> Iterator[TraceRow]:
    """The messages of a trace, in order; InputError names the file and the line."""
    line = 1
    try:
        with _open_text(path) as file:
            rows = csv.DictReader(file, strict=True)
            if "key" not in (rows.fieldnames or []):
                raise InputError(
                    f"{path}: no column 'key' in its heading "
                    f"({', '.join(rows.fieldnames or []) or 'it is empty'})"
                )
            for row in rows:
                line = rows.line_num
                if row["key"] is None:
                    raise InputError(f"{path}: line {line} has too few columns")
                yield TraceRow(row.get("sender") or "", row["key"])
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file after line {line}") from error
    except csv.Error as error:
        raise InputError(f"{path}: after line {line}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip after line {line}: {error}") from error


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
