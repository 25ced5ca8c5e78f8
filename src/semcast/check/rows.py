"""Events as kernels see them: rows of numbers in, the same as tuples or as NumPy arrays out.

A row is a plain tuple in the order of `COLUMNS`; nodes and senders are numbers there (`facts`). In
one process rows are made of events, on Spark of Arrow's columns; either form is made from the other
when a kernel asks for it, and once: several kernels look at the same rows.
"""

from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

# Kinds of events. INV-ZERO: a multicast is of kind 0.
MULTICAST: Final = 0
RECEIVE: Final = 1
DELIVER: Final = 2
PURGE_DELIVERY: Final = 3
PURGE_RETRANSMIT: Final = 4
# Gossip: purged from all that waits to be passed on, or from what waits for one link.
PURGE_RELAY: Final = 5
PURGE_LINK: Final = 6
PURGE_OTHER: Final = 7
SKIP: Final = 8
STABLE: Final = 9
JOIN: Final = 10
# A newcomer gets the message as part of what stands; a message came and is not wanted; a view.
STATE: Final = 11
IGNORE: Final = 12
VIEW: Final = 13
# Gossip: a copy was passed on to another member.
RELAY: Final = 14
# A site of a federation takes a delivery back, of this or a former life.
UNDO: Final = 15
# Anything else; kept only of a node that has crashed, which should not do anything any more.
OTHER: Final = 16
KINDS: Final = {
    "multicast": MULTICAST,
    "receive": RECEIVE,
    "deliver": DELIVER,
    "purge": PURGE_OTHER,
    "skip": SKIP,
    "stable": STABLE,
    "join": JOIN,
    "state": STATE,
    "ignore": IGNORE,
    "view": VIEW,
    "relay": RELAY,
    "undo": UNDO,
}
PURGED_FROM: Final = {
    "delivery": PURGE_DELIVERY,
    "retransmit": PURGE_RETRANSMIT,
    "relay": PURGE_RELAY,
    "gossip": PURGE_RELAY,
    "link": PURGE_LINK,
}
# The application has the message.
TAKEN: Final = (DELIVER, STATE)
PURGES: Final = (PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_RELAY, PURGE_LINK, PURGE_OTHER)
# Events that happen to one message. Others may name a seq that nobody has multicast yet.
ABOUT_MESSAGES: Final = (
    "multicast", "receive", "deliver", "state", "ignore", "purge", "skip", "retransmit",
    "relay", "drop", "undo",
)  # fmt: skip
# `n` numbers the nodes of a run, `sid` and `bsid` senders; `bsid` and `bseq` are the cover of a
# purge or skip, -1 where there is none. `at` is the order of events: of the run, or where that is
# not known of the node. `chain_at`: where the first message stands that replaces a ranked one by
# its rank. `event` is the event's own name, of nodes that crashed. In a federation `gid` numbers
# the groups of a run, and `graph` is the number of the graph in force; -1 where there is none.
COLUMNS: Final = (
    "kind", "n", "sid", "seq", "bsid", "bseq", "at", "time_ns", "size", "obsoletes", "key", "rank",
    "chain_at", "event", "gid", "graph",
)  # fmt: skip
_PLACE: Final = {name: place for place, name in enumerate(COLUMNS)}

Row: TypeAlias = tuple[Any, ...]
Longs: TypeAlias = NDArray[np.int64]
# A sender's number and a seq in one number, if both are small enough.
_SEQ_BITS: Final = 43
_SENDER_BITS: Final = 19


