"""The gate that a restarted member waits at: rounds of gossip in, whether it may begin out.

INV-JOIN: until the rounds of a page are free of votes of a former life, a restarted member takes
nothing of its sources and has no votes on them, so that no stream has a hole behind its join point.
"""

from typing import Final, final

from mypy_extensions import i64

# Rounds of gossip that a restarted member waits for: votes of its former life are in the current
# one at the latest, so that the one after the next is free of them.
_JOIN_ROUNDS: Final = 2


@final
class JoinGate:
    """One for all pages of a member. For somebody who was there from the beginning it is open."""

    def __init__(self, joining: bool, delay_ns: i64) -> None:
        self._joining: Final = joining
        self._delay_ns: Final[i64] = delay_ns
        self._from_ns: i64 = -1
        # By page, the round that is free; 0 once joined.
        self._rounds: Final[dict[int, int]] = {}

    def closed(self, page: int) -> bool:
        """Whether the sources of a page must not be touched yet."""
        return self._joining and self._rounds.get(page, 1) != 0

    def gossip(self, page: int, round_number: i64, now_ns: i64) -> bool:
        """A vector of a page has come. Whether the gate opens for that page just now."""
        if self._from_ns < 0:
            self._from_ns = now_ns + self._delay_ns
        if now_ns < self._from_ns:
            return False
        free = self._rounds.setdefault(page, int(round_number) + _JOIN_ROUNDS)
        return free != 0 and round_number >= free and self.open(page)

    def open(self, page: int) -> bool:
        """The sources of a page may begin. Whether that is news."""
        if not self.closed(page):
            return False
        self._rounds[page] = 0
        return True
