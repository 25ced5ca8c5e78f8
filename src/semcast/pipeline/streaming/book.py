"""The figures of a group from its stream: batches in, figures and violations out.

A book holds the last number of every sender, and of the keys that came latest, so that what lies
between two batches is judged as well. Everything is bounded. Batches come on a thread of Spark's;
whoever shows the figures asks from another.
"""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, Row

from semcast.pipeline.streaming.watch import BITS_MAX, by_key, by_sender

KEYS_MAX: Final = 1 << 16
SENDERS_MAX: Final = 4096
VIOLATIONS_MAX: Final = 100

_Sender = tuple[str, int]


@dataclass
class Figures:
    """The figures of one life of one sender."""

    last_seq: int = 0
    messages: int = 0
    size_bytes: int = 0
    skipped: int = 0
    age_ms_p99: float = 0.0


@dataclass
class Since:
    """What was counted since somebody last looked."""

    at_s: float
    messages: int = 0
    size_bytes: int = 0
    skipped: int = 0
    age_ms_p50: float = 0.0
    age_ms_p99: float = 0.0
    senders: dict[str, int] = field(default_factory=dict)


class Book:
    """Figures of a group, as one member sees it."""

    def __init__(self, order: str) -> None:
        self._order: Final = order
        self._lock: Final = threading.Lock()
        self._senders: Final[OrderedDict[_Sender, Figures]] = OrderedDict()
        # By sender, life and key: how often it came, and its last number.
        self._keys: Final[OrderedDict[tuple[str, int, str], tuple[int, int]]] = OrderedDict()
        self._distances: Final = [0] * BITS_MAX
        self._violations: Final[list[str]] = []
        self._violation_count = 0
        self._began_s: Final = time.monotonic()
        self._since = Since(self._began_s)

    def add_batch(self, batch: DataFrame, _batch_id: int) -> None:
        """Add a batch of Spark's; made for `foreachBatch`."""
        batch = batch.persist()
        try:
            senders = by_sender(batch, self._order).collect()
            keys = by_key(batch).collect()
        finally:
            batch.unpersist()
        self.add(senders, keys)

    def add(self, senders: list[Row], keys: list[Row]) -> None:
        """Add what `watch` made of one batch."""
        with self._lock:
            for row in senders:
                self._add_sender(row)
            for row in keys:
                self._add_key(row)

    def _add_sender(self, row: Row) -> None:
        source = (row.sender, row.life)
        known = self._senders.get(source)
        if known is None:
            known = self._senders[source] = Figures()
            if len(self._senders) > SENDERS_MAX:
                self._senders.popitem(last=False)
        elif self._order == "fifo":
            self._judge_seam(row, known.last_seq)
        known.last_seq = row.last_seq
        known.messages += row.messages
        known.size_bytes += row.bytes
        known.skipped += row.skipped
        known.age_ms_p99 = row.age_ms_p99
        for at, count in enumerate(row.distances):
            self._distances[at] += count
        self._complain([f"{row.sender}: {text}" for text in row.examples], row.violations)
        since = self._since
        since.messages += row.messages
        since.size_bytes += row.bytes
        since.skipped += row.skipped
        since.age_ms_p50 = max(since.age_ms_p50, row.age_ms_p50)
        since.age_ms_p99 = max(since.age_ms_p99, row.age_ms_p99)
        since.senders[row.sender] = since.senders.get(row.sender, 0) + row.messages

    def _judge_seam(self, row: Row, last: int) -> None:
        """Judge the step from the last message of the batch before to the first of this one."""
        missing = row.first_seq - last - 1 - row.first_skipped
        if row.first_seq <= last:
            self._complain([f"{row.sender}: #{row.first_seq} came after #{last}"])
        elif missing > 0:
            self._complain(
                [
                    f"{row.sender}: {missing} of the numbers between #{last} and #{row.first_seq} "
                    "are missing and were not skipped"
                ]
            )

    def _add_key(self, row: Row) -> None:
        key = (row.sender, row.life, row.key)
        count, last = self._keys.pop(key, (0, 0))
        if last and self._order == "key" and row.first_seq <= last:
            self._complain([f"{row.sender}: #{row.first_seq} of {row.key} came after #{last}"])
        if 0 < last < row.first_seq:
            self._distances[(row.first_seq - last).bit_length() - 1] += 1
        self._keys[key] = (count + row.messages, max(last, row.last_seq))
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)

    def complain(self, texts: list[str]) -> None:
        """Add violations that somebody else found."""
        with self._lock:
            self._complain(texts)

    def _complain(self, texts: list[str], count: int | None = None) -> None:
        self._violation_count += len(texts) if count is None else count
        self._violations.extend(texts[: VIOLATIONS_MAX - len(self._violations)])

    # -- looking -----------------------------------------------------------------------------------

    @property
    def violations(self) -> int:
        """How many were found so far."""
        return self._violation_count

    def look(self) -> dict[str, Any]:
        """Everything so far, and rates since the last look; names say the units."""
        with self._lock:
            now_s = time.monotonic()
            since, self._since = self._since, Since(now_s)
            seconds = max(now_s - since.at_s, 1e-9)
            came = since.messages + since.skipped
            return {
                "seconds": round(now_s - self._began_s, 3),
                "messages": sum(one.messages for one in self._senders.values()),
                "messages_s": round(since.messages / seconds, 1),
                "bytes_s": round(since.size_bytes / seconds, 1),
                "skipped_messages": sum(one.skipped for one in self._senders.values()),
                "skipped_share": round(since.skipped / came, 4) if came else 0.0,
                "age_ms_p50": round(since.age_ms_p50, 3),
                "age_ms_p99": round(since.age_ms_p99, 3),
                "keys": len(self._keys),
                "top_keys": self._top_keys(),
                "distance_p50": self._distance(0.5),
                "distance_p90": self._distance(0.9),
                "senders": self._by_name(since, seconds),
                "violations": self._violation_count,
                "first_violations": self._violations[:5],
            }

    def _top_keys(self) -> list[dict[str, Any]]:
        most = sorted(self._keys.items(), key=lambda one: (-one[1][0], one[0]))[:5]
        return [{"sender": key[0], "key": key[2], "messages": count} for key, (count, _) in most]

    def _distance(self, share: float) -> int | None:
        """The distance that so many of the replacements do not exceed, rounded up by its bits."""
        total = sum(self._distances)
        reached = 0
        for at, count in enumerate(self._distances):
            reached += count
            if total and reached >= share * total:
                return (2 << at) - 1
        return None

    def _by_name(self, since: Since, seconds: float) -> list[dict[str, Any]]:
        """Of each sender its latest life."""
        latest = dict(sorted(self._senders.items()))
        by_name = {sender: figures for (sender, _), figures in latest.items()}
        return [
            {
                "name": name,
                "messages_s": round(since.senders.get(name, 0) / seconds, 1),
                "messages": figures.messages,
                "skipped_messages": figures.skipped,
                "last_seq": figures.last_seq,
                "age_ms_p99": round(figures.age_ms_p99, 3),
            }
            for name, figures in by_name.items()
        ]
