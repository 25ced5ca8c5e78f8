"""The outbox of a sink: batches in, and which of them the whole group has.

A folder with one file for each batch that is to be sent, and the number of the last that was. The
writer of a query puts batches in (`sink`), the process with the member takes them out (`sender`);
they share nothing else. Knows nothing of Spark or groups.
"""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa

from semcast.errors import InputError
from semcast.pipeline.streaming.segment import write_whole
from semcast.pipeline.streaming.spool import FolderLock

VERSION: Final = 1
NONE_YET: Final = -1
_SENT: Final = "sent.json"
_FAILED: Final = "failed"
_SUFFIX: Final = ".batch"
# Whoever only looks whether the lock is free holds it for a moment, so we try again.
_LOCK_WAIT_S: Final = 2.0


class Outbox:
    """One folder, as both sides see it."""

    def __init__(self, folder: Path, group: str, query: str) -> None:
        """`query` is the id of the query, if known: batches of another are numbered anew."""
        self.folder: Final = folder
        self._whose: Final = {"version": VERSION, "group": group, "query": query}
        folder.mkdir(parents=True, exist_ok=True)

    # -- the writer's side -------------------------------------------------------------------------

    def put(self, batch_id: int, rows: pa.Table) -> None:
        """Add a batch that is to be sent."""
        (self.folder / _FAILED).unlink(missing_ok=True)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_table(rows)
        write_whole(self._path(batch_id), stream.getvalue().to_pybytes())

    def failure(self) -> str:
        """Why the member could not go on, if so."""
        try:
            return (self.folder / _FAILED).read_text()
        except FileNotFoundError:
            return ""

    def in_use(self) -> bool:
        """Whether a process with a member is there."""
        try:
            FolderLock(self.folder, 0.0).close()
        except InputError:
            return True
        return False

    # -- the member's side -------------------------------------------------------------------------

    def lock(self) -> FolderLock:
        """Become the process with the member; raises InputError if another one is."""
        return FolderLock(self.folder, _LOCK_WAIT_S)

    def waiting(self) -> list[int]:
        """The batches that are to be sent, in order."""
        sent = self.sent()
        found = sorted(int(path.stem) for path in self.folder.glob(f"*{_SUFFIX}"))
        for batch_id in found:
            if batch_id <= sent:
                self._path(batch_id).unlink(missing_ok=True)
        return [batch_id for batch_id in found if batch_id > sent]

    def take(self, batch_id: int) -> pa.Table:
        """The rows of a batch; it stays there until it was sent."""
        with pa.ipc.open_stream(self._path(batch_id).read_bytes()) as reader:
            return reader.read_all()

    def note_sent(self, batch_id: int) -> None:
        """Note that the whole group has a batch: it is never sent again."""
        contents = self._whose | {"batch": batch_id}
        write_whole(self.folder / _SENT, json.dumps(contents).encode())
        self._path(batch_id).unlink(missing_ok=True)

    def note_failure(self, text: str) -> None:
        """Note why the member could not go on, for whoever waits."""
        write_whole(self.folder / _FAILED, text.encode())

    # -- both --------------------------------------------------------------------------------------

    def sent(self) -> int:
        """The last batch that the whole group has; NONE_YET if there is none of this query."""
        path = self.folder / _SENT
        try:
            found = json.loads(path.read_text())
            batch_id, group, query = int(found["batch"]), found["group"], found["query"]
        except FileNotFoundError:
            return NONE_YET
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} does not say what was sent: {error}") from None
        if group != self._whose["group"]:
            raise InputError(
                f"{self.folder} is of a sink into group {group!r}, not {self._whose['group']!r}; "
                "give this query a folder of its own"
            )
        return batch_id if query == self._whose["query"] else NONE_YET

    def _path(self, batch_id: int) -> Path:
        return self.folder / f"{batch_id:020d}{_SUFFIX}"
