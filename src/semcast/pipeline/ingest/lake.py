"""The folder that `semcast ingest` fills: where everything is, who is in it, and nothing by halves.

    OUT/traces/trace=<name>/source=<identity>/*.parquet      good rows, in order
    OUT/_rejected/trace=<name>/source=<identity>/*.parquet   bad rows, each with its reason
    OUT/journals/run=<name>/<part>.parquet                   journals, as they were
    OUT/_temp/                                               work of an ingest that goes on

A source is one input file; its folder is put in its place by one rename when everything of it is
written, so it is there whole or not at all. Its identity is made of name, size and content. Knows
no Spark.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from semcast.errors import InputError

_CHUNK_BYTES: Final = 1 << 20


class Lake:
    """One such folder."""

    def __init__(self, root: str | Path) -> None:
        self.root: Final = Path(root)
        self.traces: Final = self.root / "traces"
        self.journals: Final = self.root / "journals"
        self.rejected: Final = self.root / "_rejected"
        self.temp: Final = self.root / "_temp"

    def trace_folder(self, trace: str) -> Path:
        """Where the rows of a trace are."""
        return self.traces / _named(trace)

    def source_folder(self, trace: str, source: str) -> Path:
        """Where those of one input file are: it is in the lake if this folder is."""
        return self.trace_folder(trace) / f"source={source}"

    def rejected_folder(self, trace: str, source: str) -> Path:
        """Where its bad rows are, if it had any."""
        return self.rejected / _named(trace) / f"source={source}"

    def trace_names(self) -> list[str]:
        """All traces that are there."""
        return sorted(_name_of(path) for path in self.traces.glob("trace=*"))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers out meanwhile, after removing what a killed ingest left behind."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.root / ".ingest.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"cannot write to {self.root}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"another ingest writes to {self.root}; wait until it is done"
                ) from error
            self._clean()
            yield
            self._clean()
        finally:
            os.close(handle)

    def commit(self, trace: str, source: str, rows: Path, bad: Path) -> None:
        """Put what was written for one input file in its place; either folder may be missing."""
        aside = self.rejected_folder(trace, source)
        if aside.exists():  # of an ingest that was killed between the two renames
            shutil.rmtree(aside)
        if bad.is_dir():
            aside.parent.mkdir(parents=True, exist_ok=True)
            bad.rename(aside)
        # A file without a good row leaves an empty folder, which says that it was here.
        rows.mkdir(parents=True, exist_ok=True)
        place = self.source_folder(trace, source)
        place.parent.mkdir(parents=True, exist_ok=True)
        rows.rename(place)

    def _clean(self) -> None:
        shutil.rmtree(self.temp, ignore_errors=True)


def is_lake(path: Path) -> bool:
    """Whether an ingest has put traces there."""
    return any((path / "traces").glob("trace=*"))


def identity_of(path: Path) -> str:
    """The same for the same file, wherever it is: name, size and content."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _named(trace: str) -> str:
    return f"trace={quote(trace, safe='')}"


def _name_of(path: Path) -> str:
    return unquote(path.name.removeprefix("trace="))
