"""The source: Spark's questions in, offsets and rows out of the spool of a member.

Spark keeps one process for the reader of a query, on the driver's machine, from its start to its
end: there the member lives (`taker`). Tasks have readers of their own, which only read files and
know neither options nor secrets. An offset is a row of the spool, and names the spool.
"""

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from semcast.errors import InputError
from semcast.pipeline.streaming.options import SourceOptions
from semcast.pipeline.streaming.segment import batches
from semcast.pipeline.streaming.spool import Spool
from semcast.pipeline.streaming.taker import Taker

Offset = dict[str, Any]


@dataclass
class Piece(InputPartition):
    """Rows of one segment, for one task."""

    path: str
    start: int
    end: int


class GroupReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a member of a live group receives."""

    def __init__(self, options: SourceOptions | None) -> None:
        self._options: Final = options
        self._spool: Spool | None = None
        self._taker: Taker | None = None
        # With the trigger availableNow: no row from here on, and no member.
        self._target: int | None = None

    def __reduce__(self) -> tuple[type["GroupReader"], tuple[None]]:
        """Tasks get a reader that knows nothing: what they need is in their piece."""
        return GroupReader, (None,)

    # -- what Spark asks, in the process of the query ----------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802
        """The first row that is still there."""
        spool = self._open()
        return {"spool": spool.id, "row": spool.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that the option names."""
        assert self._options is not None
        rows_max = self._options.rows_per_batch_max
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is in the spool by now is all there is: the group is not joined."""
        self._target = self._open().sync()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The row after the last that may be read; joins, if that was not done yet."""
        spool = self._open()
        row = self._row(spool, start)
        self._take()
        end = spool.sync() if self._target is None else self._target
        if row == end and not spool.wait_room(0.0):
            # Spark asks from where its last batch ended, which it has noted as done; but it commits
            # that to us only with the next batch, which will not come while there is no room.
            spool.forget(row)
        if isinstance(limit, ReadMaxRows):
            end = min(end, row + limit.max_rows)
        return {"spool": spool.id, "row": max(row, end)}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """What there is whatever the limit says, for Spark's progress reports."""
        return None if self._spool is None else {"spool": self._spool.id, "row": self._spool.sync()}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """One task for each segment that has some of these rows."""
        spool = self._open()
        first, last = self._row(spool, start), self._row(spool, end)
        self._take()
        return [Piece(*piece) for piece in spool.pieces(first, last)]

    def commit(self, end: Offset) -> None:
        """Spark has dealt with all rows before this one."""
        self._open().forget(int(end["row"]))

    def stop(self) -> None:
        """The query is over: leave the group."""
        if self._taker is not None:
            self._taker.stop()
        if self._spool is not None:
            self._spool.close()

    # -- what a task does --------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece."""
        assert isinstance(partition, Piece)
        return batches(Path(partition.path), partition.start, partition.end)

    # -- small parts -------------------------------------------------------------------------------

    def _open(self) -> Spool:
        if self._spool is None:
            assert self._options is not None, "only the reader of the query has a spool"
            given = self._options
            self._spool = Spool(given.spool, given.identity, given.spool_bytes_max)
        return self._spool

    def _take(self) -> None:
        """Start the member, unless this query only works off what is in the spool."""
        if self._target is not None:
            return
        if self._taker is None:
            assert self._options is not None
            _leave_when_terminated()
            self._taker = Taker(self._options.config, self._open())
            self._taker.start()
        self._taker.raise_failure()

    def _row(self, spool: Spool, offset: Offset) -> int:
        """The row that an offset means, if it is one of this spool."""
        row = int(offset["row"])
        if offset["spool"] != spool.id or not spool.first <= row <= spool.sync():
            raise InputError(
                f"the checkpoint is at row {row} of spool {offset['spool']}, and {spool.folder} is "
                f"spool {spool.id} with rows {spool.first} to {spool.sync()}: they do not belong "
                "together; use the folder that the checkpoint was made with, or a new checkpoint"
            )
        return row


def _leave_when_terminated() -> None:
    """Spark ends this process with SIGTERM; the others of the group must not wait for it then."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
