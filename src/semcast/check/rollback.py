"""Rollback (PROP §5.2.1): a site that comes back is told what to undo, and that is the end of what
it had delivered.

- A life that opens a graph was told about every former life that failed in a graph with something
  delivered, if it remembers that one (`recall`): what to undo of it (`resume`). Whoever has lost
  its memory cannot know what it had delivered. A life that was in no graph has only delivered what
  was left of those before it.
- As many deliveries are undone as it was told, before it, or a later life that remembers it,
  delivers anything else.
- What it undoes of a former life is the tail of what that life delivered: "only the tail end of its
  message history may be incorrect".
- It undoes nothing that it had not delivered, and delivers nothing again that stands.
- With the atomic recovery nothing is undone at all.

Whether what stands is in the others' order is judged with theirs (`group_orders`). Whether what was
undone comes again is owed in the end (`member_delivery`).
"""

from typing import Final, final

from semcast.check.facts import NEVER
from semcast.check.kernel import OF_RUN, Kernel
from semcast.check.property import FEDERATION, Property
from semcast.check.rows import UNDO
from semcast.check.violation import MessageId


@final
class RollbackKernel(Kernel):
    """All deliveries of one run, and what was undone."""

    def end(self) -> None:
        """Look at what each life was told and did."""
        delivered = self.group.delivered
        sites = delivered.sites
        undone_by = delivered.undone_by
        for row, before in delivered.again():
            name = self.run.nodes[self._node(before)]
            self._fault(row, "delivers {} again, which " + name + " delivered and nobody undid")
        for row in delivered.strays:
            if all(self._wrote_all(n) for n in sites.lives[self._site_of(self._node(row))]):
                self._fault(row, "undoes {}, of which no delivery stood")
        if sites.atomic:
            kinds = delivered.column("kind")
            for row in (kinds == UNDO).nonzero()[0].tolist():
                self._fault(row, "undoes {}, although the recovery is atomic")
            return
        for former in {one for formers in sites.resumed.values() for one in formers}:
            self._ask_tail(former, (undone_by[delivered.of(former)] >= 0).tolist())
        for lives in sites.lives:
            self._ask_count(lives)
        if self.run.header.recovery:
            for lives in sites.lives:
                self._ask_told(lives)

    def _ask_tail(self, former: int, undone: list[bool]) -> None:
        """What is undone of a former life comes last."""
        if True not in undone or all(undone[undone.index(True) :]):
            return
        rows = self.group.delivered.of(former).tolist()
        first = undone.index(True)
        kept = undone.index(False, first)
        row = int(self.group.delivered.undone_by[rows[first]])
        name, other = self._name(rows[first]), self._name(rows[kept])
        text = f"undoes {{}} and not {other}, which {self.run.nodes[former]} delivered after it"
        self._fault(row, text, [name, other])

    def _ask_count(self, lives: list[int]) -> None:
        """As much was undone as the lives of a site were told, once one that remembers it delivers
        more. Some of that a life may have delivered itself, before it was told.
        """
        delivered, sites = self.group.delivered, self.group.delivered.sites
        several = [(n, told) for n in lives for told in sites.resumed.get(n, {}).values()]
        if not several:
            return
        asked = sum(told.undone for _, told in several)
        undone = sum(int((delivered.undone_by[delivered.of(n)] >= 0).sum()) for n in lives)
        n, last = several[-1]
        if undone == asked or not self._goes_on(n, last.time_ns):
            return
        if not all(self._wrote_all(one) for one in lives):
            return  # what a life delivered last, or was told, nobody wrote down
        text = f"was told to undo {asked} deliveries of former lives and undid {undone}"
        self.report(PROPERTY.name, n, [], last.time_ns, text)

    def _goes_on(self, n: int, since_ns: int) -> bool:
        """Whether a life, or a later one that remembers it, delivers something after this time."""
        delivered = self.group.delivered
        remembers = delivered.sites.remembers
        times = delivered.column("time_ns")
        return any(
            (times[delivered.of(one)] > since_ns).any()
            for one in delivered.sites.lives[self._site_of(n)]
            if one == n or (remembers[one] >> n) & 1
        )

    def _ask_told(self, lives: list[int]) -> None:
        """Of every life that failed with something delivered, a later one was told that remembers
        it and is in a graph again.
        """
        delivered, sites = self.group.delivered, self.group.delivered.sites
        told: set[int] = set()
        for place, n in enumerate(lives):
            told |= set(sites.resumed.get(n, ()))
            rows = delivered.of(n)
            if not len(rows) or not sites.opens[n]:
                continue
            for former in lives[:place]:
                asked = (sites.failed & sites.remembers[n]) >> former & 1 and sites.opens[former]
                lost = asked and former not in told
                if lost and (delivered.undone_by[delivered.of(former)] < 0).any():
                    name = self.run.nodes[former]
                    fault = "delivers {}, and was not told what to roll back of " + name
                    self._fault(int(rows[0]), fault)
                    told.add(former)

    def _wrote_all(self, n: int) -> bool:
        """Whether the log of a node has all that it delivered."""
        return self.run.header.one_order or self.run.crash_at[n] == NEVER

    def _site_of(self, n: int) -> int:
        lives = self.group.delivered.sites.lives
        return next(site for site, some in enumerate(lives) if n in some)

    def _node(self, row: int) -> int:
        return int(self.group.delivered.column("n")[row])

    def _name(self, row: int) -> MessageId:
        column = self.group.delivered.column
        return self.message(int(column("sid")[row]), int(column("seq")[row]))

    def _fault(self, row: int, fault: str, about: list[MessageId] | None = None) -> None:
        name, time_ns = self._name(row), int(self.group.delivered.column("time_ns")[row])
        text = fault.format(name)
        self.report(PROPERTY.name, self._node(row), list(about or [name]), time_ns, text)


PROPERTY: Final = Property(
    "Rollback", {OF_RUN: RollbackKernel}, ("undo", "resume", "recall"), reliability=(FEDERATION,)
)