@final
class Rows:
    """Some consecutive rows of a group."""

    def __init__(self, each: list[Row] | None = None, batch: Any = None) -> None:
        """Rows as tuples, or as a batch of Arrow's, which may lack columns that nobody asks for."""
        self._each: list[Row] | None = each
        self._batch: Final = batch
        self._numbers: Final[dict[str, Longs]] = {}

    def __len__(self) -> int:
        return len(self._each) if self._each is not None else int(self._batch.num_rows)

    @property
    def each(self) -> list[Row]:
        """The rows one by one; None stands for a value that is missing."""
        if self._each is None:
            there = set(self._batch.schema.names)
            columns = [
                _as_list(self._batch.column(name)) if name in there else repeat(None)
                for name in COLUMNS
            ]
            self._each = list(zip(*columns, strict=False))
        return self._each

    def numbers(self, name: str) -> Longs:
        """A column of numbers, none of which is null."""
        found = self._numbers.get(name)
        if found is None:
            if self._batch is None:
                place = _PLACE[name]
                column = np.array([row[place] for row in self.each], np.int64)
            else:
                column = self._batch.column(name).to_numpy(zero_copy_only=False)
            found = self._numbers[name] = column.astype(np.int64, copy=False)
        return found

    def texts(self, name: str, places: Longs) -> list[str]:
        """A column of texts, of some of the rows; empty where there is none."""
        if not len(places):
            return []
        if self._batch is None:
            return [self.each[at][_PLACE[name]] or "" for at in places.tolist()]
        return [text or "" for text in self._batch.column(name).take(places).to_pylist()]

    def slice(self, first: int, last: int) -> "Rows":
        """Some of these rows."""
        if self._batch is None:
            return Rows(self.each[first:last])
        return Rows(batch=self._batch.slice(first, last - first))

    @property
    def multicasts(self) -> int:
        """How many multicasts stand before everything else."""
        if self._batch is None:
            kinds = (self.each[0][0], self.each[-1][0])
        else:
            numbers = self.numbers("kind")
            kinds = (int(numbers[0]), int(numbers[-1]))
        if kinds[0] != MULTICAST:
            return 0
        if kinds[1] == MULTICAST:
            return len(self)
        return int(np.argmax(self.numbers("kind") != MULTICAST))

    def take(self, places: Longs) -> list[Row]:
        """These rows, given by their places, one by one."""
        if self._batch is None:
            return [self.each[at] for at in places.tolist()]
        return Rows(batch=self._batch.take(places)).each

    @cached_property
    def by_message(self) -> Longs:
        """The rows by message (sid, seq), those of one message in their own order."""
        senders, seqs = self.numbers("sid"), self.numbers("seq")
        keys = keys_of(senders, seqs)
        return np.lexsort((seqs, senders)) if keys is None else np.argsort(keys, kind="stable")

    @property
    def ranked(self) -> bool:
        """Whether any row has a rank."""
        if self._batch is None:
            return any(row[_PLACE["rank"]] is not None for row in self.each)
        return bool(self._batch.column("rank").null_count < len(self))

    @property
    def distances(self) -> tuple[Longs, Longs]:
        """What rows name: which of the rows, and how far back, nearest first."""
        if self._batch is None:
            place = _PLACE["obsoletes"]
            lists = [row[place] or () for row in self.each]
            counts = np.array([len(one) for one in lists], np.int64)
            values = np.array([value for one in lists for value in one], np.int64)
        else:
            column = self._batch.column("obsoletes")
            offsets = column.offsets.to_numpy().astype(np.int64)
            # A list array may be a part of a longer one, and a null list names nothing.
            counts = np.diff(offsets)
            values = column.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        owner = np.repeat(np.arange(len(counts)), counts)
        distance = values.astype(np.int64)
        return owner, distance[np.lexsort((distance, owner))]


def keys_of(senders: Longs, seqs: Longs) -> Longs | None:
    """A number for each message, in the same order as they; None if they are too large for that."""
    if len(seqs):
        fits = senders.min() >= 0 and senders.max() < 1 << _SENDER_BITS
        if not fits or seqs.min() < 0 or seqs.max() >= 1 << _SEQ_BITS:
            return None
    return (senders << _SEQ_BITS) | seqs


def starts_of(senders: Longs, seqs: Longs) -> Longs:
    """Where each message begins, in rows that are sorted by message."""
    new = (senders[1:] != senders[:-1]) | (seqs[1:] != seqs[:-1])
    return np.append(0, np.flatnonzero(new) + 1)


def slices_of(sorted_numbers: Longs) -> list[tuple[int, slice]]:
    """Each number of a sorted array, and the slice in which it stands."""
    if not len(sorted_numbers):
        return []
    inner = np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1
    edges = [0, *inner.tolist(), len(sorted_numbers)]
    return [(int(sorted_numbers[first]), slice(first, last)) for first, last in pairwise(edges)]


def _as_list(column: Any) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and str(column.type).startswith("int"):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]
