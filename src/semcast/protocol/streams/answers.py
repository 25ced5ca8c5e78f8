"""What this member can answer about messages that it no longer has, and what it has just answered.

A purged message is answered with its cover, so that nobody asks for ever (SRM §5.3). Covers are
safe, so they may be told at once. When there are too many, the oldest is forgotten, since that a
message is covered follows from not having it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.covers import CoverLog
from semcast.protocol.queue.purged import Purged
from semcast.wire.message import Message


@final
class Answers:
    """Covers of purged messages, and when messages were last sent again."""

    def __init__(self, covers_max: int, cooldown_ns: i64, log: CoverLog | None = None) -> None:
        """`log`, if any, is told of covers too, and does not forget them when they are stable."""
        self._covers_max: Final = covers_max
        self._cooldown_ns: Final[i64] = cooldown_ns
        self._covers: Final[dict[Source, dict[int, tuple[Source, int]]]] = {}
        self._resent: dict[tuple[Source, int], int] = {}
        self._log: Final = log
        self.forgotten: i64 = 0

    def note_cover(self, source: Source, seq: i64, by_source: Source, by_seq: i64) -> None:
        """A message was purged because of a safe one."""
        covers = self._covers.setdefault(source, {})
        if len(covers) >= self._covers_max:
            del covers[next(iter(covers))]
            self.forgotten += 1
        covers[int(seq)] = (by_source, int(by_seq))
        if self._log is not None:
            self._log.note(source, seq, by_source, by_seq)

    def note_purges(self, retained: PurgingBuffer, observer: Observer | None) -> None:
        """Messages that were kept for others have been purged."""
        purged = retained.drain_purged()
        self.note_purged(purged)
        if observer is not None:
            for one in purged:
                observer.message("purge", one.message, one.place, one.cover)

    def note_purged(self, purged: list[Purged]) -> None:
        """The same, for what was drained already."""
        for one in purged:
            cover = one.cover
            assert cover is not None, "only covered messages leave"
            self.note_cover(one.message.source, one.message.seq, cover.source, cover.seq)

    def note_early_purges(self, purged: list[tuple[Message, Message]]) -> None:
        """Messages were purged that waited for earlier ones of their source, each for a cover."""
        for message, cover in purged:
            self.note_cover(message.source, message.seq, cover.source, cover.seq)
        purged.clear()

    def cover(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        """What covers a message, if that is remembered."""
        covers = self._covers.get(source)
        return None if covers is None else covers.get(int(seq))

    def stable(self, source: Source, agreed: i64) -> None:
        """Nobody will ask for these any more."""
        covers = self._covers.get(source)
        if covers:
            for seq in [seq for seq in covers if seq <= agreed]:
                del covers[seq]
            if not covers:
                del self._covers[source]

    def forget(self, source: Source) -> None:
        """Nobody will ask for anything of a source any more."""
        self._covers.pop(source, None)

    def may_resend(self, source: Source, seq: i64, now_ns: i64) -> bool:
        """Whether to send this again now: not if it was just sent; the copy is on its way."""
        if len(self._resent) > 4 * self._covers_max:
            old = now_ns - self._cooldown_ns
            self._resent = {name: at for name, at in self._resent.items() if at > old}
        name = (source, int(seq))
        last = self._resent.get(name, -self._cooldown_ns)
        if now_ns - last < self._cooldown_ns:
            return False
        self._resent[name] = now_ns
        return True
