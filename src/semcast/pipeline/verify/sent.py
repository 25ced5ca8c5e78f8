"""What one sender multicast, compactly: positions, annotations, streams. Rows in, answers out.

Rows of multicasts come in the order in which they were written. Names of messages are resolved as
`check.history` does: a message replaces what was multicast before it, and nothing else. Some 60
bytes for a message and 8 for each that it names are held, for as long as its sender is judged.
"""

from array import array
from typing import Final, TypeAlias, final

from semcast.check.relation import NEVER
from semcast.pipeline.verify.facts import RunFacts, source_of
from semcast.pipeline.verify.kernel import SeqTable

# How ranked messages of a key are ordered: rank, source, life, seq.
Order: TypeAlias = tuple[int, int, int, int]
NO_STREAM: Final = -1


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
        self.seqs.append(seq)
        self.ats.append(at)
        self.covered_at.append(NEVER if chain_at is None else chain_at)
        self._starts.append(len(self._edges))
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


@final
class Streams:
    """The streams of a run with order "key", of one sender; as in check."""

    def __init__(self) -> None:
        # By message: its stream, and its place there. By stream: its messages.
        self.of: Final = array("q")
        self.place: Final = array("q")
        self.messages: Final[list[array[int]]] = []
        self._numbers: Final[dict[tuple[str, bool], int]] = {}

    def add(self, obsoletes: list[int] | None, key: str | None, rank: int | None) -> None:
        """The next message."""
        key, ranked = key or "", rank is not None
        if not key and (ranked or obsoletes):
            self.of.append(NO_STREAM)
            self.place.append(0)
            return
        stream = self._numbers.setdefault((key, ranked), len(self._numbers))
        if stream == len(self.messages):
            self.messages.append(array("q"))
        self.place.append(len(self.messages[stream]))
        self.messages[stream].append(len(self.of))
        self.of.append(stream)
