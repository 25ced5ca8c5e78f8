"""What the buffers of one node hold, with sizes: events in, one by one or many, what is held out.

Of a batch this is only known if every message comes once, is there when it leaves, and leaves once;
otherwise the answer is None, and events must be taken one by one.
"""

import heapq
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from semcast.check.rows import (
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGE_RETRANSMIT,
    RECEIVE,
    STABLE,
    Longs,
    Rows,
    keys_of,
)

# A message: the number of its sender, and its own.
Id: TypeAlias = tuple[int, int]
Flags: TypeAlias = NDArray[np.bool_]


class Arrival(NamedTuple):
    """A message that has just come."""

    kind: int
    message: Id
    time_ns: int


class Ends(NamedTuple):
    """The rows of arrivals, and the rows by which what they cause is through."""

    row: Longs
    last: Longs
    # The one of which that is not known yet.
    pending: Arrival | None


def arrivals_end(rows: Rows) -> Ends | None:
    """An arrival's purges, of it or for it, follow it at once; the next row of any other kind ends
    them. The first row must not be a purge of an arrival before.
    """
    kind, sid, seq = (rows.numbers(name) for name in ("kind", "sid", "seq"))
    keys = keys_of(sid, seq)
    covers = keys_of(np.maximum(rows.numbers("bsid"), 0), np.maximum(rows.numbers("bseq"), 0))
    if keys is None or covers is None:
        return None
    covers = np.where(rows.numbers("bsid") >= 0, covers, -1)
    arrives = (kind == RECEIVE) | (kind == MULTICAST)
    before = np.maximum.accumulate(np.where(arrives, np.arange(len(kind)), -1))
    cause = np.where(before >= 0, keys[before], -2)
    caused = (kind >= PURGE_DELIVERY) & (kind <= PURGE_OTHER)
    caused &= (keys == cause) | (covers == cause)
    breaks = np.flatnonzero(~caused)
    row = np.flatnonzero(arrives)
    following = np.append(breaks, len(kind))[np.searchsorted(breaks, row, "right")]
    pending = None
    if len(row) and following[-1] == len(kind):
        at = int(row[-1])
        message = (int(sid[at]), int(seq[at]))
        pending = Arrival(int(kind[at]), message, int(rows.numbers("time_ns")[at]))
        row, following = row[:-1], following[:-1]
    return Ends(row, following - 1, pending)


@dataclass(frozen=True)
class Delivered:
    """What a delivery buffer holds after each row, and in the end."""

    messages: Longs
    bytes: Longs
    sizes: dict[Id, int]

    def within(self, judged: Longs, messages_max: int, bytes_max: int) -> bool:
        """Whether no bound is passed at these rows; 0 is no bound."""
        messages, size = self.messages[judged], self.bytes[judged]
        fine = not 0 < messages_max < messages.max(initial=0)
        return fine and not 0 < bytes_max < size.max(initial=0)


@final
class Delivery:
    """The delivery buffer."""

    def __init__(self) -> None:
        self.sizes: dict[Id, int] = {}
        self.bytes = 0

    def enter(self, message: Id, size_bytes: int) -> None:
        if message not in self.sizes:
            self.sizes[message] = size_bytes
            self.bytes += size_bytes

    def leave(self, message: Id) -> None:
        self.bytes -= self.sizes.pop(message, 0)

    def after(self, rows: Rows) -> Delivered | None:
        """What it will hold after these rows."""
        kind, sid, seq, size = (rows.numbers(name) for name in ("kind", "sid", "seq", "size"))
        leaves = (kind == DELIVER) | (kind == PURGE_DELIVERY)
        order = rows.by_message
        order = order[((kind == RECEIVE) | leaves)[order]]
        step = np.where(leaves[order], -1, 1)
        size = size[order]
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(sid[order]) != 0) | (np.diff(seq[order]) != 0)
        # Nothing may come that is there, nor leave twice.
        if (~new[1:] & (step[1:] == step[:-1])).any():
            return None
        keys = keys_of(sid[order], seq[order])
        held = np.array(list(self.sizes), np.int64).reshape(-1, 2)
        held_keys = keys_of(held[:, 0], held[:, 1])
        if keys is None or held_keys is None:
            return None
        first = np.flatnonzero(new)
        there = np.isin(keys[first], held_keys)
        if (there != (step[first] < 0)).any():
            return None
        left = dict(self.sizes)
        freed = np.append(0, size[:-1])
        for at in first[there].tolist():
            freed[at] = left.pop((int(sid[order[at]]), int(seq[order[at]])))
        stays = order[np.append(new[1:], True)[: len(order)] & (step > 0)]
        names = zip(sid[stays].tolist(), seq[stays].tolist(), strict=True)
        left.update(zip(names, rows.numbers("size")[stays].tolist(), strict=True))
        steps, sums = np.zeros(len(kind), np.int64), np.zeros(len(kind), np.int64)
        steps[order] = step
        sums[order] = np.where(step > 0, size, -freed)
        return Delivered(len(self.sizes) + np.cumsum(steps), self.bytes + np.cumsum(sums), left)

    def take(self, after: Delivered) -> None:
        """Hold what `after` found."""
        self.sizes = after.sizes
        self.bytes = int(after.bytes[-1])


