"""Guards: may this message be used as a cover yet?

A delivery buffer needs none. A retransmission buffer must not purge what only an unsafe message
covers: if the sender then died, nobody could deliver either (the m1, m2, m3 run of SRM §4.3).
"""

from semcast._native import i64
from semcast.ids import Source
from semcast.wire.message import Message


class CoverGuard:
    """Decides whether a message may cover others; this one always agrees.

    INV-GUARD: a guard that allows a message allows all earlier ones of its source, and never takes
    an answer back. Buffers rely on it to look at each waiting cover once.
    """

    def allows(self, cover: Message) -> bool:
        """Whether what `cover` replaces may be purged now."""
        return cover.seq > 0


class SafeUpTo(CoverGuard):
    """Allows what is known to be safe: received by f+1 members, so that it survives f crashes."""

    def __init__(self) -> None:
        self._safe: dict[Source, int] = {}
        # The answer for the source asked about last: messages come in runs.
        self._last_source: Source | None = None
        self._last_safe: i64 = 0

    def allows(self, cover: Message) -> bool:
        if cover.source is not self._last_source:
            self._last_source = cover.source
            self._last_safe = self._safe.get(cover.source, 0)
        return cover.seq <= self._last_safe

    def advance(self, source: Source, safe_seq: i64) -> bool:
        """Everything of `source` up to `safe_seq` is safe; says whether that is news."""
        if safe_seq <= self._safe.get(source, 0):
            return False
        self._safe[source] = safe_seq
        self._last_source = None
        return True

    def forget(self, source: Source) -> None:
        """Nothing of `source` is kept any more."""
        self._safe.pop(source, None)
        self._last_source = None
