"""When to begin a round: messages that wait and the time in, a yes or no out (STAB §6).

The sooner rounds begin, the more of them there are; if they begin too late, windows fill up and
senders stop. So one begins when X = min(g - rf, (g - 2rf)/(1 - α)) messages wait: g is the window,
r the rate of the fastest sender, f the time that a round takes, α the share of what waits that it
makes stable. (The paper prints max; see `model/trigger.py`.) r, f and α are measured and change. A
bound on time lets a quiet group forget too. With a fixed period instead, rounds begin at that pace
as long as anything waits, which is what the paper compares with.

One column of a page stands for one window: what waits is the most that waits in any column.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER

# The weight of a new measurement against the former ones.
_WEIGHT: Final = 0.25
_ALPHA_MAX: Final = 0.999


@final
class Trigger:
    """The trigger of one page, at whoever is its coordinator."""

    def __init__(self, window_messages: int, bound_ns: i64, period_ns: i64) -> None:
        """`bound_ns`: the longest that anything waits. `period_ns`: a fixed pace, or 0."""
        self._window: Final = window_messages
        self._bound_ns: Final[i64] = bound_ns
        self._period_ns: Final[i64] = period_ns
        self._rate_ns = 0.0
        self._alpha = 1.0
        # Since when anything waits, or NEVER; how much waited when the last round began, and when.
        self._since_ns: i64 = NEVER
        self._began_ns: i64 = -1
        self._began_messages: i64 = 0

    def threshold(self, round_ns: i64) -> int:
        """X: begin when so many messages wait."""
        sent = self._rate_ns * float(round_ns)
        first = self._window - sent
        second = (self._window - 2 * sent) / (1.0 - min(self._alpha, _ALPHA_MAX))
        return max(1, int(min(first, second)))

    def due(self, waiting: i64, news: bool, round_ns: i64, now_ns: i64) -> bool:
        """Whether to begin a round now, with so many messages waiting.

        Without `news` a round can do more than the last one only if others have caught up
        meanwhile. Then only the bound on time counts, or one slow member would cause round after
        round.
        """
        if waiting == 0:
            self._since_ns = NEVER
            return False
        if self._since_ns == NEVER:
            self._since_ns = now_ns
        if news and self._period_ns == 0 and waiting >= self.threshold(round_ns):
            return True
        return now_ns >= self.deadline_ns()

    def deadline_ns(self) -> i64:
        """When to ask `due` again at the latest."""
        if self._since_ns == NEVER:
            return NEVER
        if self._period_ns == 0:
            return self._since_ns + self._bound_ns
        if self._began_ns < 0:
            return self._since_ns
        return max(self._since_ns, self._began_ns + self._period_ns)

    def began(self, waiting: i64, came: i64, now_ns: i64) -> None:
        """A round begins. So many messages came in the fastest column since the one before."""
        if 0 <= self._began_ns < now_ns:
            rate = float(came) / float(now_ns - self._began_ns)
            self._rate_ns += (rate - self._rate_ns) * _WEIGHT if self._rate_ns else rate
        self._began_ns = now_ns
        self._began_messages = waiting
        self._since_ns = NEVER

    def ended(self, released: i64) -> None:
        """A round has made so many of the messages stable that waited when it began."""
        if self._began_messages > 0:
            share = min(1.0, float(released) / float(self._began_messages))
            self._alpha += (share - self._alpha) * _WEIGHT
        self._began_messages = 0
