"""How many rows in; a journal and a trace of so many rows in a folder out, made once each.

Vectorised, chunk by chunk: memory stays small, and fifty million rows take a minute or two. What is
there whole is used again; a file that was not finished has another name and is made anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyarrow import csv, parquet  # type: ignore[import-untyped]

from bench import spark_journal
from semcast.journal.schema import require_pyarrow

pa: Any = require_pyarrow()

SENDERS: Final = 8
KEYS: Final = 5_000
# Of all messages; they are never replaced.
UNKEYED_SHARE: Final = 0.2
RATE_MSG_S: Final = 1_000.0
RUN: Final = "bench"
TRACE: Final = "bench"
_CHUNK_ROWS: Final = 1_000_000


@dataclass(frozen=True)
class Data:
    """Where the data of one size are. The lake is filled by the benchmark itself: that is timed."""

    folder: Path
    rows: int

    @property
    def journal(self) -> Path:
        return self.folder / f"journal-{self.rows}"

    @property
    def trace(self) -> Path:
        return self.folder / f"trace-{self.rows}" / f"{TRACE}.csv"

    @property
    def lake(self) -> Path:
        return self.folder / f"lake-{self.rows}"


def make_journal(data: Data) -> int:
    """Write the journal if it is not there; how many events it has."""
    if not data.journal.is_dir():
        unfinished = data.journal.with_name(data.journal.name + ".unfinished")
        spark_journal.write(unfinished, data.rows, RUN)
        unfinished.rename(data.journal)
    files = sorted(data.journal.glob("run=*/*.parquet"))
    return sum(parquet.read_metadata(file).num_rows for file in files)


def make_trace(data: Data) -> int:
    """Write the trace as CSV if it is not there; how many rows it has."""
    if not data.trace.exists():
        data.trace.parent.mkdir(parents=True, exist_ok=True)
        unfinished = data.trace.with_name(data.trace.name + ".unfinished")
        writer = None
        for table in _tables(data.rows):
            writer = writer or csv.CSVWriter(unfinished, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        unfinished.rename(data.trace)
    return data.rows


def _tables(rows: int, seed: int = 1) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    keys = pa.array([f"k{number}" for number in range(KEYS)] + [""])
    senders = pa.array([f"p{number}.1" for number in range(SENDERS)])
    kinds = pa.array(["update", "event"])
    last_s = 0.0
    for first in range(0, rows, _CHUNK_ROWS):
        count = min(_CHUNK_ROWS, rows - first)
        unkeyed = rng.random(count) < UNKEYED_SHARE
        key = np.where(unkeyed, KEYS, np.minimum(rng.zipf(1.2, count) - 1, KEYS - 1))
        time_s = last_s + np.cumsum(rng.exponential(1 / RATE_MSG_S, count))
        last_s = float(time_s[-1])
        yield pa.table(
            {
                "time_s": np.round(time_s, 6),
                "sender": _named(senders, rng.integers(0, SENDERS, count)),
                "key": _named(keys, key),
                "kind": _named(kinds, unkeyed),
                "size": rng.integers(20, 1_400, count, np.int32),
            }
        )


def _named(names: Any, numbers: Any) -> Any:
    indices = pa.array(numbers.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, names).cast(pa.string())
