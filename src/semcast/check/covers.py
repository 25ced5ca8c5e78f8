"""Whether what was purged or skipped was really replaced by its cover: part of Accounting.

A kernel for each sender of covers has what it multicast, and follows the untruncated relation down
from the cover. A message skipped for itself must have been replaced by something: whoever said so
had forgotten by what.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.facts import NEVER, source_of
from semcast.check.kernel import Group, Kernel
from semcast.check.rows import PURGE_DELIVERY, SKIP, Row, Rows


@final
class CoversKernel(Kernel):
    """The covers of one sender: what it multicast is known, and what was purged for it comes."""

    def __init__(self, group: Group, name: str, precedence: int) -> None:
        super().__init__(group)
        self._name: Final = name
        self._precedence: Final = precedence

    def feed_many(self, rows: Rows) -> bool:
        """Whether all covers were there, and name what was purged for them."""
        kind = rows.numbers("kind")
        asks = (kind >= PURGE_DELIVERY) & (kind <= SKIP)
        kind, sid, seq, bseq, at = (
            rows.numbers(name)[asks] for name in ("kind", "sid", "seq", "bseq", "at")
        )
        sent = self.group.sent
        cover, older = sent.index.many(bseq), sent.index.many(seq)
        if (sid != self.group.number).any() or (cover < 0).any() or (older < 0).any():
            return False
        itself = (kind == SKIP) & (seq == bseq)
        from_at = np.frombuffer(sent.ats, np.int64)[cover]
        replaced_at = np.frombuffer(sent.covered_at, np.int64)[cover]
        from_at = np.where(itself, replaced_at, from_at)
        there = from_at < at if self.run.header.one_order else from_at != NEVER
        return bool(there.all()) and sent.name_all(cover[~itself], older[~itself])

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Ask of every purge and skip."""
        for row in rows:
            if PURGE_DELIVERY <= row[0] <= SKIP:
                self._ask(row)

    def _ask(self, row: Row) -> None:
        kind, _, sid, seq, _, bseq, at, _, _, _, key, rank, *_ = row
        sent, own = self.group.sent, sid == self.group.number
        cover = sent.index[bseq]
        itself = kind == SKIP and own and seq == bseq
        covers = True
        from_at = NEVER
        if cover >= 0 and itself:
            from_at = sent.covered_at[cover]
        elif cover >= 0:
            from_at = sent.ats[cover]
            ranked = None
            if rank is not None:
                source = source_of(self.group.facts.senders[sid][1])
                ranked = (key or "", (rank, *source, seq))
            covers = sent.covers(cover, sent.index[seq] if own else -1, ranked)
        there = from_at < at if self.run.header.one_order else from_at != NEVER
        if not (there and covers):
            self._fault(row, itself, there)

    def _fault(self, row: Row, itself: bool, there: bool) -> None:
        kind, n, sid, seq, bsid, bseq, at, time_ns, *_ = row
        message, cover = self.message(sid, seq), self.message(bsid, bseq)
        text = f"{'skips' if kind == SKIP else 'purges'} {message}"
        if itself:
            text += ", and nothing that was multicast replaces it"
        else:
            why = "which does not replace it" if there else "which nobody had multicast"
            text += f" for {cover}, {why}"
        more = {"at": at, "precedence": self._precedence}
        self.tell(self._name, n, [message, cover], time_ns, text, **more)
