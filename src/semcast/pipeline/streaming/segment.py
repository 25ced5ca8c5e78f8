"""One file of a spool: frames with a checksum each, in; whole frames out, whatever is torn.

A segment is named after its first row. Its first frame is what was seen before it (`seen`), all
others are rows as an Arrow record batch, so that a task reads them without looking at each. Knows
nothing of groups, threads or Spark's offsets.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from semcast.errors import InputError

SEEN: Final = b"seen"
ROWS: Final = b"rows"
SUFFIX: Final = ".spool"
# Kind, bytes of the body, number of its first row, how many rows, checksum of all of that.
_HEADER: Final = struct.Struct("<4sIQII")
_UNCHECKED_BYTES: Final = _HEADER.size - 4
# What members send: docs/pipeline/stream.md says what each column means.
SCHEMA: Final = (
    "sender string, life bigint, seq bigint, key string, payload binary, sent_ns bigint, "
    "received_ns bigint, skipped array<bigint>, offset bigint"
)


class Frame(NamedTuple):
    """A whole frame, and where it ends in its file."""

    kind: bytes
    first: int
    rows: int
    body: memoryview
    end: int


def arrow_schema() -> pa.Schema:
    """SCHEMA as Arrow writes it, and as Spark expects it of a source."""
    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "array<bigint>": pa.list_(pa.field("element", pa.int64())),
    }
    columns = (column.split(" ") for column in SCHEMA.split(", "))
    return pa.schema([(name, types[kind]) for name, kind in columns])


def name_of(first: int) -> str:
    """The file whose first row has this number."""
    return f"{first:020d}{SUFFIX}"


def frame(kind: bytes, first: int, rows: int, body: bytes | memoryview) -> bytes:
    """The bytes of one frame."""
    begin = _HEADER.pack(kind, len(body), first, rows, 0)[:_UNCHECKED_BYTES]
    check = zlib.crc32(body, zlib.crc32(begin))
    return begin + check.to_bytes(4, "little") + body


def frames(data: bytes) -> Iterator[Frame]:
    """All frames from the beginning up to the first that is torn or damaged."""
    view = memoryview(data)
    at = 0
    while at + _HEADER.size <= len(view):
        kind, size, first, rows, check = _HEADER.unpack_from(view, at)
        body_at = at + _HEADER.size
        body = view[body_at : body_at + size]
        if len(body) < size or kind not in (SEEN, ROWS):
            return
        if zlib.crc32(body, zlib.crc32(view[at : at + _UNCHECKED_BYTES])) != check:
            return
        at = body_at + size
        yield Frame(kind, first, rows, body, at)


def batches(path: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows from `start` up to but not including `end` that this segment must hold."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; is the spool in a folder that all machines of "
            "the cluster share?"
        ) from None
    schema = arrow_schema()
    at = start
    for one in frames(data):
        if one.kind == ROWS and one.first <= at < min(one.first + one.rows, end):
            batch = pa.ipc.read_record_batch(pa.py_buffer(one.body), schema)
            last = min(one.first + one.rows, end)
            yield batch.slice(at - one.first, last - at)
            at = last
    if at < end:
        raise InputError(f"{path} has rows up to {at}, and {end} were promised; it is damaged")


def sync_folder(folder: Path) -> None:
    """Make sure that the names of the folder's files are on the disk."""
    fileno = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fileno)
    finally:
        os.close(fileno)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file such that it is on the disk with all of its bytes, or not there at all."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
