"""What waits for the application of a site: messages of all its groups, in the order of the site.

Entries go in, in the order in which the site installs them; messages come out in that order. What a
message of the same stream that waits here replaces is purged. Each message that is taken says in
`skipped` which numbers of its stream the application does not get.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.purged import observe_arrival
from semcast.wire.message import Message

PLACE: Final = "delivery"
# Of how many messages it is remembered that the application took them.
TAKEN_MAX: Final = 1 << 14


@final
class SiteDelivery:
    """The queue of the application."""

    def __init__(
        self, config: MemberConfig, me: Source, memory: Memory, observer: Observer | None
    ) -> None:
        self._memory: Final = memory
        self._covers: Final = CoverLog(8 * config.delivery_messages)
        self._waiting: Final = PurgingBuffer(
            config.delivery_config(), PLACE, record=True, covers=self._covers
        )
        self._me: Final = me
        self._deliver_own: Final = config.deliver_own
        self._only: Final = config.only
        self._observer: Final = observer
        # By stream: what the application does not get, and was not told of.
        self._untold: Final[dict[Source, list[int]]] = {}
        # The last ones that it took, in case this site has to undo them.
        self._taken: Final[deque[tuple[Source, int]]] = deque(maxlen=TAKEN_MAX)
        self.purged: i64 = 0
        self.skipped: i64 = 0

    @property
    def held(self) -> int:
        """How many messages wait."""
        return int(self._waiting.held)

    def admits(self, message: Message) -> bool:
        """Whether there is room for a message."""
        return self._waiting.admits(message)

    def _wants(self, message: Message) -> bool:
        if not self._deliver_own and message.source.site == self._me.sender:
            return False
        return self._only is None or self._only.wants(message)

    def put(self, entry: Entry) -> None:
        """The next entry of the site's order."""
        message = entry.message
        if message is None:
            self.skipped += 1
            self._covers.note(entry.stream, entry.seq, entry.stream, entry.cover)
            self._untold.setdefault(entry.stream, []).append(entry.seq)
            if self._observer is not None:
                self._observer.progress("skip", entry.stream, entry.seq, entry.stream, entry.cover)
            return
        if not self._wants(message):
            if self._observer is not None:
                self._observer.message("ignore", message, "", None)
            return
        self._waiting.insert(message)
        purged = self._waiting.drain_purged()
        for one in purged:
            self.purged += 1
            self._untold.setdefault(one.message.source, []).append(int(one.message.seq))
        if self._observer is not None:
            observe_arrival(self._observer, "receive", message, purged)

    def take(self) -> Message | None:
        """The next message, which the application gets now."""
        message = self._waiting.take()
        if message is None:
            return None
        untold = self._untold.pop(message.source, None) if self._untold else None
        if untold is not None:
            message.skipped = tuple(sorted(untold))
        if self._waiting.sources > 2 * self._waiting.held + 64:
            self._waiting.forget_idle()
        self._taken.append((message.source, int(message.seq)))
        self._memory.took(message)
        if self._observer is not None:
            self._observer.message("deliver", message, "", None)
        return message

    def taken(self) -> set[tuple[Source, int]]:
        """The last messages that the application took."""
        return set(self._taken)

    def recall(self, message: Message) -> None:
        """A message waited for the application in a former life."""
        if self._wants(message):
            self._waiting.insert(message)
            purged = self._waiting.drain_purged()
            for one in purged:
                self._untold.setdefault(one.message.source, []).append(int(one.message.seq))
            if self._observer is not None:
                observe_arrival(self._observer, "receive", message, purged)

    def recall_taken(self, taken: set[tuple[Source, int]]) -> None:
        """The application took these in a former life."""
        self._taken.extend(sorted(taken))

    def forget(self, stream: Source, seq: int) -> bool:
        """A former life should not have installed a message: it waits no longer. Says whether the
        application took it, so that it has to undo it; then it may get it again.
        """
        if (stream, seq) in self._taken:
            self._taken.remove((stream, seq))
            return True
        self._waiting.remove(stream, seq)
        return False

    def follow(self, former: "SiteDelivery") -> None:
        """Go on as a former life, whose application has not taken all.

        What waits there is moved, so that nobody who still knows that life gets it a second time.
        """
        self.recall_taken(former.taken())
        for message in former.messages():
            former._waiting.remove(message.source, message.seq)
            self.recall(message)
        for stream, untold in former._untold.items():
            self._untold.setdefault(stream, []).extend(untold)

    def messages(self) -> list[Message]:
        """What waits for the application, in order."""
        return self._waiting.messages()

    def peek(self) -> Message | None:
        """The next message, which goes on waiting."""
        return self._waiting.peek()

    def cover_of(self, stream: Source, seq: i64) -> tuple[Source, int] | None:
        """What replaced a message that the application did not get."""
        return self._covers.cover(stream, seq)
