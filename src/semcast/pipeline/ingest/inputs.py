"""Paths and options of a user in; the trace files they mean out, each with its columns checked.

Only the first bytes of a file are read here, on the driver: its heading (CSV), the fields of its
first lines (JSON lines) or its schema (Parquet). Knows nothing of Spark.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Final, Literal, get_args

from semcast.errors import InputError
from semcast.journal.schema import require_pyarrow

Format = Literal["csv", "json", "parquet"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
COLUMNS: Final = ("time_s", "sender", "key", "kind", "size")
FILES_MAX: Final = 4096
_SUFFIXES: Final[Mapping[str, Format]] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
_HEAD_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class TraceOptions:
    """How to read a trace: which of its columns is which, and what its times count."""

    # Our name of a column to that of the file; what is not named is called as we call it.
    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: TimeUnit = "s"
    # None: by the name of the file.
    format: Format | None = None


@dataclass(frozen=True)
class TraceFile:
    """One file, and where in it the columns of a trace are."""

    path: Path
    format: Format
    # Every column of a CSV file, in order; of the others, those that were seen.
    heading: tuple[str, ...]
    # Our name of a column to that of the file, for those that it has.
    columns: Mapping[str, str]

    @property
    def stem(self) -> str:
        """The name without any suffix: what a trace is called by default."""
        return self.path.name.partition(".")[0] or self.path.name


def parse_columns(texts: Iterable[str]) -> dict[str, str]:
    """`time_s=ts,key=symbol`, as given with --column, any number of times."""
    found: dict[str, str] = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or not theirs or ours not in COLUMNS:
            raise InputError(
                f"--column {pair!r}: write one of {', '.join(COLUMNS)}, "
                "an equals sign and the file's name for it, as in key=symbol"
            )
        found[ours] = theirs
    return found


def parse_time_unit(text: str) -> TimeUnit:
    """What the times of a file count."""
    for unit in get_args(TimeUnit):
        if text == unit:
            return unit  # type: ignore[no-any-return]
    raise InputError(f"--time-unit {text!r}: it is one of {', '.join(get_args(TimeUnit))}")


def parse_format(text: str | None) -> Format | None:
    """The format of all files, if it was given."""
    for known in get_args(Format):
        if text == known:
            return known  # type: ignore[no-any-return]
    if text is None:
        return None
    raise InputError(f"--format {text!r}: it is one of {', '.join(get_args(Format))}")


def find_files(inputs: Sequence[str | Path], options: TraceOptions) -> list[TraceFile]:
    """All trace files that the inputs name, a folder's and a pattern's by name."""
    paths = [path for given in inputs for path in _paths(str(given), options)]
    if len(paths) > FILES_MAX:
        raise InputError(f"{len(paths)} files, and {FILES_MAX} is the most at once; give fewer")
    return [_file_of(path, options) for path in dict.fromkeys(paths)]


def _paths(given: str, options: TraceOptions) -> list[Path]:
    path = Path(given)
    if path.is_file():
        return [path]
    if path.is_dir():
        # What begins with a dot or an underscore is somebody's bookkeeping (Spark's _SUCCESS).
        found = [one for one in sorted(path.iterdir()) if one.is_file() and one.name[0] not in "._"]
        known = [one for one in found if options.format or _format_by_name(one)]
        if not known:
            raise InputError(f"{path}: no trace file in it ({_known_suffixes()})")
        return known
    matches = [Path(one) for one in sorted(glob(given)) if Path(one).is_file()]  # noqa: PTH207
    if not matches:
        raise InputError(f"{given}: No such file or directory")
    return matches


def _format_by_name(path: Path) -> Format | None:
    plain = path.name.lower().removesuffix(".gz")
    return _SUFFIXES.get(Path(plain).suffix)


def _known_suffixes() -> str:
    return f"known are {', '.join(_SUFFIXES)}, and .gz after the text ones"


def _file_of(path: Path, options: TraceOptions) -> TraceFile:
    kind = options.format or _format_by_name(path)
    if kind is None:
        raise InputError(f"{path}: not known by its name ({_known_suffixes()}); say --format")
    heading = _parquet_heading(path) if kind == "parquet" else _text_heading(path, kind)
    columns = {}
    for ours in COLUMNS:
        theirs = options.columns.get(ours, ours)
        if theirs in heading:
            columns[ours] = theirs
        elif ours == "key" or ours in options.columns:
            raise InputError(
                f"{path}: no column {theirs!r} in its heading "
                f"({', '.join(map(_shown, heading[:20])) or 'it is empty'}); "
                f"say what it is called, as in --column {ours}=symbol"
            )
    return TraceFile(path, kind, heading, columns)


def _shown(name: str) -> str:
    """A column's name as far as it can be shown: a file may be anything."""
    return name[:40] if name.isprintable() else repr(name[:40])


def _text_heading(path: Path, kind: Format) -> tuple[str, ...]:
    lines = _first_lines(path)
    if kind == "json":
        return _json_fields(path, lines)
    try:
        heading = next(csv.reader(lines[:1], strict=True), [])
    except csv.Error as error:
        raise InputError(f"{path}: its heading: {error}") from error
    doubled = next((name for name in heading if heading.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"{path}: column {_shown(doubled)} is in its heading twice")
    return tuple(heading)


def _first_lines(path: Path) -> list[str]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip: {error}") from error
    whole, newline, _ = head.rpartition(b"\n")
    if len(head) < _HEAD_BYTES or not newline:
        whole = head
    first = whole.partition(b"\n")[0]
    try:
        first.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not a text file (byte {error.start} is not UTF-8); say --format if it is "
            "of another kind than its name says"
        ) from error
    return whole.decode("utf-8-sig", errors="replace").splitlines()


def _json_fields(path: Path, lines: list[str]) -> tuple[str, ...]:
    """All fields that the first lines have; a line that is no object is a bad row, later."""
    fields: dict[str, None] = {}
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            fields.update(dict.fromkeys(found))
    if any(line.strip() for line in lines) and not fields:
        raise InputError(f"{path}: no JSON object in its first lines; write one on each line")
    return tuple(fields)


def _parquet_heading(path: Path) -> tuple[str, ...]:
    arrow = require_pyarrow()
    try:
        return tuple(arrow.parquet.read_schema(path).names)
    except (arrow.ArrowException, OSError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(f"{path}: cannot be read as Parquet ({line})") from error
