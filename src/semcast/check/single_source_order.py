"""Single Source Order (PROP §1 a): messages of one source to one group are delivered everywhere in
the order in which they were multicast. Messages of one source to several groups may change places.

It is asked of every life by itself, also of one that crashed or was put out: only what others sent
may have come to it in another order than to the rest. What a life undid itself counts as not
delivered.
"""

from collections import defaultdict
from typing import Final, final

import numpy as np

from semcast.check.kernel import BY_STREAM, Group, Kernel
from semcast.check.property import FEDERATION, Property
from semcast.check.rows import DELIVER, UNDO, Longs, Rows

_COLUMNS: Final = ("kind", "n", "seq", "time_ns")


@final
class SingleSourceOrderKernel(Kernel):
    """The messages of one site, by group; each delivery must come later than all before it."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._parts: Final[list[list[Longs]]] = [[] for _ in _COLUMNS]

    def feed(self, rows: Rows) -> None:
        """Keep deliveries and what is undone."""
        kept = np.isin(rows.numbers("kind"), (DELIVER, UNDO))
        for name, parts in zip(_COLUMNS, self._parts, strict=True):
            parts.append(rows.numbers(name)[kept])

    def end(self) -> None:
        """Look at all deliveries at once."""
        if not self._parts[0]:
            return
        kind, node, seq, time_ns = map(np.concatenate, self._parts)
        sent = self.group.sent
        message = sent.index.many(seq)
        stands = (kind == DELIVER) & (message >= 0) & _not_undone(kind, node, message)
        node, message, time_ns = node[stands], message[stands], time_ns[stands]
        gid = np.frombuffer(sent.gids, np.int64)[message] if len(message) else message
        order = np.lexsort((gid, node))
        node, gid, message, time_ns = (one[order] for one in (node, gid, message, time_ns))
        new = np.append(True, (node[1:] != node[:-1]) | (gid[1:] != gid[:-1]))[: len(node)]
        # Streams stand one after the other; each begins above everything that was before it.
        base = np.cumsum(new) * (len(sent.seqs) + 1)
        latest = np.maximum.accumulate(message + base) - base if len(node) else message
        for at in np.flatnonzero(message < latest).tolist():
            self._late(int(node[at]), int(message[at]), int(latest[at]), int(time_ns[at]))

    def _late(self, n: int, message: int, other: int, time_ns: int) -> None:
        sender, sent = self.group.sender, self.group.sent
        seq, later = sent.seqs[message], sent.seqs[other]
        sites = self.run.sites
        group = sites.groups[sent.gids[message]] if sites is not None else ""
        text = f"delivers {sender}#{seq} after {sender}#{later}, multicast later to {group!r} too"
        self.report(PROPERTY.name, n, [(sender, seq), (sender, later)], time_ns, text)


def _not_undone(kind: Longs, node: Longs, message: Longs) -> Longs:
    """Which rows stand: a node that undoes a message undoes its last delivery of it that stood."""
    stands = np.ones(len(kind), bool)
    undone = np.flatnonzero(kind == UNDO)
    if not len(undone):
        return stands
    pairs = set(zip(node[undone].tolist(), message[undone].tolist(), strict=True))
    before: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for at, pair in enumerate(zip(node.tolist(), message.tolist(), strict=True)):
        if pair not in pairs:
            continue
        if kind[at] == DELIVER:
            before[pair].append(at)
        elif before[pair]:
            stands[before[pair].pop()] = False
    return stands


PROPERTY: Final = Property(
    "Single Source Order",
    {BY_STREAM: SingleSourceOrderKernel},
    ("deliver",),
    reliability=(FEDERATION,),
)
