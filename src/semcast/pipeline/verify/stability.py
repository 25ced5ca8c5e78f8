"""Stability (STAB §2), as `check.stability` has it: a kernel for each sender.

Only runs in one order are judged.
"""

from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.stability import PROPERTY as PROPERTY
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import JOIN, MULTICAST, RECEIVE, SKIP, STABLE, Frames
from semcast.pipeline.verify.kernel import Columns, judge


def violations(frames: Frames) -> DataFrame:
    """Stage: every message that was taken for stable although somebody lacked it."""
    kinds = (MULTICAST, RECEIVE, SKIP, STABLE, JOIN)
    rows = frames.in_order.where(f"kind in {kinds}")
    columns = rows.select("gid", "sid", "n", "kind", "seq", "at", "time_ns")
    return judge(columns, "gid", partial(StabilityKernel, frames.facts))


@final
class _Stream:
    """How far each node has come in the stream of one sender."""

    def __init__(self, nodes: int) -> None:
        # INV-UPTO: up to here a node has received or skipped everything.
        self.up_to: Final[dict[int, int]] = dict.fromkeys(range(nodes), 0)
        self._ahead: Final[set[tuple[int, int]]] = set()
        # INV-ALL: every node that counts has everything up to here.
        self.all_up_to = 0

    def has(self, n: int, seq: int) -> None:
        up_to = self.up_to.get(n)
        if up_to is None:
            self.begin(n, 1)
            up_to = 0
        if seq <= up_to:
            return
        if seq == up_to + 1 and not self._ahead:
            self.up_to[n] = seq
            return
        self._ahead.add((n, seq))
        while (n, up_to + 1) in self._ahead:
            up_to += 1
            self._ahead.remove((n, up_to))
        self.up_to[n] = up_to

    def begin(self, n: int, seq: int) -> None:
        self.up_to[n] = seq - 1
        self.all_up_to = min(self.all_up_to, seq - 1)


@final
class StabilityKernel:
    """All that was heard of one sender, or of several of one run, in the order of the run."""

    def __init__(self, facts: Facts, gid: int) -> None:
        self._facts: Final = facts
        self._streams: Final[dict[int, _Stream]] = {}
        self._run: Final = facts.runs[facts.senders[gid][0]]
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Compare each stable event with how far everybody is."""
        for kind, sid, n, seq, at, time_ns in zip(
            rows["kind"], rows["sid"], rows["n"], rows["seq"], rows["at"], rows["time_ns"],
            strict=True,
        ):  # fmt: skip
            stream = self._streams.get(sid)
            if stream is None:
                initial = self._run.initial.bit_count()
                stream = self._streams[sid] = _Stream(initial)
            if kind == STABLE:
                if seq > stream.all_up_to:
                    self._on_stable(stream, sid, n, seq, at, time_ns)
            elif kind != JOIN:
                stream.has(n, seq)
            elif n not in stream.up_to:
                stream.begin(n, seq)

    def end(self) -> None:
        """Everything was said."""

    def _on_stable(
        self, stream: _Stream, sid: int, n: int, seq: int, at: int, time_ns: int
    ) -> None:
        gone_at = self._run.gone_at
        behind = {
            other: up_to
            for other, up_to in stream.up_to.items()
            if up_to < seq and gone_at[other] >= at
        }
        if not behind:
            stream.all_up_to = seq
            return
        last = min(behind, key=behind.__getitem__)
        stable = self._facts.message(sid, seq)
        nodes = self._run.nodes
        text = (
            f"{nodes[n]} takes {stable} for stable, but {nodes[last]} has "
            f"only what comes up to {behind[last]}"
        )
        row = (self._run.header.run, PROPERTY, nodes[n], [tuple(stable)], time_ns, text)
        self.found.append(row)
