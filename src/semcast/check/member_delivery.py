"""Member Delivery (PROP §3.1): if x is in a group, x gets all messages for it. Judged in the end.

A site *has* m if it delivered some m' with m ⊑ m', in whatever life, and did not undo it. In a run
that has come to rest, m for group α is owed as follows.

- A correct site received m under graph g: every correct site that was in α in g has it. So does the
  one that received it: what waits is delivered or purged in the end.
- A life that is lost received m under g, and m's source is correct: every correct site has it that
  was in α in g and ever since. The source sends m again to those who went on (PROP §5.2.1).
- A life of a site undid m, which a correct site received under a graph that the lives before that
  one knew, and has, and so is part of what the survivors agreed on: the site has it again, if it is
  in α in the end.
- Nobody received m, nor any m' that replaces it, although its source is correct and α has correct
  members since the first graph, others than a source that does not get its own: the source is told
  of. A group that was without members for a time has nobody to whom its messages are owed.

Correct is who stayed to the end, and until it left who left settled. Under the atomic recovery the
lives of a site are one, so that a site is correct if its last life is.
"""

from collections import defaultdict
from functools import cached_property
from typing import Final, final

import numpy as np

from semcast.check.facts import nodes_in
from semcast.check.kernel import BY_STREAM, Group, Kernel
from semcast.check.property import FEDERATION, Property
from semcast.check.rows import DELIVER, RECEIVE, UNDO, Longs, Rows
from semcast.check.sites import Sites

_COLUMNS: Final = ("kind", "n", "seq", "graph")


