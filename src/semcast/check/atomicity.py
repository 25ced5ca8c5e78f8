"""Atomicity (PSRM §4.1): messages that nothing ever replaces reach almost everybody, most of them.

Gossip promises this with a probability. A message is *atomic* if more than 95% of the members have
it, and the share of those that are is held against a bound (`tally`). Counted are messages of
senders that did not crash; members are the correct ones, of those who came later each from the
first message of the sender on that it got, which is where it begins. A simulated run stops while
messages are under way: of one without ends, those of its last quarter are not counted. Judged in
the end.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.check.facts import NEVER
from semcast.check.kernel import BY_SENDER, Finding, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import IGNORE, TAKEN, Row

# Of all members, the sender among them.
ATOMIC_SHARE: Final = 0.95
_UNDER_WAY_PARTS: Final = 4
_TOLD_MAX: Final = 5


@final
class AtomicityKernel(Kernel):
    """The messages of one sender: who has which of them."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By message: the nodes that have it, or do not want it. By node: where it begins.
        self._had: Final[dict[int, int]] = {}
        self._begin: Final[dict[int, int]] = {}

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Note who has what."""
        index, had, begin = self.group.sent.index, self._had, self._begin
        for row in rows:
            if row[0] in TAKEN or row[0] == IGNORE:
                n, seq = row[1], row[3]
                message = index[seq]
                if message >= 0:
                    had[message] = had.get(message, 0) | 1 << n
                    begin[n] = min(seq, begin.get(n, seq))

    def end(self) -> None:
        """Tell how many messages there were, how many of them are atomic, and which are not."""
        run, sent, sender = self.run, self.group.sent, self.group.sender
        if not run.trusted & run.only(sender):
            return
        members = run.correct & run.initial
        late = sorted(
            ((seq, n) for n, seq in self._begin.items() if run.correct & ~run.initial & 1 << n),
            reverse=True,
        )
        own = 0 if run.header.deliver_own else run.only(sender)
        until_ns = self._until_ns()
        good = all_of = 0
        missed: list[tuple[str, int]] = []
        for message in sorted(range(len(sent.seqs)), key=lambda one: sent.seqs[one]):
            seq = sent.seqs[message]
            while late and late[-1][0] <= seq:
                members |= 1 << late.pop()[1]
            asked = members & ~own
            if sent.covered_at[message] != NEVER or sent.times[message] >= until_ns or not asked:
                continue
            all_of += 1
            reached = (self._had.get(message, 0) & asked).bit_count()
            if reached > ATOMIC_SHARE * asked.bit_count():
                good += 1
            elif len(missed) < _TOLD_MAX:
                missed.append((sender, seq))
        if all_of:
            self._tell(good, all_of, missed)

    def _until_ns(self) -> int:
        """When messages were multicast that may have been under way when the run was cut short."""
        run = self.run
        if run.header.one_order and run.correct & ~run.ended:
            return run.end_ns - run.end_ns // _UNDER_WAY_PARTS
        return NEVER

    def _tell(self, good: int, all_of: int, missed: list[tuple[str, int]]) -> None:
        text = f"messages that nothing replaces reached more than {ATOMIC_SHARE:.0%} of the members"
        n, end_ns = self.run.numbers[self.group.sender], self.run.end_ns
        self.found.append(
            Finding(self.group.run_no, PROPERTY.name, n, missed, end_ns, text, tally=(good, all_of))
        )


PROPERTY: Final = Property(
    "Atomicity",
    {BY_SENDER: AtomicityKernel},
    ("multicast",),
    safety=False,
    reliability=("gossip",),
    chance=True,
)
