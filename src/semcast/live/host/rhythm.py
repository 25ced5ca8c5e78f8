"""Rhythm: when messages came goes in; when the next one is expected comes out.

Many feeds come at regular times: ticks of a game, samples, quotes once a millisecond. Whoever knows
their beat can be awake when the next message comes, and asleep before.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER

# A guess that was right counts one, a wrong one takes two away: two in three have to be right. So
# much, and there is no doubt; half of it, and it is worth a try.
SURE: Final = 8
WRONG_COSTS: Final = 2
# Sleeping is exact to a thousandth of itself, and beyond this that is not enough.
PERIOD_NS_MAX: Final = 50_000_000
_CHANCE_PART: Final = 8
# Single messages are early or late; their beat follows them by these parts of it.
_PHASE_PART: Final = 4
_PERIOD_PART: Final = 16


@final
class Confidence:
    """In guesses, by how the last ones turned out."""

    def __init__(self) -> None:
        self._worth: i64 = 0

    @property
    def enough(self) -> bool:
        """Whether the next guess is likely to be right."""
        return self._worth >= SURE // 2

    @property
    def none(self) -> bool:
        """Whether it is all gone."""
        return self._worth == 0

    def learn(self, right: bool) -> None:
        """How a guess turned out."""
        if right:
            self._worth = min(self._worth + 1, SURE)
        else:
            self._worth = max(self._worth - WRONG_COSTS, 0)


@final
class Rhythm:
    """Of messages that come up to `within_ns` early or late, or less if they are quick."""

    def __init__(self, within_ns: i64) -> None:
        self._within_ns: Final[i64] = within_ns
        self._confidence: Final = Confidence()
        self._came_ns: i64 = -FOREVER
        self._period_ns: i64 = FOREVER
        self._due_ns: i64 = 0

    def came(self, now_ns: i64) -> None:
        """A message is there."""
        apart_ns = now_ns - self._came_ns
        self._came_ns = now_ns
        if self._is_beat():
            # Beats without a message are no mistake: it may have been replaced.
            missed = max(now_ns - self._due_ns + self._period_ns // 2, 0) // self._period_ns
            late_ns = now_ns - self._due_ns - missed * self._period_ns
            # Of messages that come at random a quarter are on time by chance, no more.
            within_ns = min(self._within_ns, self._period_ns // _CHANCE_PART)
            right = -within_ns <= late_ns <= within_ns
            self._confidence.learn(right)
            if right:
                self._period_ns += late_ns // (_PERIOD_PART * (missed + 1))
                self._due_ns = now_ns - late_ns + late_ns // _PHASE_PART + self._period_ns
            elif late_ns > 0:
                self._due_ns = now_ns - late_ns + self._period_ns
        if self._confidence.none or not self._is_beat():
            self._period_ns = apart_ns
            self._due_ns = now_ns + apart_ns

    def _is_beat(self) -> bool:
        return 2 * self._within_ns < self._period_ns <= PERIOD_NS_MAX

    def next_ns(self, now_ns: i64) -> i64:
        """When the next message is expected, if it is not long due; FOREVER if nobody knows."""
        if not self._confidence.enough or not self._is_beat():
            return FOREVER
        late_ns = now_ns - self._within_ns - self._due_ns
        if late_ns <= 0:
            return self._due_ns
        return self._due_ns + (late_ns // self._period_ns + 1) * self._period_ns
