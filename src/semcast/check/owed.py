"""What must hold in the end (SRM Figures 2 and 3): Validity, Agreement, Sender Reliability and FIFO
Completeness. All four say that somebody owes a message m: it is to deliver some m' with m ⊑ m'.

- Sender Reliability: if a correct process multicasts m, all correct processes do. All that S-SM
  promises of messages; a sender that left when it was allowed to was correct until then. In an open
  group it owes nothing to readers that it had forgotten by then, since they were silent for long.
- Validity: a correct process that multicasts m does.
- Agreement: if a correct process delivers m, all correct processes do, whoever crashed. A message
  that no correct process delivered owes nothing here. A process that left when it was allowed to,
  because all it took was safe at the others, was correct until then: what it delivered is owed to
  it by those who stayed. What only readers delivered nobody owes, since nobody asks them.
- FIFO Completeness: if a process multicasts m before m', a correct process that delivers m' does.
  The m1, m2, m3 run of SRM §4.3 (m1 purged for m3, which then dies with its sender) shows here.

"There is a time after which no process multicasts m'' with m ⊏ m''" holds for every message of a
finite log, at its end, so all four are judged there, over the correct nodes. A kernel for each
sender unites, for every message m, the nodes that delivered some m' with m ⊑ m', in one pass
backwards over its annotations. Messages with ranks are replaced by others of their key, of whatever
sender: that a node lacks one is only a candidate, decided by the highest that it has of that key.
"""

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.facts import NEVER, nodes_in
from semcast.check.kernel import BY_SENDER, Finding, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import IGNORE, JOIN, TAKEN, Longs, Row, Rows
from semcast.check.sent import Order

# Sets of nodes are numbers of NumPy, if there are few enough.
_WORD: Final = 62


