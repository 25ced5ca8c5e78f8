"""Endings: streams of sources that have ended in; nothing of them is kept, once that may be, out.

What was kept for others goes at once, since nobody will ask for it. What waits for the application
stays until it was taken.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.order import Order
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import SafeUpTo
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.inbound import Inbound, link_lives
from semcast.wire.sources import Sources

# So many gaps are remembered until somebody asks.
_GAPS_MAX: Final = 256
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
        # ends are forgotten; and whether any was.
        self.ends: Final[dict[Source, int]] = {}
        self.forgot = False
        # What streams have passed over, until somebody asks.
        self._gaps: Final[deque[tuple[Source, int, int]]] = deque(maxlen=_GAPS_MAX)

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
        self.ends.setdefault(source, 0)
        if inbound is not None:
            self._waiting[source] = inbound
            self.ends[source] = int(inbound.newest)
        while len(self.ends) > _ENDS_MAX:
            del self.ends[next(iter(self.ends))]
            self.forgot = True
        self._retained.forget(source)
        self._answers.forget(source)
        self._asking.forget(source)
        if self._guard is not None:
            self._guard.forget(source)

    def missed(self, source: Source) -> None:
        """Take note that it is not known here how far others got: it was never followed."""
        self.ends.pop(source, None)

    def take_up(self, inbounds: dict[Source, Inbound], inbound: Inbound) -> None:
        """A stream is new here, or it had ended and nothing of it was kept. Of one that had ended
        the application has everything up to there, so that it goes on after that.
        """
        link_lives(inbounds, inbound)
        had = self.ends.get(inbound.source, 0)
        if had > 0:
            inbound.resume(had)
            self._order.begin(inbound.source, had + 1)

    def begin(self, inbound: Inbound, after: i64) -> bool:
        """A stream begins after that message, perhaps one that was to end. Says whether it begins
        anew; then what it passes over, since others have forgotten this process, is noted.
        """
        self._waiting.pop(inbound.source, None)
        self.ends.pop(inbound.source, None)
        began = inbound.cut >= 0 or inbound.next > 1
        anew = inbound.begin(after)
        if anew and began:
            self._gaps.append((inbound.source, int(inbound.had + 1), int(inbound.cut)))
        return anew

    def take_gaps(self) -> list[tuple[Source, int, int]]:
        """Sources, with the first and the last message that their streams have passed over."""
        if not self._gaps:
            return []
        gaps = list(self._gaps)
        self._gaps.clear()
        return gaps

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
