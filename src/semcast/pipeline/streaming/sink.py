"""The sink: rows of a stream in, messages of one member out, a batch at a time.

Tasks check their rows and hand them to the driver with their commit message. There the batch goes
into the outbox, and a process of its own (`sender`), which stays a member from batch to batch,
multicasts it; Spark makes a new writer for every batch, so none of these could. The batch is done
when the whole group has it.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from semcast.errors import ConfigError, GroupClosedError, InputError
from semcast.pipeline.streaming.options import SinkOptions
from semcast.pipeline.streaming.outbox import Outbox

_PATIENCE_S: Final = 0.005
_STARTS_MAX: Final = 3
# Those that were started here and may still run: whoever starts a process also sees it end.
_processes: Final[list[subprocess.Popen[bytes]]] = []
_COLUMNS: Final = {"payload": ("binary", "string"), "key": ("string",)}


@dataclass
class Rows(WriterCommitMessage):
    """What one task has for the group: an Arrow stream of payloads and keys."""

    data: bytes


class GroupWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a query into a group."""

    def __init__(
        self,
        options: SinkOptions | None,
        schema: StructType | None,
        limits: tuple[int, int] = (0, 0),
    ) -> None:
        self._options: Final = options
        # The largest payload, and the largest batch, in bytes.
        self._limits: Final = (
            limits
            if options is None
            else (options.config.message_bytes_max, options.batch_bytes_max)
        )
        if schema is not None:
            check_columns(schema)

    def __reduce__(self) -> tuple[type["GroupWriter"], tuple[None, None, tuple[int, int]]]:
        """Tasks get a writer that knows the limits, and no secret."""
        return GroupWriter, (None, None, self._limits)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Check the rows of a task and hand them to the driver; runs in the task."""
        found = pa.Table.from_batches([_narrow(batch) for batch in iterator], _schema())
        _check_rows(found, *self._limits)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, found.schema) as writer:
            writer.write_table(found)
        return Rows(stream.getvalue().to_pybytes())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send the batch unless it was sent before, in order of partitions; runs on the driver."""
        assert self._options is not None, "tasks commit nothing"
        outbox = outbox_of(self._options)
        if outbox.sent() >= batchId:
            return
        parts = [message.data for message in messages if isinstance(message, Rows)]
        size_bytes = sum(len(part) for part in parts)
        if size_bytes > self._options.batch_bytes_max:
            raise InputError(
                f"batch {batchId} has {size_bytes} bytes, and {self._options.batch_bytes_max} are "
                "allowed; let the source give less at a time, or raise batch_bytes_max"
            )
        rows = pa.concat_tables([_schema().empty_table(), *(_table(part) for part in parts)])
        if len(rows):
            outbox.put(batchId, rows)
            send(self._options, outbox, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: nothing was sent."""


def outbox_of(options: SinkOptions) -> Outbox:
    """The folder of this query."""
    return Outbox(options.sent, options.config.group, options.query)


def send(options: SinkOptions, outbox: Outbox, batch_id: int) -> None:
    """Wait until the member has sent it; start the member's process if there is none."""
    process: subprocess.Popen[bytes] | None = None
    starts = 0
    while outbox.sent() < batch_id:
        text = outbox.failure()
        if text:
            raise GroupClosedError(text)
        if (process is None or process.poll() is not None) and not outbox.in_use():
            if starts == _STARTS_MAX:
                raise GroupClosedError(
                    f"the process that sends to {options.config.group!r} ended {starts} times "
                    f"without a word, last with {process and process.returncode}"
                )
            process = _start(options)
            starts += 1
        time.sleep(_PATIENCE_S)


def _start(options: SinkOptions) -> subprocess.Popen[bytes]:
    """Start the sender. The secret goes through a pipe: arguments and variables would show it."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "semcast.pipeline.streaming.sender"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
        # Not ended with the worker that started it, which Spark may do at any time.
        start_new_session=True,
    )
    _processes[:] = [one for one in _processes if one.poll() is None]
    _processes.append(process)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(options))
    process.stdin.close()
    return process


# -- rows ------------------------------------------------------------------------------------------


def check_columns(schema: StructType) -> None:
    """Raises ConfigError unless a frame of this schema can be sent."""
    found = {one.name: one.dataType.simpleString() for one in schema}
    if "payload" not in found:
        raise ConfigError(f"no column payload in {', '.join(found) or 'no columns'}; add one")
    for name, kind in found.items():
        if name not in _COLUMNS:
            raise ConfigError(f"column {name!r} would not be sent; select payload and key only")
        if kind not in _COLUMNS[name]:
            raise ConfigError(f"column {name} is {kind}; it must be {' or '.join(_COLUMNS[name])}")


def _schema() -> pa.Schema:
    return pa.schema([("payload", pa.binary()), ("key", pa.string())])


def _narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Payload as bytes, and a key, if only none."""
    names = batch.schema.names
    payload = batch.column(names.index("payload")).cast(pa.binary())
    key = (
        batch.column(names.index("key")).cast(pa.string())
        if "key" in names
        else pa.nulls(len(batch), pa.string())
    )
    return pa.RecordBatch.from_arrays([payload, key], schema=_schema())


def _check_rows(rows: pa.Table, payload_bytes_max: int, batch_bytes_max: int) -> None:
    missing = rows["payload"].null_count
    if missing:
        raise InputError(f"{missing} of {len(rows)} rows have no payload; filter them out")
    largest = pc.max(pc.binary_length(rows["payload"])).as_py() or 0
    if largest > payload_bytes_max:
        raise InputError(
            f"a payload has {largest} bytes, and the group takes {payload_bytes_max}; "
            "raise message_bytes_max on every member"
        )
    if rows.nbytes > batch_bytes_max:
        raise InputError(
            f"one task of a batch has {rows.nbytes} bytes, and {batch_bytes_max} are allowed; let "
            "the source give less at a time, or raise batch_bytes_max"
        )


def _table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
