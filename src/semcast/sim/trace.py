"""Trace files in, messages out: CSV with a heading, plain or gzip, read row by row.

The columns are `time_s, sender, key, kind, size`, of which `key` must be there, and whatever else
the caller needs. What is there is checked, whoever asks: times do not fall, sizes are within
bounds. An empty key means a message that is never replaced. Knows nothing of what a trace is for.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from semcast.errors import InputError

SIZE_BYTES_MAX: Final = 1 << 20
TIME_S_MAX: Final = 1e12


class TraceRow(NamedTuple):
    """A recorded message."""

    time_s: float  # 0 where the trace has no times
    sender: str
    key: str
    size_bytes: int


def read_trace(path: Path, size_bytes: int = 0, timed: bool = False) -> Iterator[TraceRow]:
    """The messages of a trace, in order; InputError names the file and the line.

    `size_bytes` stands in where the trace has no size; `timed`: there must be times.
    """
    line, before_s = 1, float("-inf")
    try:
        with _open_text(path) as file:
            rows = csv.DictReader(file, strict=True)
            _check_heading(path, list(rows.fieldnames or []), timed)
            for row in rows:
                line = rows.line_num
                found = _row_of(path, line, row, size_bytes)
                if found.time_s < before_s:
                    raise InputError(
                        f"{path}: line {line}: time_s {found.time_s:g} after {before_s:g}; "
                        "sort the messages by time"
                    )
                before_s = found.time_s
                yield found
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file after line {line}") from error
    except csv.Error as error:
        raise InputError(f"{path}: after line {line}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip after line {line}: {error}") from error


def _check_heading(path: Path, columns: list[str], timed: bool) -> None:
    for column in ("time_s", "key") if timed else ("key",):
        if column not in columns:
            raise InputError(
                f"{path}: no column {column!r} in its heading "
                f"({', '.join(columns) or 'it is empty'})"
            )


def _row_of(path: Path, line: int, row: dict[str, str | None], size_bytes: int) -> TraceRow:
    key, time = row["key"], row.get("time_s", "0")
    if key is None or time is None:
        raise InputError(f"{path}: line {line} has too few columns")
    try:
        time_s, size = float(time), int(row.get("size") or size_bytes)
        sensible = abs(time_s) < TIME_S_MAX and 0 <= size <= SIZE_BYTES_MAX
    except ValueError:
        sensible = False
    if not sensible:
        raise InputError(
            f"{path}: line {line}: time_s {time!r}, size {row.get('size')!r}; write times in "
            f"seconds, and sizes from 0 to {SIZE_BYTES_MAX} bytes"
        )
    return TraceRow(time_s, row.get("sender") or "", key, size)


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