@final
class OwedKernel(Kernel):
    """The messages of one sender: who delivered what, and who joined where."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By message: the nodes that delivered it; where many come at once, by word of nodes.
        self._delivered: list[int] = []
        self._words: list[Longs] = []
        # The same of nodes to which it came, and which do not want it.
        self._ignored: Final[dict[int, int]] = {}
        self._joins: Final[dict[int, int]] = {}

    def feed_many(self, rows: Rows) -> bool:
        """Note who delivered what."""
        kind, n, seq = (rows.numbers(name) for name in ("kind", "n", "seq"))
        for at in np.flatnonzero(kind == JOIN).tolist():
            self._join(int(n[at]), int(seq[at]))
        for at in np.flatnonzero(kind == IGNORE).tolist():
            self._ignore(int(n[at]), int(seq[at]))
        if not self._words:
            words = len(self.run.nodes) // _WORD + 1
            self._words = [np.zeros(len(self.group.sent.seqs), np.int64) for _ in range(words)]
        taken = np.isin(kind, TAKEN)
        message = self.group.sent.index.many(seq[taken])
        node, message = n[taken][message >= 0], message[message >= 0]
        for number, word in enumerate(self._words):
            here = node // _WORD == number
            np.bitwise_or.at(word, message[here], np.left_shift(1, node[here] % _WORD))
        return True

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Note who delivered what and joined where, one by one."""
        index = self.group.sent.index
        if not self._delivered:
            self._delivered = [0] * len(self.group.sent.seqs)
        delivered = self._delivered
        for row in rows:
            if row[0] in TAKEN:
                message = index[row[3]]
                if message >= 0:
                    delivered[message] |= 1 << row[1]
            elif row[0] == JOIN:
                self._join(row[1], row[3])
            elif row[0] == IGNORE:
                self._ignore(row[1], row[3])

    def _join(self, n: int, seq: int) -> None:
        """The first that a node reports counts; in an open group the last, if it begins anew."""
        if n not in self._joins or self.run.header.open:
            self._joins[n] = seq

    def _ignore(self, n: int, seq: int) -> None:
        message = self.group.sent.index[seq]
        if message >= 0:
            self._ignored[message] = self._ignored.get(message, 0) | 1 << n

    def end(self) -> None:
        """Report who owes what, now that it is known who has what."""
        run, sent = self.run, self.group.sent
        delivered = self._delivered or [0] * len(sent.seqs)
        for number, word in enumerate(self._words):
            masks = zip(delivered, word.tolist(), strict=True)
            delivered = [mask | (bits << number * _WORD) for mask, bits in masks]
        satisfied = self._satisfied(delivered)
        self._report_ranked(satisfied)
        if not any(run.correct & ~mask for mask in satisfied):
            return
        sender = run.correct & run.only(self.group.sender)
        # The correct nodes that delivered a later message, and for each the first of those.
        later = 0
        shown: dict[int, int] = {}
        for message in range(len(satisfied) - 1, -1, -1):
            missing = run.correct & ~satisfied[message]
            if missing:
                taken = delivered[message] & run.trusted & ~run.readers
                self._owe(message, missing, sender, taken)
                for n in nodes_in(missing & later):
                    self._incomplete(message, n, shown[n])
            here = delivered[message] & run.correct
            later |= here
            for n in nodes_in(here):
                shown[n] = message

    def _owe(self, message: int, missing: int, sender: int, delivered: int) -> None:
        """Tell of what was not delivered, by the property that promised it."""
        if self.run.header.reliability == "sender":
            if self.run.trusted & self.run.only(self.group.sender):
                why = f"{self.group.sender} multicast it and did not crash"
                missing &= ~self.run.forgotten_by(self.group.sender)
                self._missing(SENDER_RELIABILITY.name, message, missing, why)
            return
        self._missing(VALIDITY.name, message, missing & sender, "it multicast it")
        if delivered:
            why = f"{self.run.nodes[nodes_in(delivered)[0]]} delivered it"
            self._missing(AGREEMENT.name, message, missing, why)

    # -- who has what ------------------------------------------------------------------------------

    def _satisfied(self, delivered: list[int]) -> list[int]:
        """By message m: the nodes that have delivered some m' with m ⊑ m' or need not deliver any.

        A node that came later has what lies before its join point by other means; and so, if it is
        not to deliver its own messages, has a sender those. What a node ignores it does not want.
        """
        had = list(delivered)
        for message, nodes in self._ignored.items():
            had[message] |= nodes
        if not self.run.header.deliver_own:
            own = self.run.only(self.group.sender)
            had = [mask | own for mask in had]
        points = [(self._join_point(n), n) for n in range(len(self.run.nodes))]
        self._mark_before(had, sorted(point for point in points if point[0] > 1))
        self.group.sent.spread(had)
        return had

    def _mark_before(self, had: list[int], points: list[tuple[int, int]]) -> None:
        """Every node of `points`, lowest first, has what lies before its point."""
        if not points:
            return
        mask = 0
        seqs = self.group.sent.seqs
        for message in sorted(range(len(seqs)), key=lambda message: -seqs[message]):
            while points and points[-1][0] > seqs[message]:
                mask |= 1 << points.pop()[1]
            had[message] |= mask

    def _join_point(self, n: int) -> int:
        """The first seq that a node owes anything about.

        All of it, if it was there from the start. Otherwise from where it says that it joined. One
        that never said so owes what was multicast after it came, if the log shows that; in an open
        group it owes all of those who came with it or later, and nothing of others.
        """
        run, sent = self.run, self.group.sent
        if (run.initial >> n) & 1 or run.nodes[n] == self.group.sender:
            return 1
        joined = self._joins.get(n)
        if joined is not None:
            return joined
        if run.header.open:
            return 1 if run.has_all_of(n, self.group.sender) else NEVER
        if run.header.one_order:
            came = run.first_at[n]
            for message, at in enumerate(sent.ats):
                if at > came:
                    return sent.seqs[message]
        return NEVER

    # -- what was found ----------------------------------------------------------------------------

    def _report_ranked(self, satisfied: list[int]) -> None:
        """Of every key, and for every node: the highest place that it has."""
        highest: dict[tuple[str, int], Order] = {}
        for message, (key, place) in self.group.sent.ranked.items():
            for n in nodes_in(satisfied[message]):
                highest[key, n] = max(place, highest.get((key, n), place))
        self.found += [
            Finding(self.group.run_no, None, n, key=key, place=place)
            for (key, n), place in highest.items()
        ]

    def _missing(self, name: str, message: int, missing: int, why: str) -> None:
        about = (self.group.sender, self.group.sent.seqs[message])
        text = (
            f"delivered neither {about[0]}#{about[1]} nor anything that replaces it, although {why}"
        )
        for n in nodes_in(missing):
            self._lacks(name, message, n, [about], text)

    def _incomplete(self, message: int, n: int, later: int) -> None:
        if self.run.header.reliability == "sender":
            return
        sender, seqs = self.group.sender, self.group.sent.seqs
        about = [(sender, seqs[message]), (sender, seqs[later])]
        text = (
            f"delivered {sender}#{seqs[later]} but neither {sender}#{seqs[message]}, which was "
            "multicast before it, nor anything that replaces it"
        )
        self._lacks(FIFO_COMPLETENESS.name, message, n, about, text)

    def _lacks(
        self, name: str, message: int, n: int, about: list[tuple[str, int]], text: str
    ) -> None:
        key, place = self.group.sent.ranked.get(message, (None, None))
        self.report(name, n, about, self.run.end_ns, text, key=key, place=place)


_KERNELS: Final = {BY_SENDER: OwedKernel}
SENDER_RELIABILITY: Final = Property(
    "Sender Reliability", _KERNELS, ("multicast",), safety=False, reliability=("sender",)
)
VALIDITY: Final = Property(
    "Validity", _KERNELS, ("multicast",), safety=False, reliability=("group",)
)
AGREEMENT: Final = Property(
    "Agreement", _KERNELS, ("multicast",), safety=False, reliability=("group",)
)
FIFO_COMPLETENESS: Final = Property(
    "FIFO Completeness", _KERNELS, ("multicast",), safety=False, reliability=("group",)
)
