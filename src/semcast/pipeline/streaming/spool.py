"""The spool: messages that a member took in, numbered rows on disk out, nothing lost or doubled.

A live group cannot be asked for the past, so what a member took is written down before Spark hears
of it. A folder of segments (`segment`) is numbered through by row; Spark's offsets are row numbers.
What was appended survives the end of this process; what was `sync`ed survives the machine's, and
Spark hears only of that. One process has the folder at a time. This file knows nothing of Spark,
nor of how messages come.
"""

import fcntl
import itertools
import json
import os
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

from semcast.errors import InputError
from semcast.journal.names import keys_text
from semcast.pipeline.streaming.seen import Seen
from semcast.pipeline.streaming.segment import (
    ROWS,
    SEEN,
    SUFFIX,
    Frame,
    arrow_schema,
    frame,
    frames,
    name_of,
    sync_folder,
    write_whole,
)

if TYPE_CHECKING:
    from semcast.wire.message import Message

VERSION: Final = 1
SEGMENT_BYTES: Final = 8 << 20
_SEGMENTS_MIN: Final = 8
_IDENTITY: Final = "spool.json"
_LOCK: Final = "lock"
# A query that was stopped or killed a moment ago may still hold the lock, so we wait this long.
LOCK_WAIT_S: Final = 5.0


