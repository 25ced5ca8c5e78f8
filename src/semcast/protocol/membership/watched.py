"""One other member, as a watcher knows it: signs of life in; since when it is silent, out.

    TRUSTED ──silent──► SUSPECTED ──nothing came back──► ACCUSED
       ▲                    │                               │
       └──────heard, or somebody vouched for it─────────────┘

Silence is counted only while this member itself was awake. Knows nothing of frames.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.membership.accrual import Accrual

TRUSTED: Final = 0
SUSPECTED: Final = 1
ACCUSED: Final = 2
# Whoever says wrongly that nobody listens where a member is may go on saying so, and each time less
# is waited for an answer; so it is not believed again for so long.
DEAF_NS: Final = 5_000_000_000


@final
class Watched:
    """One life of another member."""

    def __init__(self, source: Source, period_ns: i64, now_ns: i64) -> None:
        self.source: Final = source
        self.sender: Final = int(source.sender)
        self._window_min_ns: i64 = period_ns // 2
        self.gaps = Accrual(period_ns)
        # When it was last heard; -1 if it was not.
        self.heard_ns: i64 = -1
        # From when on it is silent. INV-AWAKE: not before it was last heard or vouched for; later
        # by the time during which this member slept.
        self.clock_ns: i64 = now_ns
        # Whether it has promised signs of life, so that its gaps say something.
        self.promised = False
        # It came with the present view, and may not know yet that it is in.
        self.fresh = False
        # How long it asks others to wait for it, since it is overloaded.
        self.wait_ns: i64 = 0
        self.doubt = TRUSTED
        # About the present doubt: its number, how often it was asked about, when to do so next, and
        # how many were asked and answered the last time.
        self.number: i64 = 0
        self.tries: i64 = 0
        self.next_ns: i64 = 0
        self.asked: i64 = 0
        self.answered: i64 = 0
        # Others are asked, and none of them has answered so far; or one has.
        self.alone = False
        self._heeded = False
        # How often the world said that nobody listens any more where it was.
        self.refusals: i64 = 0
        # Until when that is not believed: it was there when the world last said so.
        self.deaf_until_ns: i64 = 0
        self._doubted_ns: i64 = 0
        self._window_ns: i64 = now_ns
        self._longest_ns: i64 = 0

    def retime(self, period_ns: i64) -> None:
        """From now on it has promised a sign of life in each of these periods."""
        if period_ns != self.gaps.period_ns:
            self._window_min_ns = period_ns // 2
            self.gaps = Accrual(period_ns)

    def promise(self, promised: bool, now_ns: i64) -> None:
        """From now on it is watched, or no longer. Silence counts from now on, or as it did."""
        if promised and not self.promised:
            self.restart(now_ns)
        self.promised = promised

    def restart(self, now_ns: i64) -> None:
        """Nothing is held against it."""
        self.clock_ns = max(self.clock_ns, now_ns)
        self._window_ns = now_ns
        self._longest_ns = 0

    def heard(self, now_ns: i64) -> None:
        """A datagram of it came."""
        gap = now_ns - self.clock_ns
        self.clock_ns = now_ns
        self.heard_ns = now_ns
        if gap > self._longest_ns:
            self._longest_ns = gap
        # The longest gap of about each period counts, so that a burst is one sign of life.
        if now_ns - self._window_ns >= self._window_min_ns:
            if self.promised:
                self.gaps.observe(self._longest_ns)
            self._window_ns = now_ns
            self._longest_ns = 0

    def vouched(self, age_ns: i64, now_ns: i64) -> None:
        """Somebody else heard of it so long ago."""
        self.clock_ns = max(self.clock_ns, now_ns - age_ns)

    def is_older(self, age_ns: i64, now_ns: i64) -> bool:
        """Whether a sign of life of that age came before the present doubt."""
        return now_ns - age_ns <= self._doubted_ns

    def slept(self, late_ns: i64, now_ns: i64) -> None:
        """It is not its fault that nothing was heard of it for so long: the watcher slept."""
        self.clock_ns = min(now_ns, self.clock_ns + late_ns)
        self.next_ns += late_ns

    def silence_ns(self, now_ns: i64) -> i64:
        """For how long nothing was heard of it."""
        return now_ns - self.clock_ns

    def asks(self, count: i64) -> None:
        """So many others are asked about it now."""
        self.alone = count > 0 and not self._heeded
        self.asked = count
        self.answered = 0

    def answers(self) -> None:
        """One of those who were asked is there, whatever it says."""
        self.answered += 1
        self._heeded = True
        self.alone = False

    def trust(self, now_ns: i64) -> None:
        """It was heard of. If the world had said that nobody listens there, the world was wrong."""
        self.doubt = TRUSTED
        self.fresh = False
        if self.refusals > 0:
            self.deaf_until_ns = now_ns + DEAF_NS

    def suspect(self, now_ns: i64) -> None:
        """Begin to ask about it."""
        self.doubt = SUSPECTED
        self.number += 1
        self.alone = False
        self._heeded = False
        self.tries = 0
        self.next_ns = now_ns
        self.asked = 0
        self.answered = 0
        self.refusals = 0
        self._doubted_ns = now_ns
