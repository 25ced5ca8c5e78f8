"""Endings: streams of sources that have ended in; nothing of them is kept, once that may be, out.

What was kept for others goes at once, since nobody will ask for it. What waits for the application
stays until it was taken.
"""

from typing import Final, final

from semcast.ids import Source
from semcast.protocol.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.inbound import Inbound
from semcast.wire.sources import Sources

# The ends of so many lives are remembered.
_ENDS_MAX: Final = 1_024


@final
class Endings:
    """One member's streams that come to their ends."""

    def __init__(
        self,
        order: Order,
        retained: PurgingBuffer,
        guard: SafeUpTo | None,
        answers: Answers,
        asking: Asking,
        sources: Sources,
    ) -> None:
        """`sources`: those that the decoder has seen, which forgets with us."""
        self._order: Final = order
        self._retained: Final = retained
        self._guard: Final = guard
        self._answers: Final = answers
        self._asking: Final = asking
        self._sources: Final = sources
        self._waiting: Final[dict[Source, Inbound]] = {}
        # INV-ENDS: the last message of a life that has ended, which all have got, or 0. The oldest
        # ends are forgotten.
        self.ends: Final[dict[Source, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def give_up(self, source: Source, inbound: Inbound) -> None:
        """Nobody has what is missing of a source. What is here, everybody has; also what still
        waits for room, which is never kept for others any more.
        """
        standing = self._retained.heir
        if standing is not None and inbound.keep:
            self._retained.release(source, inbound.next - 1)
            standing.absorb(inbound.waiting_in_order())
        inbound.give_up()

    def end(self, source: Source, inbound: Inbound | None) -> None:
        """Keep nothing of a source for others; its stream, if there is one, waits for its end."""
        self.ends[source] = 0
        if inbound is not None:
            self._waiting[source] = inbound
            self.ends[source] = int(inbound.newest)
        while len(self.ends) > _ENDS_MAX:
            del self.ends[next(iter(self.ends))]
        self._retained.forget(source)
        self._answers.forget(source)
        self._asking.forget(source)
        if self._guard is not None:
            self._guard.forget(source)

    def missed(self, source: Source) -> None:
        """Take note that it is not known here how far others got: it was never followed."""
        self.ends.pop(source, None)

    def resume(self, source: Source) -> None:
        """A stream that was to end begins again."""
        self._waiting.pop(source, None)
        self.ends.pop(source, None)

    def forget(self, inbounds: dict[Source, Inbound]) -> None:
        """Take out those of which the application has taken everything."""
        for source, inbound in list(self._waiting.items()):
            if inbound.next <= inbound.newest or self._order.waiting.held_of(source) > 0:
                continue
            del self._waiting[source]
            del inbounds[source]
            self._order.forget(source)
            self._sources.forget(source)
            for other in inbounds.values():
                if other.former is inbound:
                    other.former = inbound.former