@final
class MemberDeliveryKernel(Kernel):
    """The messages of one site: who received them under which graph, and who delivered them."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        assert self.run.sites is not None, "only federations promise it"
        self._sites: Final[Sites] = self.run.sites
        self._parts: Final[list[list[Longs]]] = [[] for _ in _COLUMNS]
        # By message and site that undid it: up to which graph its lives knew what it had done.
        self._undone_after: Final[dict[tuple[int, int], int]] = {}

    def feed(self, rows: Rows) -> None:
        """Keep what was received, delivered and undone."""
        for name, parts in zip(_COLUMNS, self._parts, strict=True):
            parts.append(rows.numbers(name))

    def end(self) -> None:
        """Report who owes what, now that it is known who has what."""
        sent = self.group.sent
        delivered = [0] * len(sent.seqs)
        # By message: the graphs under which nodes received it.
        received: list[dict[int, int]] = [{} for _ in delivered]
        undone: dict[int, int] = {}
        if self._parts[0]:
            kind, n, seq, graph = map(np.concatenate, self._parts)
            message = sent.index.many(seq)
            known = message >= 0
            kind, n, message, graph = (one[known] for one in (kind, n, message, graph))
            self._note_received(received, *(one[kind == RECEIVE] for one in (message, n, graph)))
            undone = self._note_delivered(delivered, kind, message, n)
        has = list(delivered)
        if not self.run.header.deliver_own and self.group.sender in self.run.numbers:
            own = 1 << self._sites.final[self.run.numbers[self.group.sender]]
            has = [mask | own for mask in has]
        sent.spread(has)
        came = [1 if some else 0 for some in received]
        sent.spread(came)
        for number, mask in enumerate(has):
            if not came[number]:
                self._ask_source(number, mask)
            elif self._correct & ~mask:
                owing = self._owing(received[number], undone.get(number, 0), number)
                again = self._undone(undone.get(number, 0), received[number], number, mask)
                self._tell(number, owing, again, mask)

    def _note_received(
        self, received: list[dict[int, int]], message: Longs, n: Longs, graph: Longs
    ) -> None:
        for number, node, under in zip(message.tolist(), n.tolist(), graph.tolist(), strict=True):
            graphs = received[number]
            graphs[under] = graphs.get(under, 0) | 1 << node

    def _note_delivered(
        self, delivered: list[int], kind: Longs, message: Longs, n: Longs
    ) -> dict[int, int]:
        """Who has what, as the last lives of sites; returns by message who undid it."""
        final = np.array(self._sites.final, np.int64)[n]
        undone: dict[int, int] = {}
        rows = kind == UNDO
        for number, site, life in zip(
            message[rows].tolist(), final[rows].tolist(), n[rows].tolist(), strict=True
        ):
            undone[number] = undone.get(number, 0) | 1 << site
            after = self._undone_after.get((number, site), -1)
            self._undone_after[number, site] = max(after, self._sites.left_at(life))
        rows = kind == DELIVER
        for number, site in zip(message[rows].tolist(), final[rows].tolist(), strict=True):
            delivered[number] |= 1 << site
        if undone:
            steps = np.flatnonzero((kind != RECEIVE) & np.isin(message, list(undone)))
            # Former lives first; the rows of each are in order.
            steps = steps[np.argsort(self._life_of[n[steps]], kind="stable")]
            self._take_back(delivered, *(one[steps].tolist() for one in (kind, message, final)))
        return undone

    def _take_back(
        self, delivered: list[int], kinds: list[int], messages: list[int], sites: list[int]
    ) -> None:
        """Sites have not what they undid, unless they delivered it again after that. A log that is
        not whole may lack what was undone.
        """
        stands: defaultdict[tuple[int, int], int] = defaultdict(int)
        for kind, number, site in zip(kinds, messages, sites, strict=True):
            times = stands[number, site] + (1 if kind == DELIVER else -1)
            stands[number, site] = max(times, 0)
        for (number, site), times in stands.items():
            if not times:
                delivered[number] &= ~(1 << site)

    @cached_property
    def _life_of(self) -> Longs:
        """By node: its place among the lives of its site."""
        found = np.zeros(len(self.run.nodes), np.int64)
        for lives in self._sites.lives:
            found[lives] = np.arange(len(lives))
        return found

    # -- who is asked ------------------------------------------------------------------------------

    @cached_property
    def _correct(self) -> int:
        return self.run.correct

    @cached_property
    def _trusted(self) -> int:
        """The lives that were correct, at least until they left."""
        if not self._sites.atomic:
            return self.run.trusted
        lives = enumerate(self._sites.final)
        return sum(1 << n for n, last in lives if (self.run.trusted >> last) & 1)

    @cached_property
    def _own(self) -> bool:
        """Whether the source of these messages is correct."""
        return bool(self._trusted & self.run.only(self.group.sender))

    def _owing(self, received: dict[int, int], undone: int, number: int) -> dict[int, int]:
        """By node that should have a message: one that received it."""
        found: dict[int, int] = {}
        gid = self.group.sent.gids[number]
        for graph, nodes in received.items():
            kept = nodes & self._trusted
            for n in nodes_in(kept):
                if (undone >> self._sites.final[n]) & 1:
                    kept &= ~(1 << n)
            asked = self._sites.opened(gid, graph) if kept else 0
            if not kept and self._own:
                kept, asked = nodes, self._sites.staying(gid, graph)
            for n in nodes_in(asked & self._correct):
                found.setdefault(n, nodes_in(kept)[0])
        return found

    def _undone(
        self, undone: int, received: dict[int, int], number: int, has: int
    ) -> dict[int, int]:
        """By node that undid a message and is in its group in the end: one that received it under
        a graph that the site knew before, and has not undone it as well.
        """
        found: dict[int, int] = {}
        if not undone:
            return found
        sites = self._sites
        members = sites.members(self.group.sent.gids[number], sites.newest)
        for n in nodes_in(undone & members & self._correct):
            for graph, nodes in received.items():
                others = nodes_in(nodes & self._correct & has & ~(1 << n))
                if others and graph <= self._undone_after[number, n]:
                    found[n] = others[0]
        return found

    # -- what was found ----------------------------------------------------------------------------

    def _tell(self, number: int, owing: dict[int, int], again: dict[int, int], has: int) -> None:
        nodes = self.run.nodes
        for n in sorted({*owing, *again}):
            if (has >> n) & 1:
                continue
            if n in again:
                why = f"it undid it, and {nodes[again[n]]} received it"
            elif owing[n] == n:
                why = "it received it"
            else:
                why = f"{nodes[owing[n]]} received it"
            self._lacks(
                number, n, f"delivered neither {{}} nor anything that replaces it, although {why}"
            )

    def _ask_source(self, number: int, has: int) -> None:
        """Tell of what nobody received, if anybody was to have it."""
        sites, gid = self._sites, self.group.sent.gids[number]
        if not self._own or not sites.always(gid) & self._correct & ~has:
            return
        group = sites.groups[gid]
        text = f"multicast {{}} to {group!r}, and nobody received it nor anything that replaces it"
        self._lacks(number, self.run.numbers[self.group.sender], text)

    def _lacks(self, number: int, n: int, text: str) -> None:
        about = (self.group.sender, self.group.sent.seqs[number])
        text = text.format(f"{about[0]}#{about[1]}")
        self.report(PROPERTY.name, n, [about], self.run.end_ns, text)


PROPERTY: Final = Property(
    "Member Delivery",
    {BY_STREAM: MemberDeliveryKernel},
    ("multicast", "receive"),
    safety=False,
    reliability=(FEDERATION,),
)
