"""The journal in memory: a header and events, in the order in which they were written.

Worlds `record`, readers of files `append`, checkers iterate. Knows nothing of files.
"""

from collections.abc import Iterator
from typing import Final, final

from semcast.errors import InputError
from semcast.journal.event import Event
from semcast.journal.header import Header


@final
class Journal:
    """What happened in one run of one group."""

    def __init__(self, header: Header) -> None:
        self.header: Final = header
        self.events: Final[list[Event]] = []
        # INV-LSN: the number of the last event of each node; the next has a larger one.
        self._lsn: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __repr__(self) -> str:
        return f"<Journal of run {self.header.run!r}: {len(self.events)} events>"

    def append(self, event: Event) -> None:
        """Add an event that has its number already."""
        last = self._lsn.get(event.node, 0)
        if event.lsn <= last:
            raise InputError(
                f"event {event.lsn} ({event.event}) of {event.node} comes after its event {last}; "
                "the events of a node are numbered in order, from 1"
            )
        self._lsn[event.node] = event.lsn
        self.events.append(event)

    def record(
        self,
        time_ns: int,
        node: str,
        event: str,
        sender: str | None = None,
        seq: int | None = None,
        obsoletes: tuple[int, ...] | None = None,
        key: str | None = None,
        rank: int | None = None,
        sent_ns: int | None = None,
        size: int | None = None,
        where: str | None = None,
        by_sender: str | None = None,
        by_seq: int | None = None,
        view: int | None = None,
        group: str | None = None,
    ) -> None:
        """Add an event; it gets the next number of its node."""
        lsn = self.next_lsn(node)
        self._lsn[node] = lsn
        self.events.append(
            Event(
                time_ns, lsn, node, event, sender, seq, obsoletes, key, rank, sent_ns, size, where,
                by_sender, by_seq, view, group,
            )
        )  # fmt: skip

    def next_lsn(self, node: str) -> int:
        """The number of the next event of a node."""
        return self._lsn.get(node, 0) + 1

    def select(self, node: str | None = None, event: str | None = None) -> Iterator[Event]:
        """The events of one node, or of one kind, or both, in order."""
        return (
            one
            for one in self.events
            if (node is None or one.node == node) and (event is None or one.event == event)
        )
