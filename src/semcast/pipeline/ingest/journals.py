"""Journals in, the same journals in a lake out: checked, copied whole, and each of them once.

Writers put nothing but good rows into a journal, so a file is good or it is damaged: what is set
aside here is a file, with the reason. The file keeps its header, which judges read. The growing log
of a life that was killed, or that goes on, is turned into Parquet as far as it goes, and replaced
once more of it is there. No Spark is needed, because bytes are copied.
"""

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from semcast.errors import InputError
from semcast.journal.growing_log import FINAL_SUFFIX, GROWING_SUFFIX, finished, read_growing_log
from semcast.journal.rows import HEADER_KEY, VERSION_KEY, folder_of
from semcast.journal.schema import SCHEMA_VERSION, arrow_schema, require_pyarrow
from semcast.pipeline.ingest.lake import Lake, identity_of

# In the metadata of a file that was made of a stream: of which one.
_STREAM_KEY: Final = b"semcast.stream"


@dataclass(frozen=True)
class JournalReport:
    """What became of one file of a journal."""

    path: Path
    run: str
    added: bool
    events: int = 0
    # Why it was set aside; None: it is good.
    reason: str | None = None


def is_journal(path: Path) -> bool:
    """Whether this is a folder of journals, or the folder of one run."""
    return bool(journal_files(path))


def journal_files(path: Path) -> list[Path]:
    """All parts of all runs below; of a life that has its final file, no growing log."""
    folders = [path] if path.name.startswith("run=") else sorted(path.glob("run=*"))
    found = []
    for folder in folders:
        parts = {one.stem: one for one in sorted(folder.glob(f"*{GROWING_SUFFIX}"))}
        parts |= {one.stem: one for one in sorted(folder.glob(f"*{FINAL_SUFFIX}"))}
        found += [one for _, one in sorted(parts.items())]
    return found


def ingest_journals(paths: Iterable[Path], out: str | Path) -> list[JournalReport]:
    """Copy the files of journals into the lake; files that cannot be read go to `_rejected`."""
    lake = Lake(out)
    with lake.writing():
        return [_ingest_part(lake, path) for path in paths]


def _ingest_part(lake: Lake, path: Path) -> JournalReport:
    try:
        return _ingest(lake, path)
    except FileNotFoundError:
        final = finished(path)
        if final is None:
            raise
        return _ingest(lake, final)  # its writer has finished it since it was found


def _ingest(lake: Lake, path: Path) -> JournalReport:
    run = unquote(path.parent.name.removeprefix("run="))
    place = folder_of(lake.journals, run) / f"{path.stem}.parquet"
    if path.suffix == GROWING_SUFFIX and not path.stat().st_size:
        return JournalReport(path, run, added=False)  # killed before it wrote anything
    temp = lake.temp / place.name
    temp.parent.mkdir(parents=True, exist_ok=True)
    try:
        events = _copy(path, temp)
    except InputError as error:
        if not path.exists():
            raise FileNotFoundError(path) from error
        aside = lake.rejected / place.parent.name / path.name
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, aside)
        return JournalReport(path, run, added=False, reason=str(error))
    if place.exists():
        if _same(temp, place):
            return JournalReport(path, run, added=False, events=events)
        if not _of_stream(place):
            raise InputError(
                f"{path}: {lake.root} has another journal of run {run!r} and part {path.stem!r}; "
                "give one of them another name of its run"
            )
    place.parent.mkdir(parents=True, exist_ok=True)
    temp.replace(place)
    return JournalReport(path, run, added=True, events=events)


def _copy(path: Path, to: Path) -> int:
    """Copy the file, or what a growing log holds, as Parquet; returns how many events it has."""
    arrow = require_pyarrow()
    try:
        if path.suffix == GROWING_SUFFIX:
            table = read_growing_log(path)
            _check(table.schema)
            metadata = {**table.schema.metadata, _STREAM_KEY: identity_of(path).encode()}
            arrow.parquet.write_table(
                table.replace_schema_metadata(metadata), to, compression="zstd"
            )
            return len(table)
        with arrow.parquet.ParquetFile(path) as file:
            _check(file.schema_arrow)
            shutil.copyfile(path, to)
            return int(file.metadata.num_rows)
    except (arrow.ArrowException, OSError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(f"cannot be read as a journal ({line})") from error


def _check(schema: Any) -> None:
    metadata = schema.metadata or {}
    if HEADER_KEY not in metadata or VERSION_KEY not in metadata:
        raise InputError("no journal, but some other file: it has no header")
    version = metadata[VERSION_KEY].decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise InputError(f"schema version {version}, and this semcast reads {SCHEMA_VERSION}")
    for field in arrow_schema(with_run=False):
        at = schema.get_field_index(field.name)
        if at < 0 or schema.field(at).type != field.type:
            raise InputError(f"column {field.name!r} is missing or not {field.type}")


def _of_stream(path: Path) -> bool:
    metadata = require_pyarrow().parquet.read_schema(path).metadata or {}
    return _STREAM_KEY in metadata


def _same(one: Path, other: Path) -> bool:
    def digest(path: Path) -> bytes:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()

    return one.stat().st_size == other.stat().st_size and digest(one) == digest(other)
