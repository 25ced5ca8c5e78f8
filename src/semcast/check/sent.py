"""What one sender multicast, compactly: places, annotations, key sequences. Rows in, answers out.

Rows of multicasts come in the order in which they were written. A message replaces what was
multicast before it, and nothing else. Some 60 bytes for a message and 8 for each that it names are
held, for as long as its sender is judged; all kernels of a sender share them.

The relation is followed untruncated: m ⊏ m' by any chain of annotations. Buffers see k bits of it
(SRM §3.2); the specification, and so the kernels, all of it. An *unranked* message names earlier
messages of its own sender, ranked or not, or all those of its keys (`KeyHistory`). A *ranked* one
replaces every message of its key with a smaller (rank, source, seq), whoever sent it. So whatever
covers an unranked message is unranked, of the same sender, and was multicast later: one pass
backwards reaches every chain.
"""

from array import array
from typing import Final, TypeAlias, final

import numpy as np

from semcast.check.facts import NEVER, RunFacts, source_of
from semcast.check.key_history import KeyHistory
from semcast.check.rows import Longs, Row, Rows
from semcast.check.tables import SeqTable
from semcast.journal import keys_in

# How ranked messages of a key are ordered: rank, source, life, seq.
Order: TypeAlias = tuple[int, int, int, int]
_NO_SEQUENCE: Final = -1
_ONE_GROUP: Final = -1


@final
class Sent:
    """The messages of one sender, by their number in order of multicast."""

    def __init__(self, run: RunFacts, sender: str) -> None:
        # With an empty relation semantic reliability is plain reliability (SRM §4.2).
        self._purging: Final = run.header.purging
        self._source: Final = source_of(sender)
        self._own: Final = run.numbers.get(sender, -1)
        self.index: Final = SeqTable()
        self.seqs: Final = array("q")
        self.ats: Final = array("q")
        # Of gossip: when each was multicast.
        self.times: Final = array("q")
        self._timed: Final = run.header.reliability == "gossip"
        # Where the first message stands that replaces this one.
        self.covered_at: Final = array("q")
        # INV-EDGES: message i names the messages _edges[_starts[i]:_starts[i + 1]], nearest first.
        self._edges: Final = array("q")
        self._starts: Final = array("q", [0])
        self.ranked: Final[dict[int, tuple[str, Order]]] = {}
        # By key: its newest message, without a rank, if newcomers get what stands.
        self.newest: Final[dict[str, int]] = {}
        self._stands: Final = run.header.state == "keys"
        # By group of a federation, where nothing replaces what goes to another; else one for all.
        self._histories: Final[dict[int, KeyHistory]] = {}
        self._federated: Final = run.header.federated
        # Of a federation: the group of each message.
        self.gids: Final = array("q")
        # Where the order is "key".
        self.sequences: Final = KeySequences() if run.header.order == "key" else None
        # Rows that are no multicast as it should be: a number again, or in the name of another.
        self.repeated: Final[list[Row]] = []
        self.foreign: Final[list[Row]] = []
        # The largest so far.
        self._last_seq = -1

    def feed(self, rows: Rows) -> None:
        """Add some more multicasts."""
        plain = self.sequences is None and not self._federated
        if plain and len(rows) > 64 and self._add_many(rows):
            return
        for row in rows.each:
            self._add(row)
        self.index.trim()

    def _add(self, row: Row) -> None:
        """Add one multicast; only the first of a number counts."""
        _, n, _, seq, _, _, at, time_ns, _, obsoletes, key, rank, chain_at, *_ = row
        gid = row[14] if self._federated else _ONE_GROUP
        if self.index[seq] >= 0:
            self.repeated.append(row)
            return
        if n != self._own:
            self.foreign.append(row)
        number = len(self.seqs)
        if self._purging and rank is not None:
            self.ranked[number] = (key or "", (rank, *self._source, seq))
        elif self._purging and obsoletes:
            for named in self._named(number, seq, obsoletes, key, gid):
                if named >= 0 and (not self._federated or self.gids[named] == gid):
                    self._edges.append(named)
                    self.covered_at[named] = min(self.covered_at[named], at)
        if self._stands and key and rank is None:
            self.newest.update(dict.fromkeys(keys_in(key), number))
        self.index[seq] = number
        self._last_seq = max(seq, self._last_seq)
        self.seqs.append(seq)
        self.ats.append(at)
        if self._timed:
            self.times.append(time_ns)
        if self._federated:
            self.gids.append(gid)
        self.covered_at.append(NEVER if chain_at is None else chain_at)
        self._starts.append(len(self._edges))
        if self.sequences is not None:
            self.sequences.add(obsoletes, key, rank)

    def _history(self, gid: int) -> KeyHistory:
        found = self._histories.get(gid)
        if found is None:
            found = self._histories[gid] = KeyHistory()
        return found

    def _named(
        self, number: int, seq: int, obsoletes: list[int], key: str | None, gid: int
    ) -> list[int]:
        """The messages that this one names; -1 for those that nobody multicast."""
        if key and obsoletes[0] == 0:
            return self._history(gid).add(number, keys_in(key))
        index = self.index
        if len(obsoletes) == 1:
            return [index[seq - obsoletes[0]]]
        return [index[seq - distance] for distance in sorted(obsoletes)]

    def _add_many(self, rows: Rows) -> bool:
        """All multicasts of these rows; False, and none added, if they must be looked at singly.

        As they mostly are: without ranks, each later than those before, naming earlier ones.
        """
        seqs, ats = rows.numbers("seq"), rows.numbers("at")
        last = self._last_seq
        if rows.ranked or not (np.diff(seqs, prepend=last) > 0).all():
            return False
        owner, distance = rows.distances
        if (len(distance) and distance.min() < 0) or (rows.numbers("n") != self._own).any():
            return False
        by_key = np.flatnonzero(distance == 0)
        keys = rows.texts("key", owner[by_key])
        if any(len(keys_in(key)) != 1 for key in set(keys)):
            return False
        first = len(self.seqs)
        self.index.set_many(seqs, np.arange(first, first + len(seqs)))
        self._last_seq = int(seqs[-1])
        self.seqs.frombytes(seqs.tobytes())
        self.ats.frombytes(ats.tobytes())
        if self._timed:
            self.times.frombytes(rows.numbers("time_ns").tobytes())
        self.covered_at.frombytes(np.full(len(seqs), NEVER, np.int64).tobytes())
        named = self.index.many(seqs[owner] - distance) if self._purging else owner[:0]
        if self._stands:
            for at, key in enumerate(rows.texts("key", np.arange(len(seqs)))):
                self.newest.update(dict.fromkeys(keys_in(key) if key else (), first + at))
        if len(by_key) and self._purging:
            numbers = (first + owner[by_key]).tolist()
            named[by_key] = list(map(self._history(_ONE_GROUP).add_one, numbers, keys))
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

    def name_all(self, newer: Longs, older: Longs) -> bool:
        """Whether each of these messages names the other one itself."""
        starts = np.frombuffer(self._starts, np.int64)
        first, counts = starts[newer], starts[newer + 1] - starts[newer]
        pair = np.repeat(np.arange(len(newer)), counts)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        named = np.frombuffer(self._edges, np.int64)[first[pair] + within]
        return len(np.unique(pair[named == older[pair]])) == len(newer)

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


