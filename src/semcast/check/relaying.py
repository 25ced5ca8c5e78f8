"""Relaying (PSRM §3.1): a member passes on only what it has, and nothing that it has purged.

Gossip makes up for much: that a member invents, or passes on what it dropped, shows neither in what
is delivered nor in how many get it. A message is purged once from what waits for all links; from
what waits for a single link it may be purged, and still go to others. That covers are here, and
cover, is judged by Accounting. Holds on every prefix.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.kernel import BY_NODE, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import (
    IGNORE,
    MULTICAST,
    PURGE_LINK,
    PURGE_RELAY,
    RECEIVE,
    RELAY,
    Row,
    Rows,
    slices_of,
)
from semcast.check.tables import SeqTable

# What is known of a message at a node: it came or was made here; it was purged.
_HERE: Final = 1
_PURGED: Final = 2
_ENTERS: Final = (MULTICAST, RECEIVE, IGNORE)
_ASKED: Final = (RELAY, PURGE_RELAY, PURGE_LINK)


def _bytes() -> SeqTable:
    return SeqTable(0, np.uint8)


@final
class RelayingKernel(Kernel):
    """The messages at one node, whose events come in their order."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._books: Final[defaultdict[int, SeqTable]] = defaultdict(_bytes)

    def feed_many(self, rows: Rows) -> bool:
        """Take in many messages at once, if nothing was passed on or purged meanwhile."""
        kind = rows.numbers("kind")
        if np.isin(kind, _ASKED).any():
            return False
        enters = np.isin(kind, _ENTERS)
        sid, seq = rows.numbers("sid")[enters], rows.numbers("seq")[enters]
        order = np.argsort(sid, kind="stable")
        for number, part in slices_of(sid[order]):
            found = seq[order][part]
            self._books[number].or_many(found, np.full(len(found), _HERE, np.int64))
        return True

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every row."""
        for row in rows:
            kind, _, sid, seq = row[:4]
            page = self._books[sid]
            byte = page.get(seq) or page[seq]
            if kind in _ENTERS:
                page[seq] = byte | _HERE
            elif kind == RELAY:
                if not byte & _HERE:
                    self._fault(row, "passes on {}, which it never had")
                elif byte & _PURGED:
                    self._fault(row, "passes on {}, which it had purged")
            elif kind in (PURGE_RELAY, PURGE_LINK):
                if not byte & _HERE:
                    self._fault(row, "purges {} from what it passes on, and never had it")
                elif kind == PURGE_RELAY and byte & _PURGED:
                    self._fault(row, "purges {} a second time from what it passes on")
                page[seq] = byte | (_PURGED if kind == PURGE_RELAY else 0)
        for page in self._books.values():
            page.trim()

    def _fault(self, row: Row, fault: str) -> None:
        about = self.message(row[2], row[3])
        self.report(PROPERTY.name, row[1], [about], row[7], fault.format(about))


PROPERTY: Final = Property(
    "Relaying", {BY_NODE: RelayingKernel}, ("relay", "purge"), reliability=("gossip",)
)
