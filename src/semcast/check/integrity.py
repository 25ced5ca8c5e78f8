"""Integrity (SRM Figure 2): every process delivers m at most once, and only if m was multicast
before by some process. Holds on every prefix.

What a newcomer gets of what stands (`state`) is delivered too. A log in which one number names two
messages, or a process speaks for another, breaks it too: then "m" would not be one message.

In a federation a delivery that was undone may be made again. And a site receives only what goes to
a group that it is in, by the graph under which it receives it (PROP §3), as the group that m was
multicast to; this is not asked of what it gets from before its first graph.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.kernel import BY_SENDER, BY_STREAM, Group, Kernel
from semcast.check.property import EVERY, Property
from semcast.check.rows import RECEIVE, TAKEN, UNDO, Row, Rows
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
        if not taken.all() and (rows.numbers("kind") == UNDO).any():
            return False
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
            if row[0] not in TAKEN and row[0] != UNDO:
                continue
            _, n, _, seq, _, _, at, *_ = row
            word, bit = self._delivered[n // _WORD], 1 << n % _WORD
            nodes = word.get(seq) or word[seq]
            if row[0] == UNDO:
                word[seq] = nodes & ~bit
                continue
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


def _addressees(group: Group) -> "AddresseesKernel | None":
    """Only federations have messages for some of their sites."""
    return None if group.run.sites is None else AddresseesKernel(group)


@final
class AddresseesKernel(Kernel):
    """The messages of one site of a federation: who received them, and was it in their group?"""

    def feed_many(self, rows: Rows) -> bool:
        """Ask of each group, graph and node once."""
        came = rows.numbers("kind") == RECEIVE
        n, seq, gid, graph = (rows.numbers(name)[came] for name in ("n", "seq", "gid", "graph"))
        sent = self.group.sent
        message = sent.index.many(seq)
        known = message >= 0
        if known.any():
            gids = np.frombuffer(sent.gids, np.int64)[message[known]]
            if (gids != gid[known]).any():
                return False
        asked = np.unique(np.stack((n, gid, graph)), axis=1).T
        return all(self._is_in(*one) for one in asked.tolist())

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Ask of every message that was received."""
        sent, sites = self.group.sent, self.run.sites
        assert sites is not None, "only federations are judged so"
        for row in rows:
            if row[0] != RECEIVE:
                continue
            n, seq, gid, graph = row[1], row[3], row[14], row[15]
            message = sent.index[seq]
            if message >= 0 and sent.gids[message] != gid:
                other = sites.groups[sent.gids[message]]
                self._fault(row, f"as one for {sites.groups[gid]!r}, although it is for {other!r}")
            elif not self._is_in(n, gid, graph):
                self._fault(row, f"for {sites.groups[gid]!r}, which it is not in by graph {graph}")

    def _is_in(self, n: int, gid: int, graph: int) -> bool:
        sites = self.run.sites
        assert sites is not None, "only federations are judged so"
        opens = sites.opens[n]
        unknown = not opens or opens[0].number > graph
        return unknown or bool((sites.members(gid, graph) >> n) & 1)

    def _fault(self, row: Row, fault: str) -> None:
        sender, seq = self.group.sender, row[3]
        text = f"receives {sender}#{seq} {fault}"
        self.report(PROPERTY.name, row[1], [(sender, seq)], row[7], text)


PROPERTY: Final = Property(
    "Integrity",
    {BY_SENDER: IntegrityKernel, BY_STREAM: _addressees},
    ("multicast", "deliver", "state"),
    reliability=EVERY,
)
