"""Saying wishes: what a member wishes goes in, and comes out again until it is fulfilled.

All hear what is wished, ever less often; only that nothing is kept of a member that is gone is said
to the one who would propose.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.post import Post
from semcast.protocol.membership.sharing import Sharing
from semcast.protocol.membership.wishes import WishList
from semcast.wire.families.agreement import ENDED, WISHES_ROWS_MAX

_MS: Final = 1_000_000
# Own wishes are repeated after so long, and each time after twice as long.
_SAY_NS: Final = 100 * _MS
_SAY_MAX_NS: Final = 2_000 * _MS
# Frames of wishes that are sent at a time.
_FRAMES_MAX: Final = 8


@final
class Saying:
    """When to say what one member wishes."""

    def __init__(self, wishes: WishList, sharing: Sharing, post: Post, random: Randomness) -> None:
        self._wishes: Final = wishes
        self._sharing: Final = sharing
        self._post: Final = post
        self._random: Final = random
        # When to say it next, and how often it was said.
        self.at_ns: i64 = NEVER
        self._said: i64 = 0
        # Where to go on, if not all fits.
        self._row = 0

    def soon(self, now_ns: i64) -> None:
        """There is a new wish."""
        self.at_ns = now_ns
        self._said = 0

    def follow(self, now_ns: i64) -> None:
        """There is a new view: what is still wished is said anew."""
        if self._wishes.own:
            self.soon(now_ns + _SAY_NS)

    def say(self, alone: bool, heirs: list[int], now_ns: i64) -> None:
        """Say what this member wishes, unless it is `alone`; `heirs`: who else would propose."""
        rows = [(what, sender, life) for (what, sender), life in self._wishes.own.items()]
        if not rows:
            self.at_ns = NEVER
            return
        self._wishes.repeat(now_ns)
        if not alone:
            self._say_rows(EVERYBODY, [row for row in rows if row[0] != ENDED])
            for to in heirs:
                self._say_rows(to, [row for row in rows if row[0] == ENDED])
        wait_ns = backoff_ns(_SAY_NS, self._said, _SAY_MAX_NS)
        self._said += 1
        self.at_ns = now_ns + wait_ns + int(self._random.random() * float(wait_ns // 4))

    def _say_rows(self, to: int, rows: list[tuple[int, int, int]]) -> None:
        """Some of the rows, others each time if there are too many."""
        most = _FRAMES_MAX * WISHES_ROWS_MAX
        if len(rows) > most:
            self._row = (self._row + most) % len(rows)
            rows = (rows[self._row :] + rows[: self._row])[:most]
        for at in range(0, len(rows), WISHES_ROWS_MAX):
            self._post.send(to, self._sharing.word(rows[at : at + WISHES_ROWS_MAX]))
