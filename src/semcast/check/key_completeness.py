"""Key Completeness, where the order is "key": if a process multicasts m before m', both of one
sequence (about one key, alone or with others, or both unmarked), no process delivers m' unless it
delivered m before or something that was multicast by then replaces m. Holds on every prefix, so for
whoever stops in the middle.

Across sequences a process that stops may have a newer value and lack an older unmarked message,
which still waited when the value took the place of the one before it. Who goes on gets that too:
this is what FIFO Completeness says, at rest. Whoever came later owes nothing before its join point,
nor of senders that were there before it and for which it reported none. What a process does not
want (`ignore`) it does not owe.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.check.facts import NEVER
from semcast.check.kernel import BY_SENDER, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import IGNORE, JOIN, TAKEN, Row


@final
class KeyCompletenessKernel(Kernel):
    """Follows each node along each sequence; what it passes over must be replaced."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        # By node and sequence: the place of the first message that is still to come.
        self._following: Final[dict[tuple[int, int], int]] = {}
        # By node: the first seq that it is to have.
        self._owes_from: Final = [self._owed_at_first(n) for n in range(len(self.run.nodes))]
        # The nodes that said where they begin; and what came to a node that does not want it.
        self._joined: Final[set[int]] = set()
        self._ignored: Final[set[tuple[int, int]]] = set()

    def _owed_at_first(self, n: int) -> int:
        if self.run.nodes[n] == self.group.sender:
            return 1 if self.run.header.deliver_own else NEVER
        return 1 if self.run.has_all_of(n, self.group.sender) else NEVER

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Look at every delivery and every join."""
        for row in rows:
            if row[0] in TAKEN:
                self._on_delivery(row)
            elif row[0] == JOIN:
                self._on_join(row[1], row[3])
            elif row[0] == IGNORE:
                self._ignored.add((row[1], row[3]))

    def _on_join(self, n: int, seq: int) -> None:
        at_first = (self.run.initial >> n) & 1 or self.run.nodes[n] == self.group.sender
        # The first that it reported counts. In an open group one that was forgotten, because it was
        # stopped for long, may have to begin anew, and says so.
        if not at_first and (n not in self._joined or self.run.header.open):
            self._joined.add(n)
            self._owes_from[n] = seq

    def _on_delivery(self, row: Row) -> None:
        sent, n = self.group.sent, row[1]
        message = sent.index[row[3]]
        if message < 0:
            return
        assert sent.sequences is not None
        # Each once, though it be about several of the keys.
        passed: dict[int, None] = {}
        for sequence, place in sent.sequences.of(message):
            first = self._following.get((n, sequence), 0)
            if first < place:
                passed.update(dict.fromkeys(sent.sequences.messages[sequence][first:place]))
            self._following[n, sequence] = max(first, place + 1)
        for older in passed:
            seq = sent.seqs[older]
            owed = seq >= self._owes_from[n] and (n, seq) not in self._ignored
            if owed and not self._is_replaced(older, row[6]):
                self._passed_over(row, seq)

    def _is_replaced(self, message: int, at: int) -> bool:
        replaced_at = self.group.sent.covered_at[message]
        return replaced_at < at if self.run.header.one_order else replaced_at != NEVER

    def _passed_over(self, row: Row, older: int) -> None:
        sender, seq = self.group.sender, row[3]
        text = (
            f"delivers {sender}#{seq} but not {sender}#{older}, which was multicast before it, of "
            "the same key or as unmarked, and which nothing replaces"
        )
        self.report(PROPERTY.name, row[1], [(sender, older), (sender, seq)], row[7], text)


PROPERTY: Final = Property(
    "Key Completeness", {BY_SENDER: KeyCompletenessKernel}, ("deliver", "state"), order=("key",)
)
