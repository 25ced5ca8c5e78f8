"""FIFO Order (SRM Figure 2), as `check.fifo_order` has it: a kernel for each sender."""

from typing import Any, Final, final

import numpy as np
from pyspark.sql import DataFrame

from semcast.check.fifo_order import PROPERTY as PROPERTY
from semcast.pipeline.verify.columns import Columns, slices_of
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import BY_SENDER, DELIVER, JOIN, MULTICAST, Frames
from semcast.pipeline.verify.tables import SeqTable


def violations(frames: Frames) -> DataFrame:
    """Stage: every delivery after one that was multicast later."""
    return frames.violations(BY_SENDER, PROPERTY)


def kernel(facts: Facts, sid: int) -> "FifoOrderKernel | None":
    """Follows what nodes deliver of one sender."""
    run = facts.runs[facts.senders[sid][0]]
    return FifoOrderKernel(facts, sid) if run.header.order == "fifo" else None


@final
class FifoOrderKernel:
    """The messages of one sender: all multicasts first, then deliveries in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        number, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[number]
        self._multicast_at: Final = SeqTable()
        # By node, of what it delivered: where the last was multicast, and its seq.
        self._latest_at: Final = [-1] * len(self._run.nodes)
        self._latest: Final = [-1] * len(self._run.nodes)
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Each delivery must come later in its stream than all before it at that node."""
        for part in rows.parts:
            many = self._send_many if part.numbers("kind")[0] == MULTICAST else self._take_many
            if not many(part):
                self._feed_each(part)

    def _send_many(self, rows: Columns) -> bool:
        """Take all multicasts at once; False, and nothing taken, if one of them looks wrong."""
        seq = rows.numbers("seq")
        if not (seq[1:] > seq[:-1]).all() or (self._multicast_at.many(seq) >= 0).any():
            return False
        self._multicast_at.set_many(seq, rows.numbers("at"))
        return True

    def _take_many(self, rows: Columns) -> bool:
        """The same of all deliveries."""
        n, seq = rows.numbers("n"), rows.numbers("seq")
        taken = np.flatnonzero(rows.numbers("kind") == DELIVER)
        position = self._multicast_at.many(seq[taken])
        known = position >= 0
        position, taken = position[known], taken[known]
        order = np.argsort(n[taken].astype(np.int32), kind="stable")
        position, taken = position[order], taken[order]
        node = n[taken]
        if ((node[1:] == node[:-1]) & (position[1:] < position[:-1])).any():
            return False
        parts = slices_of(node)
        if any(position[part.start] < self._latest_at[number] for number, part in parts):
            return False
        for number, part in parts:
            self._latest_at[number] = int(position[part.stop - 1])
            self._latest[number] = int(seq[taken[part.stop - 1]])
        return True

    def _feed_each(self, rows: Columns) -> None:
        multicast_at, latest_at = self._multicast_at, self._latest_at
        for kind, n, seq, at, time_ns in zip(
            rows["kind"], rows["n"], rows["seq"], rows["at"], rows["time_ns"], strict=True
        ):
            if kind == JOIN:
                continue
            position = multicast_at[seq]
            if kind == MULTICAST:
                if position < 0:
                    multicast_at[seq] = at
            elif position >= 0:
                if latest_at[n] <= position:
                    latest_at[n] = position
                    self._latest[n] = seq
                else:
                    self._late(n, seq, time_ns)

    def end(self) -> None:
        """Everything was said."""

    def _late(self, n: int, seq: int, time_ns: int) -> None:
        node, sender, other = self._run.nodes[n], self._sender, self._latest[n]
        text = f"{node} delivers {sender}#{seq} after {sender}#{other}, which was multicast later"
        about = [(sender, seq), (sender, other)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
