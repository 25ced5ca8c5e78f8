"""FIFO Order (SRM Figure 2): if a process multicasts m before m', no process delivers m after
delivering m'. Holds on every prefix.

The run that Figure 4 as printed allows (m1 relayed to a process that has m2 already) shows here.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import TAKEN, Row, Rows, slices_of


@final
class FifoOrderKernel(Kernel):
    """Each delivery must come later in its stream than all before it at that node."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By node: of what it delivered, the message that was multicast last.
        self._latest: Final = [-1] * len(self.run.nodes)

    def feed_many(self, rows: Rows) -> bool:
        """Look at all deliveries at once."""
        taken = np.isin(rows.numbers("kind"), TAKEN)
        message = self.group.sent.index.many(rows.numbers("seq")[taken])
        known = message >= 0
        node, message = rows.numbers("n")[taken][known], message[known]
        order = np.argsort(node.astype(np.int32), kind="stable")
        node, message = node[order], message[order]
        if ((node[1:] == node[:-1]) & (message[1:] < message[:-1])).any():
            return False
        parts = slices_of(node)
        if any(message[part.start] < self._latest[number] for number, part in parts):
            return False
        for number, part in parts:
            self._latest[number] = int(message[part.stop - 1])
        return True

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every delivery."""
        index, latest = self.group.sent.index, self._latest
        for row in rows:
            if row[0] in TAKEN:
                n = row[1]
                message = index[row[3]]
                if message >= latest[n]:
                    latest[n] = message
                elif message >= 0:
                    self._late(row, self.group.sent.seqs[latest[n]])

    def _late(self, row: Row, other: int) -> None:
        sender, seq = self.group.sender, row[3]
        text = f"delivers {sender}#{seq} after {sender}#{other}, which was multicast later"
        self.report(PROPERTY.name, row[1], [(sender, seq), (sender, other)], row[7], text)


PROPERTY: Final = Property(
    "FIFO Order", {BY_SENDER: FifoOrderKernel}, ("deliver", "state"), order=("fifo",)
)
