"""What covers the messages that an application did not get: a bounded log, for whoever asks.

Purged and passed-over messages go in with their covers; "what covers it?" comes out, until newer
ones have taken the room. For people and applications: the protocol itself never asks. Unlike
`Answers`, which tells others only of safe covers, it also knows those of the delivery buffer.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source


@final
class CoverLog:
    """The last few covers, of all sources together."""

    def __init__(self, covers_max: int) -> None:
        assert covers_max > 0
        self._covers_max: Final = covers_max
        self._covers: Final[dict[tuple[Source, int], tuple[Source, int]]] = {}

    def __len__(self) -> int:
        return len(self._covers)

    def note(self, source: Source, seq: i64, by_source: Source, by_seq: i64) -> None:
        """A message is not delivered here because of another. The first cover told stays."""
        name = (source, int(seq))
        if name in self._covers:
            return
        if len(self._covers) >= self._covers_max:
            del self._covers[next(iter(self._covers))]
        self._covers[name] = (by_source, int(by_seq))

    def cover(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """What covers a message, if that is remembered."""
        return self._covers.get((source, int(seq)))
