"""What is measured of a federation: reports of its sites in; by message, when all had it, out."""

from collections.abc import Callable
from typing import Final

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.sim.tally import Span
from semcast.wire.message import Message


class Meter:
    """Counts for the whole federation."""

    def __init__(
        self,
        groups: dict[str, tuple[int, ...]],
        deliver_own: bool,
        span: Span,
        clock: Callable[[], int],
    ) -> None:
        self._groups: Final = groups
        self._deliver_own: Final = deliver_own
        self._span: Final = span
        self._clock: Final = clock
        # Of the whole run.
        self.multicasts = 0
        self.delivered = 0
        self.purged: Final[dict[str, int]] = {}
        self.skipped = 0
        self.undone = 0
        # From multicast until the last member had it, of messages that all of the group's first
        # members took: D of PROP §4.
        self.delays_ns: Final[list[int]] = []
        # By message: how many members have not taken it yet.
        self._missing: Final[dict[tuple[Source, int], int]] = {}

    def message(self, event: str, message: Message, where: str) -> None:
        """Something happened to a message."""
        if event == "multicast":
            self.multicasts += 1
            members = self._groups.get(message.source.group, ())
            own = int(message.source.site) in members and not self._deliver_own
            if self._span.holds(int(message.sent_ns)):
                self._missing[message.source, int(message.seq)] = len(members) - own
        elif event == "deliver":
            self.delivered += 1
            self._taken(message)
        elif event == "purge":
            self.purged[where] = self.purged.get(where, 0) + 1
        elif event == "undo":
            self.undone += 1

    def _taken(self, message: Message) -> None:
        name = (message.source, int(message.seq))
        left = self._missing.get(name, 0) - 1
        if left > 0:
            self._missing[name] = left
        elif left == 0:
            del self._missing[name]
            self.delays_ns.append(self._clock() - int(message.sent_ns))

    def progress(self, event: str) -> None:
        """Something is known of a message that did not come."""
        if event == "skip":
            self.skipped += 1
        elif event == "undo":
            self.undone += 1


class SiteMeter(Observer):
    """Passes on what one site reports, to the meter and to the journal if there is one."""

    def __init__(self, meter: Meter, journal: Observer | None) -> None:
        super().__init__()
        self._meter: Final = meter
        self._journal: Final = journal

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        self._meter.message(event, message, where)
        if self._journal is not None:
            self._journal.message(event, message, where, cover)

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        self._meter.progress(event)
        if self._journal is not None:
            self._journal.progress(event, source, seq, by_source, by_seq)

    def opened(self, number: int, groups: tuple[str, ...]) -> None:
        if self._journal is not None:
            self._journal.opened(number, groups)

    def view(self, view: View) -> None:
        if self._journal is not None:
            self._journal.view(view)