@final
class KeySequences:
    """The sequences of one sender where the order is "key": what is delivered in order, one by one.

    A sequence is what the sender multicast about one key, alone or with others, or without any
    annotation. A message about several keys is in the sequence of each. A ranked use of a key is a
    sequence of its own. What names others and has no key is in no sequence.
    """

    def __init__(self) -> None:
        # By message: its sequence, and its place there. By sequence: its messages.
        self._of: Final = array("q")
        self._place: Final = array("q")
        self.messages: Final[list[array[int]]] = []
        # Of messages about several keys: all sequences and places.
        self._several: Final[dict[int, list[tuple[int, int]]]] = {}
        self._numbers: Final[dict[tuple[str, bool], int]] = {}

    def of(self, message: int) -> list[tuple[int, int]]:
        """The sequences that a message is in, and its place in each."""
        several = self._several.get(message)
        if several is not None:
            return several
        sequence = self._of[message]
        return [] if sequence == _NO_SEQUENCE else [(sequence, self._place[message])]

    def add(self, obsoletes: list[int] | None, key: str | None, rank: int | None) -> None:
        """Add the next message."""
        key, ranked = key or "", rank is not None
        if not key and (ranked or obsoletes):
            self._of.append(_NO_SEQUENCE)
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
        sequence = self._numbers.setdefault(name, len(self._numbers))
        if sequence == len(self.messages):
            self.messages.append(array("q"))
        self.messages[sequence].append(message)
        return sequence, len(self.messages[sequence]) - 1
