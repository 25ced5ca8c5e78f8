"""Order, the interface: messages that have arrived in, those whose turn it is out.

Between a source's stream, which is in the order of its numbers, and the application is what waits
for it; an order says who may wait there, in which place, and whose turn it is next. What waits may
be purged by what comes after it (SRM §4.3).
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.purged import observe_arrival
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL


class Order(ABC):
    """What waits for one application."""

    def __init__(self, waiting: PurgingBuffer, observer: Observer | None) -> None:
        self.waiting: Final = waiting
        self._observer: Final = observer

    # -- in ----------------------------------------------------------------------------------------

    def admit(self, messages: list[Message], at: i64, end: i64) -> i64:
        """Let messages of one source in, which follow each other; says how many there was room
        for, from the first on.
        """
        waiting = self.waiting
        first = at
        while at < end and waiting.insert(messages[at]) is not _FULL:
            if self._observer is not None:
                observe_arrival(self._observer, "receive", messages[at], waiting.drain_purged())
            at += 1
        return at - first

    @abstractmethod
    def begin(self, source: Source, next_seq: i64) -> None:
        """A stream begins at `next_seq`: what came before is none of the application's business."""

    @abstractmethod
    def pass_over(self, source: Source, seq: i64) -> None:
        """A message will not come, being covered."""

    def forget(self, source: Source) -> None:
        """Nothing of a source waits, and nothing will come any more."""
        self.waiting.forget(source)

    def install(self, view: View) -> None:  # noqa: B027
        """From now on this view counts."""

    # -- out ---------------------------------------------------------------------------------------

    @abstractmethod
    def skipped(self, taken: list[Message]) -> None:
        """These are taken: each says which ones the application did not get (`Message.skipped`)."""

    def take(self, messages_max: i64) -> list[Message]:
        """The application takes what waits for it, in its order; this is delivery."""
        taken = self.waiting.take_many(messages_max)
        self.skipped(taken)
        if self._observer is not None:
            for message in taken:
                self._observer.message("deliver", message, "", None)
        return taken

    def take_one(self) -> Message | None:
        """The same for one message, if there is one."""
        message = self.waiting.take()
        if message is not None:
            self.skipped([message])
            if self._observer is not None:
                self._observer.message("deliver", message, "", None)
        return message