class FolderLock:
    """A folder for one process; freed by the kernel however that process ends."""

    def __init__(self, folder: Path, wait_s: float = LOCK_WAIT_S) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: Final[IO[str]] = (folder / _LOCK).open("a+")
        until_s = time.monotonic() + wait_s
        while not self._try():
            if time.monotonic() >= until_s:
                self._file.seek(0)
                owner = self._file.read().strip()
                self._file.close()
                raise InputError(
                    f"{folder} is in use by process {owner or 'of another machine'}; two queries "
                    "cannot share it: stop the other one, or give this one a folder of its own"
                )
            time.sleep(0.05)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the folder back."""
        self._file.close()


class Spool:
    """A folder of segments, open for writing. All methods may be called from several threads."""

    def __init__(
        self,
        folder: Path,
        identity: dict[str, str],
        bytes_max: int,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        """`identity` says whose spool it is; a folder of somebody else is refused."""
        self.folder: Final = folder
        self._bytes_max: Final = bytes_max
        self._segment_bytes: Final = max(1, min(SEGMENT_BYTES, bytes_max // _SEGMENTS_MIN))
        self._schema: Final = arrow_schema()
        self._seen: Final = Seen(identity["order"] == "key")
        # Guards all below; notified whenever rows are forgotten.
        self._room: Final = threading.Condition()
        # By the number of its first row, in order: the bytes of each segment.
        self._segments: Final[dict[int, int]] = {}
        self._folder_lock: Final = FolderLock(folder, lock_wait_s)
        try:
            self.id: Final = self._identify(identity)
            # The number that the next row gets.
            self._end = self._recover()
            self._file = self._open_last()
        except BaseException:
            self._folder_lock.close()
            raise
        self._synced = self._end

    # -- opening -----------------------------------------------------------------------------------

    def _identify(self, identity: dict[str, str]) -> str:
        path = self.folder / _IDENTITY
        try:
            found = json.loads(path.read_text())
            if found["version"] != VERSION:
                raise InputError(
                    f"{self.folder} is a spool of version {found['version']}, and this semcast "
                    f"writes version {VERSION}; use another folder"
                )
            kept = {name: str(found[name]) for name in identity}
            spool_id = str(found["spool"])
        except FileNotFoundError:
            spool_id = uuid.uuid4().hex
            contents = {"version": VERSION, "spool": spool_id} | identity
            write_whole(path, json.dumps(contents).encode())
            return spool_id
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not that of a spool: {error}") from None
        for name, value in identity.items():
            if kept[name] != value:
                raise InputError(
                    f"{self.folder} is the spool of {name} {kept[name]!r}, not of {value!r}; "
                    "give this query a folder of its own"
                )
        return spool_id

    def _recover(self) -> int:
        """Find the segments and cut a torn end; returns how many rows there ever were."""
        paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        end = 0
        for path in paths:
            first = int(path.stem)
            if self._segments and first != end:
                raise InputError(
                    f"{self.folder}: rows from {end} to {first} are missing; the spool is damaged, "
                    "begin with a new folder and a new checkpoint"
                )
            data = path.read_bytes()
            whole = list(frames(data))
            end = whole[-1].first + whole[-1].rows if whole else first
            self._segments[first] = len(data)
            if path is paths[-1]:
                self._cut(path, first, whole)
        if not paths:
            self._begin_segment(0)
        return end

    def _cut(self, path: Path, first: int, whole: list[Frame]) -> None:
        """The last segment, up to its last whole frame; and what was seen by then."""
        if not whole or whole[0].kind != SEEN:
            raise InputError(f"{path} does not begin as a segment does; the spool is damaged")
        os.truncate(path, whole[-1].end)
        self._segments[first] = whole[-1].end
        self._seen.load(whole[0].body)
        for one in whole[1:]:
            batch = pa.ipc.read_record_batch(pa.py_buffer(one.body), self._schema)
            columns = [batch.column(name).to_pylist() for name in ("sender", "life", "seq", "key")]
            self._seen.add(zip(*columns, strict=True))

    def _begin_segment(self, first: int) -> None:
        data = frame(SEEN, first, 0, self._seen.dump())
        write_whole(self.folder / name_of(first), data)
        self._segments[first] = len(data)

    def _open_last(self) -> IO[bytes]:
        return (self.folder / name_of(max(self._segments))).open("ab", buffering=0)

    # -- writing -----------------------------------------------------------------------------------

    def append(self, messages: "Sequence[Message]", received_ns: int) -> int:
        """Write down what is new of these; returns how many rows that made."""
        with self._room:
            # Before anything of these is noted as seen: a segment begins with what is on disk.
            self._roll_if_full()
            rows = [row for row in map(self._row, messages) if row is not None]
            if rows:
                self._write(frame(ROWS, self._end, len(rows), self._body(rows, received_ns)))
                self._end += len(rows)
            return len(rows)

    def _row(self, message: "Message") -> tuple[Any, ...] | None:
        """As SCHEMA has it, but for when it came and its number; None if it was seen before."""
        sender, life, seq = message.sender, int(message.source.incarnation), int(message.seq)
        key = keys_text(message.keys)
        last = self._seen.last(sender, life)
        if not self._seen.is_new(sender, life, seq, key):
            return None
        skipped: Sequence[int] = message.skipped
        if skipped and skipped[0] <= last:
            # A life before this one took these, or said that they were skipped.
            skipped = [number for number in skipped if number > last]
        return sender, life, seq, key, message.payload, int(message.sent_ns), skipped

    def _body(self, rows: list[tuple[Any, ...]], received_ns: int) -> memoryview:
        *parts, skipped = zip(*rows, strict=True)
        numbers = range(self._end, self._end + len(rows))
        columns: list[Sequence[Any]] = [*parts, [received_ns] * len(rows), skipped, numbers]
        arrays = [
            pa.array(column, one.type) for column, one in zip(columns, self._schema, strict=True)
        ]
        return memoryview(pa.RecordBatch.from_arrays(arrays, schema=self._schema).serialize())

    def _write(self, data: bytes) -> None:
        first = max(self._segments)
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            # Half a frame must not stay: what comes after it would be out of reach.
            os.ftruncate(self._file.fileno(), self._segments[first])
            raise InputError(f"cannot write the spool {self.folder}: {error.strerror}") from None
        self._segments[first] += len(data)

    def _roll_if_full(self) -> None:
        first = max(self._segments)
        if self._segments[first] >= self._segment_bytes and self._end > first:
            os.fsync(self._file.fileno())
            self._file.close()
            self._begin_segment(self._end)
            self._file = self._open_last()

    def wait_room(self, timeout_s: float) -> bool:
        """Wait until there is room for more rows; False if there is none in time."""
        with self._room:
            return self._room.wait_for(self._has_room, timeout_s)

    def _has_room(self) -> bool:
        return sum(self._segments.values()) < self._bytes_max

    # -- reading and forgetting --------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The number of the first row that is still there."""
        with self._room:
            return min(self._segments)

    @property
    def size_bytes(self) -> int:
        """What the segments take on disk."""
        with self._room:
            return sum(self._segments.values())

    def sync(self) -> int:
        """The number after the last row; all before it are on the disk when this returns."""
        with self._room:
            if self._synced < self._end:
                os.fsync(self._file.fileno())
                self._synced = self._end
            return self._end

    def pieces(self, start: int, end: int) -> list[tuple[str, int, int]]:
        """Which file has which of these rows: its path, the first, and the one after the last."""
        with self._room:
            firsts = sorted(self._segments)
            found = []
            for first, following in zip(firsts, [*firsts[1:], self._end], strict=True):
                low, high = max(first, start), min(following, end)
                if low < high:
                    found.append((str(self.folder / name_of(first)), low, high))
            return found

    def forget(self, row: int) -> None:
        """Delete the segments of rows before this one, which Spark has dealt with for ever."""
        with self._room:
            if row >= self._end:
                self._roll_if_full()
            firsts = sorted(self._segments)
            for first, following in itertools.pairwise(firsts):
                if following <= row:
                    (self.folder / name_of(first)).unlink(missing_ok=True)
                    del self._segments[first]
            sync_folder(self.folder)
            self._room.notify_all()

    def close(self) -> None:
        """Give the folder back to other processes. Harmless when repeated."""
        with self._room:
            if not self._file.closed:
                os.fsync(self._file.fileno())
                self._file.close()
                self._folder_lock.close()
