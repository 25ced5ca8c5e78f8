"""What left a buffer without being taken: which message, why, and what covers it."""

import enum
from typing import Final, final

from semcast._native import i64
from semcast.protocol.observer import Observer
from semcast.protocol.queue.covers import CoverLog
from semcast.wire.message import Message


class Reason(enum.StrEnum):
    """Why a message left a buffer without being taken."""

    REPLACED = "replaced"  # a message that replaces it came later
    LATE = "late"  # it came when the message that replaces it was already there
    RANDOM = "random"  # lossy: it made room for another
    OVERFLOW = "overflow"  # lossy: there was no room for it


# Looked up once: an enum member costs a dictionary look-up in compiled code, these do not.
_REPLACED: Final = Reason.REPLACED
_LATE: Final = Reason.LATE
_RANDOM: Final = Reason.RANDOM
_OVERFLOW: Final = Reason.OVERFLOW


@final
class Purged:
    """One message that a buffer purged (`cover` says by what) or, if lossy, dropped."""

    def __init__(self, place: str, reason: Reason, message: Message, cover: Message | None) -> None:
        self.place = place
        self.reason = reason
        self.message = message
        self.cover = cover

    def __repr__(self) -> str:
        by = "" if self.cover is None else f" by {self.cover!r}"
        return f"<Purged {self.reason} from {self.place}: {self.message!r}{by}>"


def observe_arrival(observer: Observer, event: str, message: Message, purged: list[Purged]) -> None:
    """Report that a message came, and what was purged then.

    What it replaced, or that it was obsolete itself, comes after it. What only made room for it,
    being obsolete for long, comes before: so no buffer ever seems to hold more than it may.
    """
    for one in purged:
        if one.cover is not message and one.message is not message:
            observer.message("purge", one.message, one.place, one.cover)
    observer.message(event, message, "", None)
    for one in purged:
        if one.cover is message or one.message is message:
            observer.message("purge", one.message, one.place, one.cover)


@final
class PurgeLog:
    """Counts what left a buffer without being taken; keeps it too, if it is told to."""

    def __init__(self, place: str, record: bool, covers: CoverLog | None) -> None:
        self._place: Final = place
        self._record: Final = record
        self._covers: Final = covers
        self._only_counts: Final = not record and covers is None
        self._replaced: i64 = 0
        self._late: i64 = 0
        self._random: i64 = 0
        self._overflows: i64 = 0
        self._purged: list[Purged] = []

    def replaced(self, victim: Message, cover: Message) -> None:
        """A held message left because of its cover."""
        self._replaced += 1
        if not self._only_counts:
            self._keep(_REPLACED, victim, cover)

    def account(self, reason: Reason, message: Message, cover: Message | None) -> None:
        """A message left, or did not enter, for another reason."""
        if reason is _LATE:
            self._late += 1
        elif reason is _RANDOM:
            self._random += 1
        else:
            assert reason is _OVERFLOW
            self._overflows += 1
        self._keep(reason, message, cover)

    def _keep(self, reason: Reason, message: Message, cover: Message | None) -> None:
        if self._record:
            self._purged.append(Purged(self._place, reason, message, cover))
        if self._covers is not None and cover is not None:
            self._covers.note(message.source, message.seq, cover.source, cover.seq)

    @property
    def counts(self) -> dict[Reason, int]:
        """How many there were, by reason."""
        return {
            _REPLACED: self._replaced,
            _LATE: self._late,
            _RANDOM: self._random,
            _OVERFLOW: self._overflows,
        }

    @property
    def recorded(self) -> bool:
        """Whether there is anything to drain."""
        return len(self._purged) > 0

    def drain(self) -> list[Purged]:
        """What was kept since the last call."""
        purged, self._purged = self._purged, []
        return purged
