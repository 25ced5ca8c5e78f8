"""Safe purging (SRM §4.3, Figure 4): what others may ask for is purged only for a message that is
safe, that is, received by more than f processes; S-RM rests on it. Holds on every prefix.

A process that skips a message counts as having it once it has what it skipped it for, or that is
safe: as Figure 4's safe(m) counts whoever received some m' with m ⊑ m'. A cover that everybody has
who is left will do as well. In an open group f follows the view of the process that purges: no more
than others are in it; newcomers do not need a cover that lies before their join point, and those
that only read keep nothing. Only a log in one order can show any of this; others are not judged.

Covers are of the same sender, unless messages have ranks: then a whole run is one group.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeAlias, final

import numpy as np

from semcast.check.facts import NEVER, nodes_in, source_of
from semcast.check.kernel import IN_ORDER, MANY_ROWS, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import (
    IGNORE,
    JOIN,
    MULTICAST,
    OTHER,
    PURGE_RETRANSMIT,
    RECEIVE,
    SKIP,
    Longs,
    Row,
    Rows,
    slices_of,
    starts_of,
)
from semcast.check.tables import SeqTable

# A message: the number of its sender, and its own.
_Id: TypeAlias = tuple[int, int]
# Whether a kind of event says that a node has a message.
_HAD: Final = np.array([kind in (RECEIVE, IGNORE, MULTICAST) for kind in range(OTHER + 1)])


@final
class SafePurgingKernel(Kernel):
    """All that was had and purged of one sender, or of one run, in the order of the run."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._members: Final = [source_of(name)[0] for name in self.run.nodes]
        # By node: a small number for its member.
        numbers = {member: at for at, member in enumerate(dict.fromkeys(self._members))}
        self._member: Final = np.array([numbers[member] for member in self._members])
        # By message that is not safe yet: the nodes that have it. INV-SAFE: safe are the messages
        # that more than f members have; for those nobody asks who has them.
        self._having: Final[dict[_Id, int]] = {}
        self._safe: Final[defaultdict[int, SeqTable]] = defaultdict(_pages)
        # By message, and by node and message: which nodes skipped what for it and lack it yet.
        self._until_safe: Final[defaultdict[_Id, list[tuple[int, _Id]]]] = defaultdict(list)
        # Of an open group: where nodes begin; and purges whose cover too few have.
        self._joins: Final[dict[tuple[int, int], int]] = {}
        self._doubtful: Final[list[tuple[Row, int]]] = []
        self._until_there: Final[defaultdict[tuple[int, _Id], list[_Id]]] = defaultdict(list)

    def feed(self, rows: Rows) -> None:
        """Count, at each purge from retransmission, who has its cover by then."""
        few = len(rows) < MANY_ROWS
        self.feed_each(rows.each if few else rows.take(self._informative(rows)))

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Count row by row."""
        for row in rows:
            kind, n, sid, seq, bsid, bseq, at, *_ = row
            if kind in (RECEIVE, IGNORE, MULTICAST):
                if not self._safe[sid].get(seq) and not (self.run.readers >> n) & 1:
                    self._has(n, (sid, seq))
            elif kind == JOIN:
                self._joins.setdefault((n, sid), seq)
            elif bsid < 0:
                continue
            elif kind == SKIP:
                self._on_skip(n, (sid, seq), (bsid, bseq))
            elif kind == PURGE_RETRANSMIT and not self._allowed((bsid, bseq), n, at):
                self._doubt(row, self._having.get((bsid, bseq), 0))
        for table in self._safe.values():
            table.trim()

    def _informative(self, rows: Rows) -> Longs:
        """The rows that may add something: once more than f have a message, no more do."""
        order, kind = rows.by_message, rows.numbers("kind")
        others = np.flatnonzero(~_HAD[kind] & ((rows.numbers("bsid") >= 0) | (kind == JOIN)))
        had = order[_HAD[kind[order]]]
        if self.run.readers:
            had = had[~np.isin(rows.numbers("n")[had], nodes_in(self.run.readers))]
        if not len(had):
            return others
        sid, seq = rows.numbers("sid")[had], rows.numbers("seq")[had]
        starts = starts_of(sid, seq)
        sizes = np.diff(np.append(starts, len(had)))
        safe = np.zeros(len(starts), np.int64)
        for number, part in slices_of(sid[starts]):
            safe[part] = self._safe[number].many(seq[starts][part])
        message = np.repeat(np.arange(len(starts)), sizes)
        member = self._member[rows.numbers("n")[had]]
        # Of each message and member the first; and how many of those come before a row.
        by_member = np.argsort(message * (len(self._member) + 1) + member, kind="stable")
        again = (np.diff(message[by_member]) == 0) & (np.diff(member[by_member]) == 0)
        new = np.ones(len(had), np.int64)
        new[by_member[1:][again]] = 0
        so_far = np.cumsum(new) - new
        so_far -= np.repeat(so_far[starts], sizes)
        kept = had[(np.repeat(safe, sizes) == 0) & (so_far <= self.run.header.f)]
        return np.sort(np.concatenate([kept, others]))

    def _is_safe(self, message: _Id) -> bool:
        sid, seq = message
        return self._safe[sid][seq] != 0

    def _allowed(self, cover: _Id, n: int, at: int) -> bool:
        if self._is_safe(cover):
            return True
        having = self._having.get(cover, 0)
        if self.run.header.open:
            return self._count(having) > self._f(n, at)
        gone_at = self.run.gone_at
        lacking = nodes_in(self.run.initial & ~having)
        return all(gone_at[n] < at for n in lacking)

    def _doubt(self, row: Row, having: int) -> None:
        if self.run.header.open:
            self._doubtful.append((row, having))
        else:
            self._unsafe(row, having)

    def end(self) -> None:
        """Now that it is known who begins where: newcomers do not need what lies before that, so
        that a cover is safe as well if all have it who need it.
        """
        for row, having in self._doubtful:
            view = self.run.view_at(row[1], row[6])
            members = self.run.those_known(self.run.nodes if view is None else view.members)
            if any(self._needs(n, row) for n in nodes_in(members & ~having)):
                self._unsafe(row, having)

    def _needs(self, n: int, row: Row) -> bool:
        """Whether a node that lacks a cover would have to get it."""
        bsid, bseq, at = int(row[4]), int(row[5]), int(row[6])
        begin = self._joins.get((n, bsid))
        if begin is None:
            begin = 1 if self.run.has_all_of(n, self.group.facts.senders[bsid][1]) else NEVER
        return self.run.gone_at[n] >= at and begin <= bseq

    def _f(self, n: int, at: int) -> int:
        """How many crashes are survived. In an open group it follows the view of the node: no more
        than others are there.
        """
        view = self.run.view_at(n, at) if self.run.header.open else None
        f = self.run.header.f
        return f if view is None else max(0, min(f, len(view.members) - 1))

    def _on_skip(self, n: int, message: _Id, cover: _Id) -> None:
        there = (self._having.get(cover, 0) >> n) & 1
        # Skipped for itself: whoever purged it, when that was safe, has forgotten for what.
        if there or cover == message or self._is_safe(cover):
            self._has(n, message)
        else:
            self._until_safe[cover].append((n, message))
            self._until_there[n, cover].append(message)

    def _has(self, n: int, message: _Id) -> None:
        """Note that a node has a message, and everything that follows from that for others."""
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
            if self._count(having) > self.run.header.f:
                sid, seq = message
                self._safe[sid][seq] = 1
                del self._having[message]
                news += self._until_safe.pop(message, ())

    def _count(self, having: int) -> int:
        """How many members these nodes are: a life takes its messages with it."""
        if having & (having - 1) == 0:
            return having.bit_count()
        return len({self._members[n] for n in nodes_in(having)})

    def _unsafe(self, row: Row, having: int) -> None:
        _, n, sid, seq, bsid, bseq, at, time_ns, *_ = row
        message, cover = self.message(sid, seq), self.message(bsid, bseq)
        have = self._count(having)
        text = (
            f"purges {message} from retransmission for {cover}, which is not safe: "
            f"{have} have it, and {self._f(n, at) + 1} must"
        )
        self.report(PROPERTY.name, n, [message, cover], time_ns, text)


def _pages() -> SeqTable:
    return SeqTable(0, np.uint8)


PROPERTY: Final = Property(
    "Safe Purging",
    {IN_ORDER: SafePurgingKernel},
    ("purge",),
    reliability=("group",),
    one_order=True,
)
