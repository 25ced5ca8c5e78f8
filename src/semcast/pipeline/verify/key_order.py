"""Key Order, as `check.key_order` has it: a kernel for each sender of a run with order "key"."""

from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.key_order import PROPERTY as PROPERTY
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import DELIVER, MULTICAST, Frames
from semcast.pipeline.verify.kernel import Columns, judge
from semcast.pipeline.verify.sent import NO_STREAM, Sent, Streams


def violations(frames: Frames) -> DataFrame:
    """Stage: every delivery after one of its stream, or one that names it, multicast later."""
    rows = frames.by_sender.where(f"kind in ({MULTICAST}, {DELIVER})")
    rows = frames.only_runs(rows, lambda header: header.order == "key")
    columns = rows.select("sid", "n", "kind", "seq", "at", "time_ns", "obsoletes", "key", "rank")
    return judge(columns, "sid", partial(KeyOrderKernel, frames.facts))


@final
class KeyOrderKernel:
    """The messages of one sender: all multicasts first, then deliveries in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        number, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[number]
        self._sent: Final = Sent(self._run, self._sender)
        self._streams: Final = Streams()
        # By node and stream: of what it delivered, the message that was multicast last.
        self._latest: Final[dict[tuple[int, int], int]] = {}
        # By node: what it must not deliver any more, and the message that named it.
        self._named: Final[list[dict[int, int]]] = [{} for _ in self._run.nodes]
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Each delivery must come later in its stream than all before it, and before its covers."""
        for at, kind in enumerate(rows["kind"]):
            if kind == DELIVER:
                self._on_delivery(rows["n"][at], rows["seq"][at], rows["time_ns"][at])
                continue
            annotation = (rows["obsoletes"][at], rows["key"][at], rows["rank"][at])
            if self._sent.add(rows["seq"][at], rows["at"][at], *annotation):
                self._streams.add(*annotation)

    def _on_delivery(self, n: int, seq: int, time_ns: int) -> None:
        message = self._sent.index[seq]
        if message < 0:
            return
        stream = (n, self._streams.of[message])
        other = self._latest.get(stream, -1) if stream[1] != NO_STREAM else -1
        if other <= message:
            self._latest[stream] = message
            other = self._named[n].get(message, -1)
        for older in self._sent.names(message):
            self._named[n].setdefault(older, message)
        if other >= 0:
            self._late(n, seq, self._sent.seqs[other], time_ns)

    def end(self) -> None:
        """Everything was said."""

    def _late(self, n: int, seq: int, other: int, time_ns: int) -> None:
        node, sender = self._run.nodes[n], self._sender
        text = (
            f"{node} delivers {sender}#{seq} after {sender}#{other}, which was multicast later and "
            "is of the same key, names it, or is unmarked as well"
        )
        about = [(sender, seq), (sender, other)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
