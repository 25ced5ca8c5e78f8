"""What one sender multicast, compactly: positions, annotations, streams. Rows in, answers out.

Rows of multicasts come in the order in which they were written. Names of messages are resolved as
`check.history` does: a message replaces what was multicast before it, and nothing else. Some 60
bytes for a message and 8 for each that it names are held, for as long as its sender is judged.
"""

from array import array
from typing import Final, TypeAlias, final

import numpy as np

from semcast.check.relation import NEVER
from semcast.journal import keys_in
from semcast.pipeline.verify.columns import Columns, Longs
from semcast.pipeline.verify.facts import RunFacts, source_of
from semcast.pipeline.verify.tables import SeqTable

# How ranked messages of a key are ordered: rank, source, life, seq.
Order: TypeAlias = tuple[int, int, int, int]
_NO_STREAM: Final = -1


@final
class Sent:
    """The messages of one sender, by their number in order of multicast."""

    def __init__(self, run: RunFacts, sender: str) -> None:
        self._purging: Final = run.header.purging
        self._source: Final = source_of(sender)
        self.index: Final = SeqTable()
        self.seqs: Final = array("q")
        self.ats: Final = array("q")
        # Where the first message stands that replaces this one.
        self.covered_at: Final = array("q")
        # INV-EDGES: message i names the messages _edges[_starts[i]:_starts[i + 1]], nearest first.
        self._edges: Final = array("q")
        self._starts: Final = array("q", [0])
        self.ranked: Final[dict[int, tuple[str, Order]]] = {}
        # The largest so far.
        self._last_seq = -1

    def add(
        self,
        seq: int,
        at: int,
        obsoletes: list[int] | None,
        key: str | None = None,
        rank: int | None = None,
        chain_at: int | None = None,
    ) -> bool:
        """One multicast; whether it is the first of this number. Only that counts."""
        if self.index[seq] >= 0:
            return False
        number = len(self.seqs)
        if self._purging and rank is not None:
            self.ranked[number] = (key or "", (rank, *self._source, seq))
        elif self._purging and obsoletes:
            index, covered_at = self.index, self.covered_at
            for distance in obsoletes if len(obsoletes) == 1 else sorted(obsoletes):
                named = index[seq - distance]
                if named >= 0:
                    self._edges.append(named)
                    covered_at[named] = min(covered_at[named], at)
        self.index[seq] = number
        self._last_seq = max(seq, self._last_seq)
        self.seqs.append(seq)
        self.ats.append(at)
        self.covered_at.append(NEVER if chain_at is None else chain_at)
        self._starts.append(len(self._edges))
        return True

    def add_many(self, rows: Columns) -> bool:
        """All multicasts of these rows; False, and none added, if they must be looked at singly.

        As they mostly are: without ranks, each later than those before, naming earlier ones.
        """
        seqs, ats = rows.numbers("seq"), rows.numbers("at")
        last = self._last_seq
        if rows.arrow("rank").null_count < len(seqs) or not (np.diff(seqs, prepend=last) > 0).all():
            return False
        owner, distance = _distances(rows)
        if len(distance) and distance.min() <= 0:
            return False
        first = len(self.seqs)
        self.index.set_many(seqs, np.arange(first, first + len(seqs)))
        self._last_seq = int(seqs[-1])
        self.seqs.frombytes(seqs.tobytes())
        self.ats.frombytes(ats.tobytes())
        self.covered_at.frombytes(np.full(len(seqs), NEVER, np.int64).tobytes())
        named = self.index.many(seqs[owner] - distance) if self._purging else owner[:0]
        owner = owner[: len(named)][named >= 0]
        named = named[named >= 0]
        np.minimum.at(np.frombuffer(self.covered_at, np.int64), named, ats[owner])
        ends = len(self._edges) + np.cumsum(np.bincount(owner, minlength=len(seqs)))
        self._edges.frombytes(named.tobytes())
        self._starts.frombytes(ends.astype(np.int64).tobytes())
        return True

    def names(self, number: int) -> "array[int]":
        """The messages that an unranked one names itself, nearest first."""
        return self._edges[self._starts[number] : self._starts[number + 1]]

    def spread(self, masks: list[int]) -> None:
        """Give every message m the union over all m' with m ⊑ m' of this sender.

        One pass backwards: what replaces a message is complete before it is used.
        """
        edges, starts = self._edges, self._starts
        for number in range(len(masks) - 1, -1, -1):
            first, last = starts[number], starts[number + 1]
            mask = masks[number]
            if first != last and mask:
                for older in edges[first:last]:
                    masks[older] |= mask

    def covers(self, newer: int, older: int, ranked: tuple[str, Order] | None) -> bool:
        """Whether a message of this sender replaces another, by any chain.

        `older` is -1 if that is of another sender; `ranked` its key and place there, if it has one.
        """
        if self._beats(newer, ranked):
            return True
        # Only later messages of its sender cover an unranked one, so look no farther back.
        back_to = -1 if ranked is not None else older
        if ranked is None and older < 0:
            return False
        seen = {newer}
        left = [newer]
        while left:
            for further in self.names(left.pop()):
                if further == older or self._beats(further, ranked):
                    return True
                if further not in seen and further > back_to:
                    seen.add(further)
                    left.append(further)
        return False

    def _beats(self, newer: int, ranked: tuple[str, Order] | None) -> bool:
        if ranked is None:
            return False
        own = self.ranked.get(newer)
        return own is not None and own[0] == ranked[0] and own[1] > ranked[1]


def _distances(rows: Columns) -> tuple[Longs, Longs]:
    """What rows name: which of the rows, and how far back, nearest first."""
    lists = rows.arrow("obsoletes")
    offsets = lists.offsets.to_numpy().astype(np.int64)
    # Lists may be a part of a longer column; nobody names anything in a null.
    counts = np.diff(offsets)
    values = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    owner = np.repeat(np.arange(len(counts)), counts)
    distance = values.astype(np.int64)
    order = np.lexsort((distance, owner))
    return owner, distance[order]


@final
class Streams:
    """The streams of a run with order "key", of one sender; as in check."""

    def __init__(self) -> None:
        # By message: its stream, and its place there. By stream: its messages.
        self._of: Final = array("q")
        self._place: Final = array("q")
        self.messages: Final[list[array[int]]] = []
        # Of messages about several keys: all streams and places.
        self._several: Final[dict[int, list[tuple[int, int]]]] = {}
        self._numbers: Final[dict[tuple[str, bool], int]] = {}

    def of(self, message: int) -> list[tuple[int, int]]:
        """The streams that a message is in, and its place in each."""
        several = self._several.get(message)
        if several is not None:
            return several
        stream = self._of[message]
        return [] if stream == _NO_STREAM else [(stream, self._place[message])]

    def add(self, obsoletes: list[int] | None, key: str | None, rank: int | None) -> None:
        """The next message."""
        key, ranked = key or "", rank is not None
        if not key and (ranked or obsoletes):
            self._of.append(_NO_STREAM)
            self._place.append(0)
            return
        message = len(self._of)
        # A ranked message has one key, whatever it looks like.
        names = [key] if ranked else list(dict.fromkeys(keys_in(key)))
        places = [self._add_to((name, ranked), message) for name in names]
        if len(places) > 1:
            self._several[message] = places
        self._of.append(places[0][0])
        self._place.append(places[0][1])

    def _add_to(self, name: tuple[str, bool], message: int) -> tuple[int, int]:
        stream = self._numbers.setdefault(name, len(self._numbers))
        if stream == len(self.messages):
            self.messages.append(array("q"))
        self.messages[stream].append(message)
        return stream, len(self.messages[stream]) - 1
