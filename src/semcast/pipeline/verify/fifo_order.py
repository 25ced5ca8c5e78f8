"""FIFO Order (SRM Figure 2), as `check.fifo_order` has it: a kernel for each sender."""

from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.fifo_order import PROPERTY as PROPERTY
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import DELIVER, MULTICAST, Frames
from semcast.pipeline.verify.kernel import Columns, SeqTable, judge


def violations(frames: Frames) -> DataFrame:
    """Stage: every delivery after one that was multicast later."""
    rows = frames.by_sender.where(f"kind in ({MULTICAST}, {DELIVER})")
    rows = frames.only_runs(rows, lambda header: header.order == "fifo")
    columns = rows.select("sid", "n", "kind", "seq", "at", "time_ns")
    return judge(columns, "sid", partial(FifoOrderKernel, frames.facts))


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
        multicast_at, latest_at = self._multicast_at, self._latest_at
        for kind, n, seq, at, time_ns in zip(
            rows["kind"], rows["n"], rows["seq"], rows["at"], rows["time_ns"], strict=True
        ):
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
