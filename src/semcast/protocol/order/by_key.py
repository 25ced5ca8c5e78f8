"""Order by key: only messages of one key, and the unmarked ones among themselves, are in order.

So a new value takes the place of the one that it replaces, and keys take turns; how, is told in
`queue/in_place.py` and `queue/values.py`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.interest import Interest
from semcast.protocol.observer import Observer
from semcast.protocol.order.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.in_place import newest_skipped
from semcast.wire.message import Message


@final
class KeyOrder(Order):
    """A queue in which messages take each other's place."""

    def __init__(
        self, waiting: PurgingBuffer, observer: Observer | None, interest: Interest | None = None
    ) -> None:
        super().__init__(waiting, observer, interest)
        # Where streams began while messages of them may have waited: nothing before was skipped.
        self._begun: Final[dict[Source, int]] = {}

    def begin(self, source: Source, next_seq: i64) -> None:
        """Messages carry with them what was skipped; before the first there is nothing."""
        if self.waiting.held_of(source) > 0:
            self._begun[source] = int(next_seq)

    def pass_over(self, source: Source, seq: i64) -> None:
        if self._interest is None:
            self.waiting.pass_over(source, seq)

    def unwanted(self, source: Source, seq: i64) -> None:
        """Nothing names it, as it was never here."""

    def forget(self, source: Source) -> None:
        super().forget(source)
        self._begun.pop(source, None)

    def taken(self, source: Source, handed_on: i64) -> int:
        """While anything waits, newer messages may have been taken."""
        return int(handed_on) if self.waiting.held_of(source) == 0 else -1

    def skipped(self, taken: list[Message]) -> None:
        for message in taken:
            newest_skipped(message)
            if self._begun and message.source in self._begun:
                begun = self._begun[message.source]
                message.skipped = [seq for seq in message.skipped if seq >= begun]
