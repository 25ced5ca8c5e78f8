"""Messages in their final order in, messages for the application out, less what is replaced.

A message that the application takes says in `skipped` which numbers of its stream were purged since
the one before. What was purged is reported with its cover.
"""

from dataclasses import replace
from typing import Final, final

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.purged import observe_arrival
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

# For each message that may wait: how many purged ones are remembered until they are told.
_UNTOLD_EACH: Final = 8


@final
class PhaseDelivery:
    """What waits for the application of one site, of all its groups."""

    def __init__(self, config: MemberConfig, observer: Observer | None) -> None:
        self._observer: Final = observer
        self._untold_max: Final = _UNTOLD_EACH * config.delivery_messages
        # Messages of other groups stand between those of a stream, so none takes another's place.
        settings = replace(config.delivery_config(), in_place=False)
        self._buffer: Final = PurgingBuffer(settings, "delivery", record=True)
        self._untold: Final[dict[Source, list[int]]] = {}
        self._covers: Final[CoverLog | None] = (
            CoverLog(self._untold_max) if config.track_covers else None
        )
        self.purged = 0
        self.purged_early = 0

    @property
    def held(self) -> int:
        """How many wait."""
        return int(self._buffer.held)

    def insert(self, message: Message) -> bool:
        """The next message; False if there is no room for it yet."""
        if self._buffer.insert(message) is Verdict.FULL:
            return False
        purged = self._buffer.drain_purged()
        for one in purged:
            assert one.cover is not None, "this buffer drops nothing"
            self.purged += 1
            self._note(one.message, one.cover)
        if self._observer is not None:
            observe_arrival(self._observer, "receive", message, purged)
        return True

    def purged_before(self, message: Message, cover: Message) -> None:
        """A message was replaced before its turn came."""
        self.purged_early += 1
        self._note(message, cover)
        if self._observer is not None:
            self._observer.message("purge", message, "wait", cover)
            source, seq = message.source, int(message.seq)
            self._observer.progress("skip", source, seq, cover.source, int(cover.seq))

    def _note(self, message: Message, cover: Message) -> None:
        untold = self._untold.setdefault(message.source, [])
        if len(untold) < self._untold_max:
            untold.append(int(message.seq))
        if self._covers is not None:
            self._covers.note(message.source, message.seq, cover.source, cover.seq)

    def take(self) -> Message | None:
        """The next message for the application, which leaves."""
        message = self._buffer.take()
        if message is None:
            return None
        untold = self._untold.pop(message.source, None)
        if untold is not None:
            seq = int(message.seq)
            message.skipped = tuple(sorted([one for one in untold if one < seq]))
            later = [one for one in untold if one > seq]
            if later:
                self._untold[message.source] = later
        if self._observer is not None:
            self._observer.message("deliver", message, "", None)
        return message

    def oldest(self) -> Message | None:
        """The next message, which stays."""
        return self._buffer.peek()

    def cover_of(self, source: Source, seq: int) -> tuple[Source, int] | None:
        """What replaced a message, if that is remembered."""
        return None if self._covers is None else self._covers.cover(source, seq)
