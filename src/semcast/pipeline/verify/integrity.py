"""Integrity (SRM Figure 2), as `check.integrity` has it: a kernel for each sender."""

from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.integrity import PROPERTY as PROPERTY
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import DELIVER, MULTICAST, Frames
from semcast.pipeline.verify.kernel import Columns, SeqBytes, SeqTable, judge


def violations(frames: Frames) -> DataFrame:
    """Stage: every multicast and every delivery of which something is wrong."""
    rows = frames.by_sender.where(f"kind in ({MULTICAST}, {DELIVER})")
    columns = rows.select("sid", "n", "kind", "seq", "at", "time_ns")
    return judge(columns, "sid", partial(IntegrityKernel, frames.facts))


@final
class IntegrityKernel:
    """The messages of one sender: all multicasts first, then deliveries in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        number, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[number]
        self._multicast_at: Final = SeqTable()
        self._delivered: Final = [SeqBytes() for _ in self._run.nodes]
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Look at every row."""
        multicast_at, delivered = self._multicast_at, self._delivered
        one_order = self._run.header.one_order
        for kind, n, seq, at, time_ns in zip(
            rows["kind"], rows["n"], rows["seq"], rows["at"], rows["time_ns"], strict=True
        ):
            position = multicast_at[seq]
            if kind == DELIVER:
                chunk = delivered[n].chunk(seq)
                if chunk[seq & SeqBytes.MASK]:
                    self._fault(n, seq, time_ns, "delivers {} again")
                elif position < 0 or (one_order and position >= at):
                    self._fault(n, seq, time_ns, "delivers {}, which nobody had multicast")
                chunk[seq & SeqBytes.MASK] = 1
            elif position >= 0:
                self._fault(n, seq, time_ns, "multicasts {} a second time")
            else:
                multicast_at[seq] = at
                if self._run.nodes[n] != self._sender:
                    self._fault(n, seq, time_ns, "multicasts {} in the name of another")

    def end(self) -> None:
        """Everything was said."""

    def _fault(self, n: int, seq: int, time_ns: int, fault: str) -> None:
        node = self._run.nodes[n]
        text = f"{node} {fault.format(f'{self._sender}#{seq}')}"
        about = [(self._sender, seq)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
