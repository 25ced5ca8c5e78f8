"""A journal of any length, written in seconds: a plausible run that keeps every promise.

    python -m bench.spark_journal FOLDER --events 50000000

Senders take turns. Everybody receives each message at once; some members are slow readers, who get
to a message only `LAG` messages later and purge it if a replacement has come by then. Senders purge
what is replaced from retransmission, and everybody hears now and then what is stable. Vectorised,
chunk by chunk, so that memory stays small.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from semcast.journal import Header
from semcast.journal.rows import folder_of, schema_of
from semcast.journal.schema import require_pyarrow

pa: Any = require_pyarrow()

MEMBERS: Final = 8
SENDERS: Final = 4
SLOW: Final = 2
KEYS: Final = 1000
K: Final = 64
# In messages of all senders: how far a slow reader is behind, and how often stability is told.
LAG: Final = 64
STABLE_EVERY: Final = 256
_SLOTS_PER_CHUNK: Final = 1 << 16
_EVENTS: Final = ("multicast", "receive", "purge", "deliver", "stable")
_MULTICAST, _RECEIVE, _PURGE, _DELIVER, _STABLE = range(5)
_WHERE: Final = ("delivery", "retransmit")
_NANOSECONDS_PER_SLOT: Final = 1_000_000
Array = Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--run", default="bench")
    given = parser.parse_args()
    written = write(given.folder, given.events, given.run)
    print(f"{written:,} events in {folder_of(given.folder, given.run)}")


def header_of(run: str) -> Header:
    return Header(
        run=run,
        members=tuple(f"p{member}.1" for member in range(MEMBERS)),
        group="bench",
        k=K,
        f=1,
        delivery_messages=2 * LAG,
        window_messages=STABLE_EVERY,
    )


def write(folder: Path, events: int, run: str = "bench", seed: int = 1) -> int:
    """Write about so many events; how many they are."""
    header = header_of(run)
    schema = schema_of(header)
    target = folder_of(folder, run)
    target.mkdir(parents=True, exist_ok=True)
    slots = max(LAG, events // (2 * MEMBERS + 2))
    written = 0
    lsn = np.zeros(MEMBERS, np.int64)
    with pa.parquet.ParquetWriter(target / "journal.parquet", schema, compression="zstd") as writer:
        for rows in _chunks(_messages(slots, seed), slots):
            writer.write_table(_table(schema, header, rows, lsn), row_group_size=1 << 17)
            written += len(rows["slot"])
    return written


def _messages(slots: int, seed: int) -> dict[str, Array]:
    """By slot: the key, and the slots of the two before it of this key and sender, or -1."""
    rng = np.random.default_rng(seed)
    key = np.minimum(rng.zipf(1.3, slots) - 1, KEYS - 1)
    key[rng.random(slots) < 0.3] = -1
    slot = np.arange(slots)
    # What has no key is alone with it.
    chain = np.where(key < 0, -1 - slot, key) * SENDERS + slot % SENDERS
    order = np.lexsort((slot, chain))
    before = np.full(slots, -1)
    same = chain[order][1:] == chain[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    before[(slot - before) // SENDERS > K] = -1
    twice = np.where(before >= 0, before[before], -1)
    twice[(slot - twice) // SENDERS > K] = -1
    after = np.full(slots, slots * 2)
    after[before[before >= 0]] = slot[before >= 0]
    return {"key": key, "before": before, "twice": twice, "after": after}


def _chunks(messages: dict[str, Array], slots: int) -> Iterator[dict[str, Array]]:
    """The events of some slots at a time, in order."""
    for first in range(0, slots, _SLOTS_PER_CHUNK):
        last = min(first + _SLOTS_PER_CHUNK, slots)
        parts = list(_events(messages, first, last, slots))
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.lexsort((rows["about"], rows["node"], rows["phase"], rows["slot"]))
        rows = {name: column[order] for name, column in rows.items()}
        yield {**rows, **{name: column for name, column in messages.items() if name != "after"}}


def _events(
    messages: dict[str, Array], first: int, last: int, slots: int
) -> Iterator[dict[str, Array]]:
    """Kinds of events, each as columns: `about` is the message, `by` what covers it, or -1."""
    slot = np.arange(first, last)
    before = messages["before"][slot]
    yield _rows(slot, 0, slot % SENDERS, _MULTICAST, slot)
    for node in range(MEMBERS):
        yield _rows(slot, 1, node, _RECEIVE, slot)
        if node >= SLOW:
            yield _rows(slot, 2, node, _DELIVER, slot)
            continue
        # What came LAG slots ago is taken now, unless it was replaced before.
        purged = before[(before >= 0) & (slot - before < LAG)]
        yield _rows(messages["after"][purged], 2, node, _PURGE, purged, messages["after"][purged])
        due = slot - LAG
        due = due[(due >= 0)]
        due = due[messages["after"][due] - due >= LAG]
        yield _rows(due + LAG, 3, node, _DELIVER, due)
        if last == slots:
            rest = np.arange(slots - LAG, slots)
            rest = rest[messages["after"][rest] >= slots]
            yield _rows(np.full(len(rest), slots), 0, node, _DELIVER, rest)
    yield _rows(
        slot[before >= 0], 4, (slot % SENDERS)[before >= 0], _PURGE, before[before >= 0],
        slot[before >= 0], 1,
    )  # fmt: skip
    yield from _stable(slot, last == slots, slots)


def _stable(slot: Array, at_end: bool, slots: int) -> Iterator[dict[str, Array]]:
    told = slot[slot % STABLE_EVERY == STABLE_EVERY - 1]
    for node in range(MEMBERS):
        for back in range(SENDERS):
            yield _rows(told, 5, node, _STABLE, told - back)
            if at_end:
                yield _rows(np.array([slots]), 1, node, _STABLE, np.array([slots - 1 - back]))


def _rows(
    slot: Array, phase: int, node: Array, event: int, about: Array, by: Array = -1, where: int = 0
) -> dict[str, Array]:
    columns = {"slot": slot, "phase": phase, "node": node, "event": event, "about": about}
    columns |= {"by": by, "where": where if event == _PURGE else -1}
    return {name: np.broadcast_to(column, slot.shape) for name, column in columns.items()}


def _table(schema: Any, header: Header, rows: dict[str, Array], lsn: Array) -> Any:
    """Arrow's columns; `lsn` goes on from where it is."""
    count = len(rows["slot"])
    numbers = np.empty(count, np.int64)
    for node in range(MEMBERS):
        own = np.flatnonzero(rows["node"] == node)
        numbers[own] = lsn[node] + 1 + np.arange(len(own))
        lsn[node] += len(own)
    about, by = rows["about"], rows["by"]
    multicast = rows["event"] == _MULTICAST
    has_message = rows["event"] != _STABLE
    key = rows["key"][about]
    columns = {
        "time_ns": pa.array(rows["slot"] * _NANOSECONDS_PER_SLOT + rows["phase"]),
        "lsn": pa.array(numbers),
        "node": _names(header.members, rows["node"]),
        "event": _names(_EVENTS, rows["event"]),
        "group": pa.repeat(header.group, count),
        "sender": _names(header.members, about % SENDERS),
        "seq": pa.array(about // SENDERS + 1),
        "obsoletes": _obsoletes(rows, multicast),
        "key": _names([f"k{number}" for number in range(KEYS)], np.where(has_message, key, -1)),
        "sent_ns": pa.array(about * _NANOSECONDS_PER_SLOT, mask=~has_message),
        "size": pa.array(np.full(count, 64, np.int32), mask=~has_message),
        "where": _names(_WHERE, rows["where"]),
        "by_sender": _names(header.members, np.where(by < 0, -1, by % SENDERS)),
        "by_seq": pa.array(by // SENDERS + 1, mask=by < 0),
    }
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _names(names: Any, numbers: Array) -> Any:
    """The names of these numbers; -1 is none."""
    indices = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names)).cast(pa.string())


def _obsoletes(rows: dict[str, Array], multicast: Array) -> Any:
    """On multicasts: the distances to the one or two that it replaces."""
    about = rows["about"]
    pairs = np.stack([rows["before"][about], rows["twice"][about]], axis=1)
    used = (pairs >= 0) & multicast[:, None]
    distances = ((about[:, None] - pairs) // SENDERS)[used].astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(distances), mask=pa.array(~multicast)
    )


if __name__ == "__main__":
    main()
