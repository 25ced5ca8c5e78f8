"""What one batch of a stream shows of its group: rows of a source in, one row a sender or key out.

It judges what one member's deliveries show (SRM §3.2): with order "fifo", that the numbers of each
sender rise, and that each number that is not there is named as skipped; with "key", that they rise
within each key and that none comes twice. `book`, which knows the last number of each, judges what
lies across batches.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

# Distances are counted by their number of bits: 1, 2–3, 4–7, …
BITS_MAX: Final = 63
EXAMPLES_MAX: Final = 5
SENDER_SCHEMA: Final = (
    "sender string, life bigint, messages bigint, bytes bigint, first_seq bigint, "
    "first_skipped bigint, last_seq bigint, skipped bigint, distances array<bigint>, "
    "age_ms_p50 double, age_ms_p99 double, violations bigint, examples array<string>"
)
KEY_SCHEMA: Final = (
    "sender string, life bigint, key string, messages bigint, first_seq bigint, last_seq bigint"
)
_KEYS_OF_A_ROW: Final = ("sender", "life")


def by_sender(rows: DataFrame, order: str) -> DataFrame:
    """SENDER_SCHEMA: how much each life of a sender sent, and what is wrong with it."""

    def judge(table: pa.Table) -> pa.Table:
        return _judge(table, order)

    return rows.groupBy(*_KEYS_OF_A_ROW).applyInArrow(judge, SENDER_SCHEMA)


def by_key(rows: DataFrame) -> DataFrame:
    """KEY_SCHEMA: how often each key of a sender came, and from where to where."""
    keyed = rows.where(f.col("key").isNotNull())
    return keyed.groupBy("sender", "life", "key").agg(
        f.count("*").alias("messages"),
        f.min("seq").alias("first_seq"),
        f.max("seq").alias("last_seq"),
    )


def _judge(table: pa.Table, order: str) -> pa.Table:
    table = table.sort_by("offset")
    seq = table["seq"].to_numpy()
    skipped = pc.list_value_length(table["skipped"]).to_numpy()
    age_ms = (table["received_ns"].to_numpy() - table["sent_ns"].to_numpy()) / 1e6
    codes = pc.fill_null(table["key"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
    steps, later = _steps_by_key(seq, codes)
    wrong = _fifo(seq, skipped) if order == "fifo" else _by_key(seq, steps, later)
    distances = np.bincount(
        np.log2(np.maximum(steps[steps > 0], 1)).astype(np.int64), minlength=BITS_MAX
    )
    return pa.table(
        {
            "sender": [table["sender"][0].as_py()],
            "life": [table["life"][0].as_py()],
            "messages": [len(seq)],
            "bytes": [pc.sum(pc.binary_length(table["payload"])).as_py() or 0],
            "first_seq": [int(seq[0])],
            "first_skipped": [int(skipped[0])],
            "last_seq": [int(seq[-1])],
            "skipped": [int(skipped.sum())],
            "distances": [distances[:BITS_MAX].tolist()],
            "age_ms_p50": [float(np.quantile(age_ms, 0.5))],
            "age_ms_p99": [float(np.quantile(age_ms, 0.99))],
            "violations": [len(wrong)],
            "examples": pa.array([wrong[:EXAMPLES_MAX]], pa.list_(pa.string())),
        }
    )


def _steps_by_key(seq: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From each message to the one before it of its key: how far in numbers; and that message."""
    keyed = np.flatnonzero(codes >= 0)
    ordered = keyed[np.argsort(codes[keyed], kind="stable")]
    same = codes[ordered][1:] == codes[ordered][:-1]
    return (seq[ordered][1:] - seq[ordered][:-1])[same], ordered[1:][same]


def _fifo(seq: np.ndarray, skipped: np.ndarray) -> list[str]:
    steps = seq[1:] - seq[:-1]
    found = [f"#{seq[at + 1]} came after #{seq[at]}" for at in np.flatnonzero(steps <= 0)]
    missing = steps - 1 - skipped[1:]
    found += [
        f"{missing[at]} of the numbers between #{seq[at]} and #{seq[at + 1]} are missing and "
        "were not skipped"
        for at in np.flatnonzero((missing > 0) & (steps > 0))
    ]
    return found


def _by_key(seq: np.ndarray, steps: np.ndarray, later: np.ndarray) -> list[str]:
    found = [f"#{seq[at]} came after a newer one of its key, or twice" for at in later[steps <= 0]]
    twice, counts = np.unique(seq, return_counts=True)
    return found + [f"#{number} came twice" for number in twice[counts > 1]]
