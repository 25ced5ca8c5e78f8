"""From what a member tells to events: the member says what, the clock says when.

One observer for each node. Knows nothing of what the events mean.
"""

from collections.abc import Callable
from typing import Final

from semcast.ids import Source
from semcast.journal.journal import Journal
from semcast.journal.names import keys_text, node_name
from semcast.obsolescence.bitmap import distances
from semcast.protocol.observer import Observer
from semcast.wire.message import Message


class JournalObserver(Observer):
    """Writes down everything that one member tells."""

    def __init__(self, journal: Journal, node: str, clock: Callable[[], int]) -> None:
        super().__init__()
        self._journal: Final = journal
        self._node: Final = node
        self._clock: Final = clock
        # Every name once: a group has few sources, and a journal many events.
        self._names: Final[dict[Source, str]] = {}
        # The number of the view in force; None before the first.
        self._view: int | None = None

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        """Something happened to a message."""
        self._journal.record(
            self._clock(),
            self._node,
            event,
            self._name(message.source),
            message.seq,
            tuple(distances(message.bitmap)) if event == "multicast" else None,
            keys_text(message.keys),
            message.rank if message.ranked else None,
            message.sent_ns,
            len(message.body),
            where or None,
            None if cover is None else self._name(cover.source),
            None if cover is None else cover.seq,
            self._view,
        )

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        """Something is known of a source up to, or at, a number."""
        self._journal.record(
            self._clock(),
            self._node,
            event,
            self._name(source),
            seq,
            by_sender=None if by_source is None else self._name(by_source),
            by_seq=None if by_source is None else by_seq,
            view=self._view,
        )

    def view(self, number: int) -> None:
        """Another view counts: what happens from now on happens in it."""
        self._view = number

    def _name(self, source: Source) -> str:
        name = self._names.get(source)
        if name is None:
            name = node_name(source)
            self._names[source] = name
        return name