@dataclass(frozen=True)
class Kept:
    """What is kept of one sender: when messages came and left, and what is there in the end."""

    at_first: int
    came: Longs
    left: Longs
    held: "Retained"

    def within(self, judged: Longs, messages_max: int) -> bool:
        """Whether the bound is not passed at these rows; 0 is no bound."""
        came = np.searchsorted(self.came, judged, "right")
        left = np.searchsorted(np.sort(self.left), judged, "right")
        return not 0 < messages_max < (self.at_first + came - left).max(initial=0)


@final
class Retained:
    """What is kept of one sender for retransmission, with sizes."""

    def __init__(self, sizes: dict[int, int] | None = None, released: int = 0) -> None:
        self.sizes: Final = sizes or {}
        self._by_seq: Final = sorted(self.sizes)
        # The largest number that was said to be stable.
        self._released = released

    def enter(self, seq: int, size_bytes: int) -> int:
        """Keep a message; returns the bytes that this took."""
        if seq in self.sizes:
            return 0
        self.sizes[seq] = size_bytes
        heapq.heappush(self._by_seq, seq)
        return size_bytes

    def release(self, seq: int) -> int:
        """Let go of everything up to `seq`; returns the bytes that this freed."""
        freed = 0
        self._released = max(seq, self._released)
        while self._by_seq and self._by_seq[0] <= seq:
            freed += self.sizes.pop(heapq.heappop(self._by_seq), 0)
        return freed

    def after(self, rows: Rows, here: Longs, enters: Flags, sums: Longs) -> Kept | None:
        """What will be kept after these rows (`here`) of the sender; `sums` gets bytes by row."""
        kind, seq = rows.numbers("kind")[here], rows.numbers("seq")[here]
        came, stable_rows = here[enters], here[kind == STABLE]
        stable = np.maximum.accumulate(np.append(self._released, seq[kind == STABLE]))
        new = seq[enters]
        first = np.fromiter(self.sizes, np.int64, len(self.sizes))
        size = np.append(
            np.fromiter(self.sizes.values(), np.int64, len(self.sizes)),
            rows.numbers("size")[came],
        )
        late = (new <= stable[np.searchsorted(stable_rows, came)]).any()
        seqs = np.append(first, new)
        order = np.argsort(seqs, kind="stable")
        if late or (first <= self._released).any() or (np.diff(seqs[order]) == 0).any():
            return None
        left = np.append(stable_rows, len(rows))[np.searchsorted(stable[1:], seqs)]
        purged, gone = here[kind == PURGE_RETRANSMIT], seq[kind == PURGE_RETRANSMIT]
        if len(seqs):
            # Purged before it came or when it had left, or a second time: then nothing leaves.
            place = order[np.minimum(np.searchsorted(seqs[order], gone), len(seqs) - 1)]
            entered = np.append(np.full(len(first), -1), came)
            there = (seqs[place] == gone) & (purged > entered[place]) & (purged < left[place])
            np.minimum.at(left, place[there], purged[there])
        stays = left == len(rows)
        np.add.at(sums, came, size[len(first) :])
        np.subtract.at(sums, left[~stays], size[~stays])
        held = dict(zip(seqs[stays].tolist(), size[stays].tolist(), strict=True))
        return Kept(len(first), came, left[~stays], Retained(held, int(stable[-1])))
