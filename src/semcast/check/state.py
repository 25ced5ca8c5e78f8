"""State: whoever comes later lacks nothing that stood where it begins. If the newest message of a
key was multicast before its join point, it has that message, unless all who had it have crashed; in
a feed, where nobody else keeps it for others, unless its sender has gone. Where a stream began
anew, the last join point counts: what changed meanwhile comes as well. Judged in the end, of runs
in which newcomers are to get what stands. What was replaced by the end, and how, Agreement and
Sender Reliability say: a newcomer has what replaces it.

What a newcomer gets of it (`state`) is delivered like anything else, so Integrity says that nothing
comes twice, and FIFO Order, or Key Order, that it comes before what is live. A process that went on
in another life, without having crashed, has what its former life delivered, and what that multicast
where own messages are not delivered: it gets only what changed meanwhile. Messages without a key
are no state, since nobody keeps them for long; neither are those with a rank, of which others
decide.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.check.facts import NEVER, source_of
from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import IGNORE, JOIN, TAKEN, Row


@final
class StateKernel(Kernel):
    """The messages of one sender: who has which of them, and who begins where."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By message: the nodes that have it, or do not want it.
        self._had: Final[dict[int, int]] = {}
        self._joins: Final[dict[int, int]] = {}

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Note who has what and joined where."""
        index, had = self.group.sent.index, self._had
        for row in rows:
            if row[0] in TAKEN or row[0] == IGNORE:
                message = index[row[3]]
                if message >= 0:
                    had[message] = had.get(message, 0) | 1 << row[1]
            elif row[0] == JOIN:
                # One that begins anew gets what changed meanwhile.
                self._joins[row[1]] = max(self._joins.get(row[1], 0), row[3])

    def end(self) -> None:
        """Report who lacks what stood where it begins, and stands still."""
        run, sent = self.run, self.group.sent
        asked = run.correct & ~run.initial & ~run.only(self.group.sender)
        joins = {n: seq for n, seq in self._joins.items() if (asked >> n) & 1 and seq > 1}
        if not joins:
            return
        had = [self._had.get(message, 0) for message in range(len(sent.seqs))]
        sent.spread(had)
        # What only those had who have crashed since is lost with them: nobody can give it. In a
        # feed nobody but the sender gives its values.
        sender = run.only(self.group.sender)
        if run.header.reliability == "sender":
            had_by = [sender] * len(had)
        else:
            had_by = [one | sender for one in had]
        standing = sorted(
            one
            for one in set(sent.newest.values())
            if sent.covered_at[one] == NEVER and had_by[one] & run.correct
        )
        for n, begin in joins.items():
            former = self._former_lives(n)
            if former & sender and not run.header.deliver_own:
                continue
            mine = 1 << n | former
            for message in standing:
                if sent.seqs[message] < begin and not had[message] & mine:
                    self._lacks(n, sent.seqs[message], begin)

    def _former_lives(self, n: int) -> int:
        """The lives before this one that did not crash: what they delivered is still known."""
        run = self.run
        sender, life = source_of(run.nodes[n])
        found = 0
        for other, name in enumerate(run.nodes):
            its_sender, its_life = source_of(name)
            if its_sender == sender and its_life < life and run.crash_at[other] == NEVER:
                found |= 1 << other
        return found

    def _lacks(self, n: int, seq: int, begin: int) -> None:
        sender = self.group.sender
        text = (
            f"begins with {sender}#{begin} and has neither {sender}#{seq}, which stands, nor "
            "anything that replaces it"
        )
        self.report(PROPERTY.name, n, [(sender, seq)], self.run.end_ns, text)


PROPERTY: Final = Property(
    "State", {BY_SENDER: StateKernel}, ("join", "state"), safety=False, state=True
)
