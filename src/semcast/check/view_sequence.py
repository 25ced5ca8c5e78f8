"""One sequence of views, in open groups whose members agree (S-RM): a view of one number has the
same content wherever it counts, the numbers of a process only grow, and no process goes by a view
that does not hold it, or by views of two groups. Holds on every prefix.

A view is told apart by its digest, which says who is in, in which life, who is gone, and of which
group. Views of one group go by its origin, as messages go by their sender, so that one kernel sees
all of them. Of two contents with one number the one that was reported first counts. Processes that
only read are in no view of the group, and first go by one of their own.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.check.facts import ViewSeen
from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import VIEW, Row


def _kernel(group: Group) -> "ViewSequenceKernel | None":
    """No kernel for what is no origin."""
    there = any(one.origin == group.sender for views in group.run.views for one in views)
    return ViewSequenceKernel(group) if there else None


@final
class ViewSequenceKernel(Kernel):
    """The views of one origin, as nodes reported them."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By number: the digest and the node that reported it first. By node: the last number.
        self._first: Final[dict[int, tuple[int, int]]] = {}
        self._last: Final[dict[int, int]] = {}
        # The nodes that reported a view of another origin before.
        self._strangers: Final = {
            n
            for n, views in enumerate(self.run.views)
            if views and views[0].origin != group.sender and not (self.run.readers >> n) & 1
        }

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Compare every view with those before it."""
        for row in rows:
            if row[0] == VIEW:
                self._judge(row)

    def _judge(self, row: Row) -> None:
        _, n, _, number, _, digest, at, *_ = row
        first, teller = self._first.setdefault(number, (digest, n))
        last = self._last.get(n, -1)
        self._last[n] = max(number, last)
        view = self.run.view_at(n, at)
        if at > self.run.crash_at[n]:
            self._fault(row, "after it crashed")
        elif first != digest:
            self._fault(row, f"with another content than {self.run.nodes[teller]}")
        elif number <= last:
            self._fault(row, f"after view {last}")
        elif n in self._strangers:
            self._fault(row, "of another group than its own")
        elif not ((self.run.readers >> n) & 1 or view is None or self._holds(view, n)):
            self._fault(row, "although it is not in it")

    def _holds(self, view: ViewSeen, n: int) -> bool:
        return self.run.nodes[n] in view.members

    def _fault(self, row: Row, fault: str) -> None:
        self.report(PROPERTY.name, row[1], [], row[7], f"goes by view {row[3]} {fault}")


PROPERTY: Final = Property(
    "View Sequence",
    {BY_SENDER: _kernel},
    ("view",),
    reliability=("group",),
    membership=("open",),
)
