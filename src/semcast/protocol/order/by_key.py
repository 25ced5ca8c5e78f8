"""Order by key: only messages of one key, and the unmarked ones among themselves, are in order.

So a new value takes the place of the one that it replaces, and keys take turns; how, is told in
`queue/in_place.py` and `queue/values.py`.
"""

from typing import final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.order.order import Order
from semcast.protocol.queue.in_place import newest_skipped
from semcast.wire.message import Message


@final
class KeyOrder(Order):
    """A queue in which messages take each other's place."""

    def begin(self, source: Source, next_seq: i64) -> None:
        """Messages carry with them what was skipped; before the first there is nothing."""

    def pass_over(self, source: Source, seq: i64) -> None:
        self.waiting.pass_over(source, seq)

    def skipped(self, taken: list[Message]) -> None:
        for message in taken:
            newest_skipped(message)
