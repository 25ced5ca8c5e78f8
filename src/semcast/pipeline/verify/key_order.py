"""Key Order, as `check.key_order` has it: a kernel for each sender of a run with order "key"."""

from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.key_order import PROPERTY as PROPERTY
from semcast.pipeline.verify.columns import Columns
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import BY_LIVES, BY_SENDER, DELIVER, JOIN, Frames
from semcast.pipeline.verify.sent import Sent, Streams


def violations(frames: Frames) -> DataFrame:
    """Stage: every delivery after one of its streams, or one that names it, multicast later; or
    after one of a later life that it should have come before (`key_lives`).
    """
    found = frames.violations(BY_SENDER, PROPERTY)
    if frames.facts.lives:
        found = found.unionByName(frames.violations(BY_LIVES, PROPERTY))
    return found


def kernel(facts: Facts, sid: int) -> "KeyOrderKernel | None":
    """Follows the streams of one sender."""
    run = facts.runs[facts.senders[sid][0]]
    return KeyOrderKernel(facts, sid) if run.header.order == "key" else None


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
            if kind == JOIN:
                continue
            annotation = (rows["obsoletes"][at], rows["key"][at], rows["rank"][at])
            if self._sent.add(rows["seq"][at], rows["at"][at], *annotation):
                self._streams.add(*annotation)

    def _on_delivery(self, n: int, seq: int, time_ns: int) -> None:
        message = self._sent.index[seq]
        if message < 0:
            return
        other = -1
        for stream, _ in self._streams.of(message):
            last = self._latest.get((n, stream), -1)
            if last <= message:
                self._latest[n, stream] = message
            elif other < 0:
                other = last
        if other < 0:
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
