"""FIFO order: messages of a source come out in the order of their numbers (SRM §4.1)."""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.interest import Interest
from semcast.protocol.observer import Observer
from semcast.protocol.order.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.in_place import SKIPPED_MAX
from semcast.wire.message import Message

# So many ranges of unwanted messages are told apart, between two that are taken.
_RANGES_MAX: Final = 1024


@final
class _Taken:
    """How far an application has got with a source."""

    def __init__(self) -> None:
        self.seq: i64 = 0
        # INV-UNWANTED: ranges of messages after `seq` that the application does not want, in order,
        # none next to another; if there are too many, the first ones are taken together, with all
        # between them.
        self.unwanted: list[tuple[int, int]] = []

    def ignore(self, seq: i64) -> None:
        """The application does not want this one, which is newer than all before."""
        if self.unwanted and self.unwanted[-1][1] == seq - 1:
            self.unwanted[-1] = (self.unwanted[-1][0], int(seq))
            return
        self.unwanted.append((int(seq), int(seq)))
        if len(self.unwanted) > 2 * _RANGES_MAX:
            first, last = self.unwanted[0][0], self.unwanted[_RANGES_MAX][1]
            self.unwanted[: _RANGES_MAX + 1] = [(first, last)]

    def skipped(self, seq: i64) -> Sequence[int]:
        """Which ones before `seq`, since the last one, the application wants and did not get."""
        if not self.unwanted:
            return range(self.seq + 1, seq)
        found: list[int] = []
        begins = int(self.seq) + 1
        passed = 0
        for first, last in self.unwanted:
            if first > seq:
                break
            found += range(max(begins, first - SKIPPED_MAX), first)
            begins = last + 1
            if last > seq:
                break  # taken together with some that are wanted
            passed += 1
        del self.unwanted[:passed]
        found += range(max(begins, int(seq) - SKIPPED_MAX), int(seq))
        return tuple(found[-SKIPPED_MAX:])


@final
class FifoOrder(Order):
    """A queue: whoever came first is taken first."""

    def __init__(
        self, waiting: PurgingBuffer, observer: Observer | None, interest: Interest | None = None
    ) -> None:
        super().__init__(waiting, observer, interest)
        self._taken: Final[dict[Source, _Taken]] = {}
        # Messages come in runs of one source, so the last one is often right.
        self._last_source: Source | None = None
        self._last = _Taken()

    def begin(self, source: Source, next_seq: i64) -> None:
        taken = self._of(source)
        taken.seq = max(taken.seq, next_seq - 1)

    def pass_over(self, source: Source, seq: i64) -> None:
        """The gap in the numbers says it, unless the application may not have wanted it."""
        if self._interest is not None:
            self.unwanted(source, seq)

    def unwanted(self, source: Source, seq: i64) -> None:
        taken = self._last if source is self._last_source else self._of(source)
        if seq > taken.seq:
            taken.ignore(seq)

    def forget(self, source: Source) -> None:
        super().forget(source)
        self._taken.pop(source, None)
        self._last_source = None

    def taken(self, source: Source, handed_on: i64) -> int:
        oldest = self.waiting.oldest_of(source)
        return int(handed_on if oldest is None else oldest.seq - 1)

    def skipped(self, taken: list[Message]) -> None:
        for message in taken:
            last = self._last if message.source is self._last_source else self._of(message.source)
            if message.seq > last.seq + 1:
                message.skipped = last.skipped(message.seq)
            last.seq = message.seq

    def _of(self, source: Source) -> _Taken:
        taken = self._taken.get(source)
        if taken is None:
            taken = self._taken[source] = _Taken()
        self._last_source = source
        self._last = taken
        return taken
