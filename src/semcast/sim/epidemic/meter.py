"""What is measured of a gossip group: reports of its members in; by message, who got it and when.

Messages have numbers in the order in which they were multicast. Only those that were multicast in
the measured time count.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.sim.scheduler import Scheduler
from semcast.wire.message import Message


@final
class Meter:
    """Counts for the whole group."""

    def __init__(self, scheduler: Scheduler, members: i64, since_ns: i64, until_ns: i64) -> None:
        self._scheduler: Final = scheduler
        self._since_ns: Final[i64] = since_ns
        self._until_ns: Final[i64] = until_ns
        self._members: Final[i64] = members
        # By sender, those of the next lives behind, and then by seq - 1: the number of a message.
        self._numbers: Final[list[list[int]]] = [[] for _ in range(members)]
        # By number: the message, and how many members delivered it.
        self.messages: Final[list[Message]] = []
        self.receivers: Final[list[int]] = []
        # By number: from multicast until the last member delivered it, so far.
        self.last_ns: Final[list[int]] = []
        # From multicast to delivery, at others than the sender, of measured messages.
        self.latencies_ns: Final[list[int]] = []
        # Copies of measured messages that went from one member to another.
        self.copies: i64 = 0

    def measured(self, message: Message) -> bool:
        """Whether a message counts."""
        return self._since_ns <= message.sent_ns < self._until_ns

    def _place(self, source: Source) -> i64:
        return (source.incarnation - 1) * self._members + source.sender

    def count(self, event: str, message: Message) -> None:
        """Something happened to a message."""
        if event == "deliver":
            number = self._numbers[self._place(message.source)][message.seq - 1]
            self.receivers[number] += 1
            took_ns = self._scheduler.now_ns - message.sent_ns
            if took_ns > 0 and self.measured(message):
                self.latencies_ns.append(int(took_ns))
                self.last_ns[number] = int(took_ns)
        elif event == "relay":
            if self.measured(message):
                self.copies += 1
        elif event == "multicast":
            place = self._place(message.source)
            while place >= len(self._numbers):
                self._numbers.append([])
            self._numbers[place].append(len(self.messages))
            self.messages.append(message)
            self.receivers.append(0)
            self.last_ns.append(0)


@final
class NodeMeter(Observer):
    """Passes on what one member reports, to the meter and to the journal if there is one."""

    def __init__(self, meter: Meter, journal: Observer | None) -> None:
        self._meter: Final = meter
        self._journal: Final = journal

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        self._meter.count(event, message)
        if self._journal is not None:
            self._journal.message(event, message, where, cover)

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        if self._journal is not None:
            self._journal.progress(event, source, seq, by_source, by_seq)

    def view(self, view: View) -> None:
        if self._journal is not None:
            self._journal.view(view)
