"""Messages that came lately, for members that missed them: bounded, and purged as they wait.

A message that another one here replaces is dropped, and asked for, its cover is the answer. When
there is no room, the message that has been here longest goes, and nobody is told of it any more.
"""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.policy import BufferConfig
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.families.pull import Range
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL
# Covers that are remembered, for each message that may be held.
_COVERS_PER_MESSAGE: Final = 4
# For how many rounds it is known what came of a source.
_ROUNDS_MAX: Final = 256
# Of how many sources, and of how many ranges of each; more than a summary has room for.
_SOURCES_MAX: Final = 1 << 14
_RANGES_MAX: Final = 64
PLACE: Final = "pull"


@final
class Known:
    """Of which messages of one source something can be said: ranges in order."""

    def __init__(self) -> None:
        # INV-RANGES: first <= last of each range, and at least one number between two of them; the
        # newest `_RANGES_MAX` of them.
        self.firsts: Final[list[int]] = []
        self.lasts: Final[list[int]] = []
        # The round in which the last of them came.
        self.round: i64 = 0

    def add(self, seq: int) -> None:
        """Something can be said of one more."""
        at = bisect_left(self.lasts, seq - 1)
        if at == len(self.lasts) or seq < self.firsts[at] - 1:
            self.firsts.insert(at, seq)
            self.lasts.insert(at, seq)
            if len(self.firsts) > _RANGES_MAX:
                del self.firsts[0]
                del self.lasts[0]
            return
        self.firsts[at] = min(self.firsts[at], seq)
        self.lasts[at] = max(self.lasts[at], seq)
        if at + 1 < len(self.firsts) and self.firsts[at + 1] <= self.lasts[at] + 1:
            self.lasts[at] = self.lasts[at + 1]
            del self.firsts[at + 1]
            del self.lasts[at + 1]

    def forget(self, upto: int) -> None:
        """Nothing can be said of these and of earlier ones any more."""
        while self.lasts and self.lasts[0] <= upto:
            del self.firsts[0]
            del self.lasts[0]
        if self.firsts and self.firsts[0] <= upto:
            self.firsts[0] = upto + 1


@final
class MessageStore:
    """The messages of the last rounds."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._covers: Final = CoverLog(_COVERS_PER_MESSAGE * messages_max)
        config = BufferConfig(messages_max, bytes_max)
        self._buffer: Final = PurgingBuffer(config, PLACE, covers=self._covers)
        # Those of which something came last come last.
        self._known: Final[dict[Source, Known]] = {}
        self.round: i64 = 0

    def __len__(self) -> int:
        return int(self._buffer.held)

    def put(self, message: Message) -> None:
        """Keep a message, if it is not too large to be kept at all."""
        buffer = self._buffer
        if len(message.body) > buffer.config.bytes_max:
            return
        self._know(message.source, message.seq)
        while buffer.insert(message) is _FULL:
            oldest = buffer.take()
            assert oldest is not None, "an empty buffer takes any message that fits it"
            self._let_go(oldest)
        if buffer.sources > 2 * buffer.held + 64:
            buffer.forget_idle()

    def covered(self, source: Source, seq: i64, by_source: Source, by_seq: i64) -> None:
        """Another one says what covers a message. If that, or what covers it in turn, is here,
        others may be told.
        """
        if self.get(by_source, by_seq) is not None or self.cover(by_source, by_seq) is not None:
            self._covers.note(source, seq, by_source, by_seq)
            self._know(source, seq)

    def _know(self, source: Source, seq: i64) -> None:
        """Something can be said of a message from now on."""
        known = self._known.pop(source, None) or Known()
        self._known[source] = known
        known.round = self.round
        known.add(int(seq))
        if len(self._known) > _SOURCES_MAX:
            del self._known[next(iter(self._known))]

    def get(self, source: Source, seq: i64) -> Message | None:
        """A message, if it is here."""
        return self._buffer.get(source, seq)

    def cover(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """What covers a message that was dropped here, if that is remembered."""
        return self._covers.cover(source, seq)

    def ranges(self, rounds: i64, ranges_max: int, start: int) -> list[Range]:
        """What came in the last rounds: at most so many ranges, of sources from a place in the
        list on. Of each source the newest ranges come first.
        """
        found: list[Range] = []
        sources = [
            source for source, known in self._known.items() if self.round - known.round < rounds
        ]
        for at in range(len(sources)):
            source = sources[(start + at) % len(sources)]
            known = self._known[source]
            for last in range(len(known.lasts) - 1, -1, -1):
                if len(found) >= ranges_max:
                    return found
                found.append((source, known.firsts[last], known.lasts[last]))
        return found

    def on_round(self) -> None:
        """Another round begins. Sources of which nothing came for long are not told of again."""
        self.round += 1
        for source, known in list(self._known.items()):
            if self.round - known.round <= _ROUNDS_MAX:
                break
            del self._known[source]

    def _let_go(self, message: Message) -> None:
        known = self._known.get(message.source)
        if known is not None:
            known.forget(int(message.seq))
            if not known.firsts:
                del self._known[message.source]
