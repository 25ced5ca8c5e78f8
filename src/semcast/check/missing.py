"""What is missing where: the violations of what must hold in the end, put together by member.

One lost message breaks Agreement, and often FIFO Completeness and Validity as well. Whoever mends
it wants to know once which messages of which sender are missing at which member.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from semcast.check.violation import Violation

FIRST_MAX: Final = 5


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
    """By member and sender, in order of their names: what these violations say is missing."""
    found: dict[tuple[str, str], set[int]] = {}
    for one in violations:
        message = one.messages[0]
        found.setdefault((one.node, message.sender), set()).add(message.seq)
    return [
        Missing(node, sender, len(seqs), tuple(sorted(seqs)[:FIRST_MAX]))
        for (node, sender), seqs in sorted(found.items())
    ]
