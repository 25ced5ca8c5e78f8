"""One block of consecutive rows in, counts out that can be put together over all blocks.

Distances within the block are counted here at once. For those that cross blocks every key leaves
its first and its last position, and every sender how many rows it has: see `totals`. Nothing is
sorted but small integers, so a million rows take a fraction of a second. Knows no Spark.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semcast.pipeline.ingest.blocks import Batch, Table, place_of
from semcast.pipeline.ingest.codes import (
    NARROW_MAX,
    Longs,
    Strings,
    encoded,
    own_position,
    stable_order,
)

# What a row of counts is about.
BLOCK: Final = "block"  # n rows; x of them have a time before that of the row above; times
REASON: Final = "reason"  # n rows were left out because of `key`
DISTANCE: Final = "distance"  # n rows replace the one x before them, in this block
KEY: Final = "key"  # n rows of this key, from position `first` to `last` of the block
SENDER: Final = "sender"  # n rows of this sender, of `bytes` in all
WINDOW: Final = "window"  # n rows in the x-th window of time
SIZE: Final = "size"  # n rows of x bytes

ARROW_SCHEMA: Final = pa.schema(
    [
        ("what", pa.string()),
        ("file", pa.int32()),
        ("start", pa.int64()),
        ("row", pa.int64()),
        ("sender", pa.string()),
        ("key", pa.string()),
        ("x", pa.int64()),
        ("n", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("bytes", pa.int64()),
        ("first_s", pa.float64()),
        ("last_s", pa.float64()),
        ("low_s", pa.float64()),
        ("high_s", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Question:
    """What is asked about some traffic."""

    # Whether distances count the messages of the same sender only; else they count all messages.
    per_sender: bool = False
    window_s: float = 1.0


def count_block(block: Table, question: Question) -> list[Batch]:
    """All counts of one block, as ARROW_SCHEMA."""
    place = place_of(block)
    out = [_about_reasons(block)]
    reasons = block.column("reason")
    all_good = reasons.null_count == block.num_rows  # as nearly always: then nothing is copied
    good = block if all_good else block.filter(pc.is_null(reasons)).combine_chunks()
    if good.num_rows:
        sizes = _longs(good, "size")
        senders, sender_of = encoded(good, "sender")
        out += [
            _about_block(good),
            *_about_keys(good, senders, sender_of, question.per_sender),
            _about_senders(senders, sender_of, sizes),
            _about_windows(good, question.window_s),
            _histogram(SIZE, sizes) if sizes is not None else {},
        ]
    return [_batch(place, **columns) for columns in out if columns]


def _batch(place: tuple[int, int, int], what: str, **columns: Any) -> Batch:
    """One kind of counts as a batch; columns that were not given are null."""
    rows = len(columns["n"])
    columns |= {
        "what": pa.repeat(what, rows),
        "file": np.full(rows, place[0]),
        "start": np.full(rows, place[1]),
        "row": np.full(rows, place[2]),
    }
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns
        else pa.nulls(rows, field.type)
        for field in ARROW_SCHEMA
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


# -- each kind of count ----------------------------------------------------------------------------


def _about_reasons(block: Table) -> dict[str, Any]:
    found = block.column("reason").drop_null().value_counts()
    if not len(found):
        return {}
    return {"what": REASON, "key": found.field("values"), "n": found.field("counts")}


def _about_block(good: Table) -> dict[str, Any]:
    times = good.column("time_s").drop_null().to_numpy()
    found = {"what": BLOCK, "n": [good.num_rows], "x": [np.count_nonzero(np.diff(times) < 0)]}
    if len(times):
        found |= {"first_s": times[:1], "last_s": times[-1:]}
        found |= {"low_s": [times.min()], "high_s": [times.max()]}
    return found


def _about_keys(
    good: Table, senders: Strings, sender_of: Longs, per_sender: bool
) -> list[dict[str, Any]]:
    """Where each key is first and last, and all distances between."""
    keys, key_of = encoded(good, "key")
    position = own_position(sender_of, len(senders)) if per_sender else np.arange(len(key_of))
    # An empty key replaces nothing and is not replaced.
    empty = pc.index(keys, "").as_py()
    keyed = np.flatnonzero(key_of != empty)
    if not len(keyed):
        return []
    group = key_of[keyed] * len(senders) + sender_of[keyed] if per_sender else key_of[keyed]
    order = stable_order(group, len(keys) * (len(senders) if per_sender else 1))
    group, at = group[order], position[keyed][order]
    new = np.flatnonzero(np.diff(group)) + 1
    begin, end = np.append(0, new), np.append(new, len(group))
    head = group[begin]
    key_at = head // len(senders) if per_sender else head
    about_keys = {
        "what": KEY,
        "key": keys.take(pa.array(key_at)),
        "n": end - begin,
        "first": at[begin],
        "last": at[end - 1],
    }
    if per_sender:
        about_keys["sender"] = senders.take(pa.array(head % len(senders)))
    steps = np.diff(at)
    return [about_keys, _histogram(DISTANCE, steps[np.diff(group) == 0])]


def _about_senders(senders: Strings, sender_of: Longs, sizes: Longs | None) -> dict[str, Any]:
    counts = np.bincount(sender_of, minlength=len(senders))
    found = {"what": SENDER, "sender": senders, "n": counts}
    if sizes is not None and len(sizes) == len(sender_of):
        weighed = np.bincount(sender_of, weights=sizes, minlength=len(senders))
        found["bytes"] = weighed.astype(np.int64)
    return found


def _about_windows(good: Table, window_s: float) -> dict[str, Any]:
    times = good.column("time_s").drop_null().to_numpy()
    if not len(times):
        return {}
    return _histogram(WINDOW, np.floor(times / window_s).astype(np.int64))


def _histogram(what: str, values: Longs) -> dict[str, Any]:
    """How often each value is there."""
    if not len(values):
        return {}
    low, high = int(values.min()), int(values.max())
    if high - low < 4 * len(values) + NARROW_MAX:
        counts = np.bincount(values - low)
        there = np.flatnonzero(counts)
        return {"what": what, "x": there + low, "n": counts[there]}
    found, counts = np.unique(values, return_counts=True)
    return {"what": what, "x": found, "n": counts}


# -- small tools -----------------------------------------------------------------------------------


def _longs(table: Table, name: str) -> Longs | None:
    """A column without its nulls; None if it has only nulls."""
    values = table.column(name).drop_null()
    if not len(values):
        return None
    found: Longs = values.cast(pa.int64()).to_numpy()
    return found
