"""Safe purging (SRM §4.3, Figure 4), as `check.safe_purging` has it: a kernel for each sender.

Covers are of the same sender, unless messages have ranks: then a whole run is one group. Only runs
in one order are judged.
"""

from collections import defaultdict
from functools import partial
from typing import Any, Final, TypeAlias, final

from pyspark.sql import DataFrame

from semcast.check.safe_purging import PROPERTY as PROPERTY
from semcast.pipeline.verify.facts import Facts, nodes_in, source_of
from semcast.pipeline.verify.frames import MULTICAST, PURGE_RETRANSMIT, RECEIVE, SKIP, Frames
from semcast.pipeline.verify.kernel import Columns, SeqBytes, judge

# A message: the number of its sender, and its own.
_Id: TypeAlias = tuple[int, int]


def violations(frames: Frames) -> DataFrame:
    """Stage: every purge from retransmission for a message that was not safe by then."""
    kinds = (MULTICAST, RECEIVE, SKIP, PURGE_RETRANSMIT)
    rows = frames.in_order.where(f"kind in {kinds}")
    rows = frames.only_runs(rows, lambda header: header.reliability == "group")
    columns = rows.select("gid", "sid", "n", "kind", "seq", "bsid", "bseq", "at", "time_ns")
    return judge(columns, "gid", partial(SafePurgingKernel, frames.facts))


@final
class SafePurgingKernel:
    """All that was had and purged of one sender, or of one run, in the order of the run."""

    def __init__(self, facts: Facts, gid: int) -> None:
        self._facts: Final = facts
        self._run: Final = facts.runs[facts.senders[gid][0]]
        self._members: Final = [source_of(name)[0] for name in self._run.nodes]
        # By message that is not safe yet: the nodes that have it. INV-SAFE: safe are the messages
        # that more than f members have; for those nobody asks who has them.
        self._having: Final[dict[_Id, int]] = {}
        self._safe: Final[defaultdict[int, SeqBytes]] = defaultdict(SeqBytes)
        # By message, and by node and message: which nodes skipped what for it and lack it yet.
        self._until_safe: Final[defaultdict[_Id, list[tuple[int, _Id]]]] = defaultdict(list)
        self._until_there: Final[defaultdict[tuple[int, _Id], list[_Id]]] = defaultdict(list)
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Count, at each purge from retransmission, who has its cover by then."""
        for kind, sid, n, seq, bsid, bseq, at, time_ns in zip(
            rows["kind"], rows["sid"], rows["n"], rows["seq"], rows["bsid"], rows["bseq"],
            rows["at"], rows["time_ns"], strict=True,
        ):  # fmt: skip
            if kind in (RECEIVE, MULTICAST):
                if not self._safe[sid].chunk(seq)[seq & SeqBytes.MASK]:
                    self._has(n, (sid, seq))
            elif bsid < 0:
                continue
            elif kind == SKIP:
                self._on_skip(n, (sid, seq), (bsid, bseq))
            elif not self._allowed((bsid, bseq), at):
                self._unsafe(n, (sid, seq), (bsid, bseq), time_ns)

    def end(self) -> None:
        """Everything was said."""

    def _is_safe(self, message: _Id) -> bool:
        sid, seq = message
        return self._safe[sid].chunk(seq)[seq & SeqBytes.MASK] != 0

    def _allowed(self, cover: _Id, at: int) -> bool:
        if self._is_safe(cover):
            return True
        having = self._having.get(cover, 0)
        gone_at = self._run.gone_at
        lacking = nodes_in(self._run.initial & ~having)
        return all(gone_at[n] < at for n in lacking)

    def _on_skip(self, n: int, message: _Id, cover: _Id) -> None:
        there = (self._having.get(cover, 0) >> n) & 1
        # Skipped for itself: whoever purged it, when that was safe, has forgotten for what.
        if there or cover == message or self._is_safe(cover):
            self._has(n, message)
        else:
            self._until_safe[cover].append((n, message))
            self._until_there[n, cover].append(message)

    def _has(self, n: int, message: _Id) -> None:
        """A node has a message; what follows from that for others follows at once."""
        news = [(n, message)]
        while news:
            n, message = news.pop()
            having = self._having.get(message, 0)
            if (having >> n) & 1 or self._is_safe(message):
                continue
            having |= 1 << n
            self._having[message] = having
            if self._until_there:
                news += [(n, older) for older in self._until_there.pop((n, message), ())]
            if self._count(having) > self._run.header.f:
                sid, seq = message
                self._safe[sid].chunk(seq)[seq & SeqBytes.MASK] = 1
                del self._having[message]
                news += self._until_safe.pop(message, ())

    def _count(self, having: int) -> int:
        """How many members these nodes are: a life takes its messages with it."""
        if having & (having - 1) == 0:
            return having.bit_count()
        return len({self._members[n] for n in nodes_in(having)})

    def _unsafe(self, n: int, message: _Id, cover: _Id, time_ns: int) -> None:
        name, other = self._facts.message(*message), self._facts.message(*cover)
        have = self._count(self._having.get(cover, 0))
        node = self._run.nodes[n]
        text = (
            f"{node} purges {name} from retransmission for {other}, which is not safe: "
            f"{have} have it, and {self._run.header.f + 1} must"
        )
        about = [tuple(name), tuple(other)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
