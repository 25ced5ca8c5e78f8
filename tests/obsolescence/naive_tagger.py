"""What tagging means, written down literally: the whole history is kept and closed from scratch.

A message directly replaces what its caller says: every earlier message whose keys are all among
its own, the predecessors it names, all but the last few. It replaces what chains of those lead
to, of which the bitmap says what lies at most k back. Ranked messages replace nothing by bitmap.
"""

from semcast.obsolescence import AllButLast, Keys, Predecessors, Ranked, Replaces


class NaiveTagger:
    """Keeps every message ever tagged."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._names: list[frozenset[bytes]] = []
        self._links: list[set[int]] = []

    def bitmap(self, said: Replaces) -> int:
        """The bitmap of the next message."""
        seq = len(self._names) + 1
        names = _names(said)
        self._links.append({old for old in range(1, seq) if self._direct(seq, old, said, names)})
        self._names.append(names)
        near = [old for old in self._closed(seq) if seq - old <= self._k]
        return sum(1 << (seq - old - 1) for old in near)

    def _direct(self, seq: int, old: int, said: Replaces, names: frozenset[bytes]) -> bool:
        if isinstance(said, AllButLast):
            return seq - old >= said.kept
        if isinstance(said, Predecessors):
            return old in said.seqs
        theirs = self._names[old - 1]
        return bool(theirs) and theirs <= names

    def _closed(self, seq: int) -> set[int]:
        found: set[int] = set()
        ahead = [seq]
        while ahead:
            fresh = self._links[ahead.pop() - 1] - found
            found |= fresh
            ahead += fresh
        return found


def _names(said: Replaces) -> frozenset[bytes]:
    """The keys that a message is about; none unless keys were said."""
    if isinstance(said, Keys):
        return frozenset(n.encode() if isinstance(n, str) else n for n in said.names)
    if said is None or isinstance(said, (AllButLast, Predecessors, Ranked)):
        return frozenset()
    return frozenset([said.encode() if isinstance(said, str) else said])
