"""What is reported of a broken promise: which property, by whom, about which messages, and when.

One lost message breaks Agreement, and often FIFO Completeness and Validity as well. Whoever mends
it wants to know once which messages of which sender are missing at which member: `missing_in`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

FIRST_MAX: Final = 5


class MessageId(NamedTuple):
    """A message by its source and number."""

    sender: str
    seq: int

    def __str__(self) -> str:
        return f"{self.sender}#{self.seq}"


@dataclass(frozen=True)
class Violation:
    """One broken promise, in one line."""

    property: str
    text: str
    node: str
    # The message concerned first, then those that show what is wrong.
    messages: tuple[MessageId, ...]
    # When it happened; for what never happened, the end of the journal.
    time_ns: int

    def __str__(self) -> str:
        return f"{self.property}, at {self.time_ns / 1e6:.3f} ms: {self.text}"


class Missing(NamedTuple):
    """Messages of one sender that one member has not got, nor anything that replaces them."""

    node: str
    sender: str
    messages: int
    # The lowest numbers, at most FIRST_MAX of them.
    first: tuple[int, ...]

    def __str__(self) -> str:
        seqs = ", ".join(f"{self.sender}#{seq}" for seq in self.first)
        more = self.messages - len(self.first)
        return f"{self.node} lacks {seqs}" + (f" and {more:,} more" if more else "")


def missing_in(violations: Iterable[Violation]) -> list[Missing]:
    """What these violations say is missing, by member and sender in order of their names."""
    found: dict[tuple[str, str], set[int]] = {}
    for one in violations:
        message = one.messages[0]
        found.setdefault((one.node, message.sender), set()).add(message.seq)
    return [
        Missing(node, sender, len(seqs), tuple(sorted(seqs)[:FIRST_MAX]))
        for (node, sender), seqs in sorted(found.items())
    ]
