"""A journal that grows while things happen: batches of events in, one file for one life out.

Parquet has its index at the end, so a process that is killed would leave nothing readable. So
events go into an Arrow stream first, `<node>.arrows`, which can be read as far as it goes, whatever
happened to its writer. A life that ends as it should turns it into `<node>.parquet`. This file
knows neither threads nor what the events mean.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from semcast.journal.event import Event
from semcast.journal.header import Header
from semcast.journal.rows import batch_of, folder_of, schema_of
from semcast.journal.schema import ArrowTable, require_pyarrow

GROWING_SUFFIX: Final = ".arrows"
FINAL_SUFFIX: Final = ".parquet"
_BATCHES_PER_GROUP: Final = 64
# An Arrow stream begins with this, how long its schema is, and the schema.
_CONTINUES: Final = b"\xff\xff\xff\xff"
_HEAD_BYTES: Final = 8
_SCHEMA_BYTES_MAX: Final = 1 << 20


class LogWriter:
    """Writes the journal of one node. Raises OSError if the disk refuses."""

    def __init__(self, directory: str | Path, header: Header) -> None:
        """The header says which node this is."""
        assert header.node
        self._arrow: Final = require_pyarrow()
        require_ipc()
        self._header: Final = header
        self._schema: Final = schema_of(header)
        folder = folder_of(directory, header.run)
        folder.mkdir(parents=True, exist_ok=True)
        self.path: Final = folder / f"{header.node}{GROWING_SUFFIX}"
        self._file: Final[Any] = self._arrow.OSFile(str(self.path), "wb")
        options = self._arrow.ipc.IpcWriteOptions(compression="zstd")
        self._writer: Final[Any] = self._arrow.ipc.new_stream(
            self._file, self._schema, options=options
        )

    def write(self, rows: list[Event]) -> None:
        """These events are on the file when this returns, though maybe not on the disk."""
        if rows:
            batch = batch_of(self._arrow, self._schema, rows, self._header.group)
            self._writer.write_batch(batch)
            self._file.flush()

    def close(self) -> None:
        """Close the file and leave it as a stream."""
        self._writer.close()
        self._file.close()

    def finish(self, left_out: int) -> Path:
        """The life is over: turn the stream into a Parquet file, which replaces it."""
        self.close()
        schema = schema_of(replace(self._header, left_out=left_out))
        path = self.path.with_suffix(FINAL_SUFFIX)
        unfinished = self.path.with_name(f".{self._header.node}.unfinished")
        with (
            self._arrow.OSFile(str(self.path)) as file,
            self._arrow.ipc.open_stream(file) as stream,
            self._arrow.parquet.ParquetWriter(
                unfinished, schema, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            for batches in _grouped(stream):
                table = self._arrow.Table.from_batches(batches)
                writer.write_table(table.replace_schema_metadata(schema.metadata))
        unfinished.replace(path)
        self.path.unlink()
        return path


def _grouped(stream: Iterable[Any]) -> Iterator[list[Any]]:
    """The small batches of a stream, as many together as make a good row group."""
    group: list[Any] = []
    for batch in stream:
        group.append(batch)
        if len(group) >= _BATCHES_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def has_begun(path: Path) -> bool:
    """Whether a log has its head, which says what is in it; without it nothing was written yet.

    A log that is gone was finished since it was found: its final file is there instead.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return False
    if len(head) < _HEAD_BYTES:
        return False
    schema_bytes = int.from_bytes(head[4:], "little")
    # What does not look like a stream is let through: reading it gives a clear error.
    is_one = head[:4] == _CONTINUES and schema_bytes <= _SCHEMA_BYTES_MAX
    return not is_one or size >= _HEAD_BYTES + schema_bytes


def finished(path: Path) -> Path | None:
    """The final file of a stream that its writer has finished since it was found, if it has."""
    final = path.with_suffix(FINAL_SUFFIX)
    gone = path.suffix == GROWING_SUFFIX and not path.exists()
    return final if gone and final.exists() else None


def read_growing_log(path: Path) -> ArrowTable:
    """All whole batches of a log. The batch that its writer was killed over is left out."""
    arrow = require_ipc()
    batches = []
    with arrow.OSFile(str(path)) as file, arrow.ipc.open_stream(file) as stream:
        schema = stream.schema
        while True:
            try:
                batch = stream.read_next_batch()
                batch.validate(full=True)
                batches.append(batch)
            except (StopIteration, arrow.ArrowException, OSError):
                return arrow.Table.from_batches(batches, schema)


def require_ipc() -> Any:
    """The module pyarrow, with its part that reads and writes streams."""
    arrow = require_pyarrow()
    import importlib

    importlib.import_module("pyarrow.ipc")
    return arrow
