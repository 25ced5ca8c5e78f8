"""What all sites of a federation delivered, in compact arrays: rows in, one sequence a site out.

A sequence is what a site delivered in the lives whose order counts (`sites`), one after the other,
without what it undid. All rows of a run are here together: some 30 bytes for a delivery, and twice
as many more while sequences are made, so that a task with 4 GB judges 40 million deliveries.
"""

from collections import defaultdict
from functools import cached_property
from typing import Final, final

import numpy as np

from semcast.check.facts import RunFacts
from semcast.check.rows import DELIVER, UNDO, Longs, Rows, keys_of
from semcast.check.sites import Sites

# What is kept of a row, and in how many bytes.
_KEPT: Final = {
    "kind": np.int8, "n": np.int32, "sid": np.int32, "seq": np.int64, "gid": np.int32,
    "time_ns": np.int64,
}  # fmt: skip


@final
class Delivered:
    """The deliveries of one run. A row is known by its place among all of them."""

    def __init__(self, run: RunFacts) -> None:
        assert run.sites is not None, "only federations are judged so"
        self.sites: Final[Sites] = run.sites
        self._nodes: Final = len(run.nodes)
        self._parts: Final[dict[str, list[Longs]]] = {name: [] for name in _KEPT}
        # Rows that undo what the site had not delivered, or had undone before.
        self.strays: Final[list[int]] = []

    def feed(self, rows: Rows) -> None:
        """Keep some more rows; those of one node come in their order."""
        for name, kind in _KEPT.items():
            self._parts[name].append(rows.numbers(name).astype(kind))

    def column(self, name: str) -> Longs:
        """A column of all rows."""
        parts = self._parts[name]
        if len(parts) != 1:
            parts[:] = [np.concatenate(parts) if parts else np.zeros(0, _KEPT[name])]
        return parts[0]

    @cached_property
    def codes(self) -> Longs:
        """By row: the number of its message, from 0."""
        sid, seq = (self.column(name).astype(np.int64) for name in ("sid", "seq"))
        keys = keys_of(sid, seq)
        if keys is not None:
            return np.unique(keys, return_inverse=True)[1]
        both = np.stack((sid, seq), axis=1)
        return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)

    @property
    def count(self) -> int:
        """How many messages there are."""
        return int(self.codes.max()) + 1 if len(self.codes) else 0

    @cached_property
    def _by_node(self) -> list[Longs]:
        """By node: its rows in order."""
        order = np.argsort(self.column("n"), kind="stable")
        edges = np.searchsorted(self.column("n")[order], np.arange(self._nodes + 1))
        return [order[edges[n] : edges[n + 1]] for n in range(self._nodes)]

    @cached_property
    def undone_by(self) -> Longs:
        """By row: the row that undoes this delivery, or -1. Of several deliveries of a message by
        one site, the last that stands is undone.
        """
        found = np.full(len(self.codes), -1, np.int64)
        kinds, codes = self.column("kind"), self.codes
        if not (kinds == UNDO).any():
            return found
        for lives in self.sites.lives:
            rows = np.concatenate([self._by_node[n] for n in lives])
            undone = np.unique(codes[rows][kinds[rows] == UNDO])
            standing: defaultdict[int, list[int]] = defaultdict(list)
            for row in rows[np.isin(codes[rows], undone)].tolist():
                before = standing[int(codes[row])]
                if kinds[row] == DELIVER:
                    before.append(row)
                elif before:
                    found[before.pop()] = row
                else:
                    self.strays.append(row)
        return found

    def of(self, n: int) -> Longs:
        """The deliveries of one node, whether they stand or not."""
        rows = self._by_node[n]
        found: Longs = rows[self.column("kind")[rows] == DELIVER]
        return found

    @cached_property
    def _whole(self) -> list[Longs]:
        """By site: the deliveries that stand, of the lives whose order counts."""
        found = []
        for whole, lives in zip(self.sites.lives, self.sites.judged, strict=True):
            if self._owes(whole):
                # What it is told to undo and has not undone may be out of order.
                lives = [n for n in lives if not (self.sites.lost >> n) & 1]
            rows = np.concatenate([np.zeros(0, np.int64), *(self.of(n) for n in lives)])
            found.append(rows[self.undone_by[rows] < 0])
        return found

    def _owes(self, lives: list[int]) -> bool:
        """Whether a site was told to undo more than it undid: it may have failed meanwhile."""
        formers = [one for n in lives for one in self.sites.resumed.get(n, {}).values()]
        undone = sum(int((self.column("kind")[self._by_node[n]] == UNDO).sum()) for n in lives)
        return undone < sum(one.undone for one in formers)

    @cached_property
    def sequences(self) -> list[Longs]:
        """By site: the same, each message once."""
        found = []
        for rows in self._whole:
            first = np.unique(self.codes[rows], return_index=True)[1]
            found.append(rows if len(first) == len(rows) else rows[np.sort(first)])
        return found

    def again(self) -> list[tuple[int, int]]:
        """Deliveries that a life made of what stands of a former life, each with the first one."""
        found = []
        for rows, once in zip(self._whole, self.sequences, strict=True):
            if len(rows) == len(once):
                continue
            first = {int(self.codes[row]): row for row in once.tolist()}
            for row in rows.tolist():
                before = first[int(self.codes[row])]
                if self.column("n")[before] != self.column("n")[row]:
                    found.append((row, before))
        return found
