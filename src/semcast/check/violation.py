"""What a checker reports: which property is broken, by whom, about which messages, and when."""

from dataclasses import dataclass
from typing import NamedTuple


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
