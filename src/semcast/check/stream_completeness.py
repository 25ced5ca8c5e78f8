"""Stream Completeness, where the order is "fifo": what a process delivers of a sender, from its
join point until it leaves, crashes or the log ends, has no holes. If a process multicasts m before
m', whoever delivers m' has delivered m before, or does not want it (`ignore`), or something that
was multicast by then replaces m. Holds on every prefix, so for processes that read and go too.

Whoever came later owes nothing before its join point, nor of senders that were there before it and
for which it reported none. Where the order is "key", Key Completeness says the same of each key.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.facts import NEVER
from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import IGNORE, JOIN, SKIP, TAKEN, Longs, Row, Rows, slices_of


@final
class StreamCompletenessKernel(Kernel):
    """Follows each node along the messages of one sender."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        nodes = range(len(self.run.nodes))
        # By node: the place of the first message that is still to come, and the first seq that the
        # node is to have.
        self._following: Final = [0] * len(nodes)
        self._owes_from: Final = [self._owed_at_first(n) for n in nodes]
        self._joined: Final[set[int]] = set()
        self._ignored: Final[set[tuple[int, int]]] = set()
        self._wrote_all: Final = self.run.wrote_all(group.sender)

    def _owed_at_first(self, n: int) -> int:
        if self.run.nodes[n] == self.group.sender:
            return 1 if self.run.header.deliver_own else NEVER
        return 1 if self.run.has_all_of(n, self.group.sender) else NEVER

    # -- all rows at once --------------------------------------------------------------------------

    def feed_many(self, rows: Rows) -> bool:
        """Look at all deliveries at once, if they come in order and nobody joins meanwhile."""
        kind = rows.numbers("kind")
        if np.isin(kind, (JOIN, IGNORE)).any() or self._ignored:
            return False
        if not self._wrote_all and (kind == SKIP).any():
            return False
        taken = np.isin(kind, TAKEN)
        message = self.group.sent.index.many(rows.numbers("seq")[taken])
        known = message >= 0
        node, at = rows.numbers("n")[taken][known], rows.numbers("at")[taken][known]
        message = message[known]
        order = np.argsort(node.astype(np.int32), kind="stable")
        node, message, at = node[order], message[order], at[order]
        parts = slices_of(node)
        first = np.append(0, message[:-1] + 1)
        for number, part in parts:
            first[part.start] = self._following[number]
        if (message < first).any() or not self._are_replaced(node, first, message, at):
            return False
        for number, part in parts:
            self._following[number] = int(message[part.stop - 1]) + 1
        return True

    def _are_replaced(self, node: Longs, first: Longs, last: Longs, at: Longs) -> bool:
        """Whether something replaces all messages from `first` to before `last`, by `at`."""
        gap = np.flatnonzero((last > first) & (np.array(self._owes_from)[node] < NEVER))
        if not len(gap):
            return True
        covered_at = np.frombuffer(self.group.sent.covered_at, np.int64)
        edges = np.stack((first[gap], last[gap]), axis=1).ravel()
        latest = np.maximum.reduceat(covered_at, edges)[::2]
        late = at[gap] if self.run.header.one_order else NEVER
        return bool((latest < late).all())

    # -- row by row --------------------------------------------------------------------------------

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every delivery and every join."""
        for row in rows:
            if row[0] in TAKEN:
                self._on_delivery(row)
            elif row[0] == JOIN:
                self._on_join(row[1], row[3])
            elif row[0] == IGNORE:
                self._ignored.add((row[1], row[3]))
            elif row[0] == SKIP and row[2] == self.group.number and not self._wrote_all:
                # What replaces it was perhaps never sent, and only its sender's log knew it.
                self._ignored.add((row[1], row[3]))

    def _on_join(self, n: int, seq: int) -> None:
        at_first = (self.run.initial >> n) & 1 or self.run.nodes[n] == self.group.sender
        # The first that it reported counts. In an open group one that was forgotten, because it was
        # stopped for long, may have to begin anew, and says so.
        if not at_first and (n not in self._joined or self.run.header.open):
            self._joined.add(n)
            self._owes_from[n] = seq

    def _on_delivery(self, row: Row) -> None:
        sent, n = self.group.sent, row[1]
        message = sent.index[row[3]]
        if message < 0:
            return
        for older in range(self._following[n], message):
            seq = sent.seqs[older]
            owed = seq >= self._owes_from[n] and (n, seq) not in self._ignored
            if owed and not self._is_replaced(older, row[6]):
                self._passed_over(row, seq)
        self._following[n] = max(self._following[n], message + 1)

    def _is_replaced(self, message: int, at: int) -> bool:
        replaced_at = self.group.sent.covered_at[message]
        return replaced_at < at if self.run.header.one_order else replaced_at != NEVER

    def _passed_over(self, row: Row, older: int) -> None:
        sender, seq = self.group.sender, row[3]
        text = (
            f"delivers {sender}#{seq} but not {sender}#{older}, which was multicast before it and "
            "which nothing replaces"
        )
        self.report(PROPERTY.name, row[1], [(sender, older), (sender, seq)], row[7], text)


PROPERTY: Final = Property(
    "Stream Completeness",
    {BY_SENDER: StreamCompletenessKernel},
    ("deliver", "state"),
    order=("fifo",),
)
