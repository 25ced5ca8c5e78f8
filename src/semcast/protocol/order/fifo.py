"""FIFO order: messages of a source come out in the order of their numbers (SRM §4.1)."""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.observer import Observer
from semcast.protocol.order.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.wire.message import Message


@final
class _Taken:
    """How far an application has got with a source."""

    def __init__(self) -> None:
        self.seq: i64 = 0


@final
class FifoOrder(Order):
    """A queue: whoever came first is taken first."""

    def __init__(self, waiting: PurgingBuffer, observer: Observer | None) -> None:
        super().__init__(waiting, observer)
        self._taken: Final[dict[Source, _Taken]] = {}
        # Messages come in runs of one source, so the last one is often right.
        self._last_source: Source | None = None
        self._last = _Taken()

    def begin(self, source: Source, next_seq: i64) -> None:
        self._of(source).seq = next_seq - 1

    def pass_over(self, source: Source, seq: i64) -> None:
        """The gap in the numbers says it."""

    def forget(self, source: Source) -> None:
        super().forget(source)
        self._taken.pop(source, None)
        self._last_source = None

    def skipped(self, taken: list[Message]) -> None:
        for message in taken:
            last = self._last if message.source is self._last_source else self._of(message.source)
            if message.seq > last.seq + 1:
                message.skipped = range(last.seq + 1, message.seq)
            last.seq = message.seq

    def _of(self, source: Source) -> _Taken:
        taken = self._taken.get(source)
        if taken is None:
            taken = self._taken[source] = _Taken()
        self._last_source = source
        self._last = taken
        return taken
