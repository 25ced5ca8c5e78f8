"""Integrity (SRM Figure 2): every process delivers m at most once, and only if m was multicast
before by some process. Holds on every prefix.

What a newcomer gets of what stands (`state`) is delivered too. A log in which one number names two
messages, or a process speaks for another, breaks it too: then "m" would not be one message.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import EVERY, Property
from semcast.check.rows import TAKEN, Row, Rows
from semcast.check.tables import SeqTable

# Nodes in one number of a table.
_WORD: Final = 62


@final
class IntegrityKernel(Kernel):
    """The messages of one sender: what was multicast, and deliveries in order."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By word of nodes: the bits of those that delivered a message.
        words = len(self.run.nodes) // _WORD + 1
        self._delivered: Final = [SeqTable(0) for _ in range(words)]

    def feed_many(self, rows: Rows) -> bool:
        """Look at all deliveries at once."""
        sent = self.group.sent
        taken = np.isin(rows.numbers("kind"), TAKEN)
        node, number, at = (rows.numbers(name)[taken] for name in ("n", "seq", "at"))
        known = sent.index.many(number)
        if (known < 0).any():
            return False
        if self.run.header.one_order and (np.frombuffer(sent.ats, np.int64)[known] >= at).any():
            return False
        order = np.lexsort((node, number))
        same = (number[order][1:] == number[order][:-1]) & (node[order][1:] == node[order][:-1])
        if same.any():
            return False
        bits = np.left_shift(1, node % _WORD)
        parts = [(word, node // _WORD == word) for word in range(len(self._delivered))]
        for word, part in parts:
            if (self._delivered[word].many(number[part]) & bits[part]).any():
                return False
        for word, part in parts:
            self._delivered[word].or_many(number[part], bits[part])
        return True

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every delivery."""
        index, ats = self.group.sent.index, self.group.sent.ats
        one_order = self.run.header.one_order
        for row in rows:
            if row[0] not in TAKEN:
                continue
            _, n, _, seq, _, _, at, *_ = row
            word, bit = self._delivered[n // _WORD], 1 << n % _WORD
            nodes = word.get(seq) or word[seq]
            message = index[seq]
            if nodes & bit:
                self._fault(row, "delivers {} again")
            elif message < 0 or (one_order and ats[message] >= at):
                self._fault(row, "delivers {}, which nobody had multicast")
            word[seq] = nodes | bit
        for word in self._delivered:
            word.trim()

    def end(self) -> None:
        """Report what was multicast twice or in the name of another: no more multicasts come."""
        for row in self.group.sent.repeated:
            self._fault(row, "multicasts {} a second time")
        for row in self.group.sent.foreign:
            self._fault(row, "multicasts {} in the name of another")

    def _fault(self, row: Row, fault: str) -> None:
        sender, seq = self.group.sender, row[3]
        text = fault.format(f"{sender}#{seq}")
        self.report(PROPERTY.name, row[1], [(sender, seq)], row[7], text)


PROPERTY: Final = Property(
    "Integrity",
    {BY_SENDER: IntegrityKernel},
    ("multicast", "deliver", "state"),
    reliability=EVERY,
)
