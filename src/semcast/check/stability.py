"""Stability (STAB §2): a node takes messages for stable, and so forgets them, only when everybody
who is there has all of them up to that one, or has skipped them. Holds on every prefix.

A node that comes later counts from its join point on. In an open group those count who are in the
view of the node that takes a message for stable. In an open feed, where a sender gives up readers
that are stopped for long, only what readers get shows whether it waited for them. Only a log in
one order can show any of this; others are not judged.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.kernel import IN_ORDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import (
    IGNORE,
    JOIN,
    MULTICAST,
    PURGE_RETRANSMIT,
    RECEIVE,
    SKIP,
    STABLE,
    Longs,
    Row,
    Rows,
    slices_of,
)


@final
class _Progress:
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

    @property
    def is_whole(self) -> bool:
        """Whether nobody has anything beyond a gap."""
        return not self._ahead


def _kernel(group: Group) -> "StabilityKernel | None":
    """No kernel for an open feed: a sender does not say for which readers it waits."""
    header = group.run.header
    return None if header.open and header.reliability == "sender" else StabilityKernel(group)


@final
class StabilityKernel(Kernel):
    """All that was heard of one sender, or of several of one run, in the order of the run."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._progress: Final[dict[int, _Progress]] = {}

    def feed_many(self, rows: Rows) -> bool:
        """Compare each stable event with how far everybody is."""
        sid = rows.numbers("sid")
        by_sender = np.argsort(sid, kind="stable")
        by_sender = by_sender[rows.numbers("kind")[by_sender] != PURGE_RETRANSMIT]
        parts = slices_of(sid[by_sender])
        followed = [self._follow(rows, number, by_sender[part]) for number, part in parts]
        if any(up_to is None for up_to in followed):
            return False
        for (number, _), up_to in zip(parts, followed, strict=True):
            self._progress[number].up_to.update(up_to or {})
        return True

    def _follow(self, rows: Rows, sid: int, here: Longs) -> dict[int, int] | None:
        """How far nodes come by these rows of one sender, if they come in order and all is well.

        None if that must be looked at row by row.
        """
        progress = self._progress_of(sid)
        kind, n, seq = (rows.numbers(name)[here] for name in ("kind", "n", "seq"))
        steps = np.flatnonzero(kind == STABLE)
        has = np.flatnonzero(np.isin(kind, (RECEIVE, IGNORE, SKIP, MULTICAST)))
        if self.run.header.open or not progress.is_whole or len(steps) + len(has) < len(here):
            return None
        stable, stable_at = seq[steps], rows.numbers("at")[here[steps]]
        by_node = has[np.argsort(n[has], kind="stable")]
        parts = dict(slices_of(n[by_node]))
        found: dict[int, int] = {}
        newest = int(stable.max(initial=0))
        for node, up_to in progress.up_to.items():
            if node not in parts and newest <= up_to:
                continue
            came = by_node[parts.pop(node, slice(0))]
            # The sender has its own messages twice: as multicast, and as received.
            came = came[np.diff(np.maximum.accumulate(seq[came]), prepend=up_to) > 0]
            if not np.array_equal(seq[came], np.arange(up_to + 1, up_to + 1 + len(came))):
                return None
            found[node] = up_to + len(came)
            # Where the node got as far as what is said to be stable, if it did.
            place = np.append(came, len(here))[np.clip(stable - up_to - 1, 0, len(came))]
            late = (stable > up_to) & (place > steps)
            if (late & (self.run.gone_at[node] >= stable_at)).any():
                return None
        return None if parts else found

    def _progress_of(self, sid: int) -> _Progress:
        progress = self._progress.get(sid)
        if progress is None:
            progress = self._progress[sid] = _Progress(self.run.initial.bit_count())
        return progress

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Compare row by row."""
        for row in rows:
            kind, n, sid, seq, *_ = row
            progress = self._progress.get(sid) or self._progress_of(sid)
            if kind == STABLE:
                if seq > progress.all_up_to:
                    self._on_stable(progress, row)
            elif kind == JOIN:
                if n not in progress.up_to:
                    progress.begin(n, seq)
            elif kind != PURGE_RETRANSMIT:
                progress.has(n, seq)

    def _counts(self, other: int, n: int, at: int) -> bool:
        """Whether a node waits for another: in an open group for those in its own view."""
        view = self.run.view_at(n, at) if self.run.header.open else None
        return view is None or self.run.nodes[other] in view.members

    def _on_stable(self, progress: _Progress, row: Row) -> None:
        _, n, sid, seq, _, _, at, time_ns, *_ = row
        gone_at = self.run.gone_at
        behind = {
            other: up_to
            for other, up_to in progress.up_to.items()
            if up_to < seq and gone_at[other] >= at and self._counts(other, n, at)
        }
        if not behind:
            if not self.run.header.open:
                progress.all_up_to = seq
            return
        last = min(behind, key=behind.__getitem__)
        stable = self.message(sid, seq)
        text = (
            f"takes {stable} for stable, but {self.run.nodes[last]} has "
            f"only what comes up to {behind[last]}"
        )
        self.report(PROPERTY.name, n, [stable], time_ns, text)


PROPERTY: Final = Property("Stability", {IN_ORDER: _kernel}, ("stable",), one_order=True)
