"""Watching: how long waits were goes in; whether to spend the next one awake comes out.

To fall asleep and to be woken takes longer than to receive a message, and longer still where a
processor that has nothing to do is taken away by a hypervisor. Where messages mostly come soon,
whoever waits for one therefore stays awake for a while and watches the sockets; but only as long as
nobody else wants its processor.
"""

import os
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.live.clock import Clock

# A call that only lets others go first and takes longer than this has let somebody.
ALONE_NS: Final = 5_000
# A wait that was short counts one, a long one takes two away: to watch pays if two in three are
# short. So much, and there is no doubt; half of it, and it is worth a try.
_SURE: Final = 8
_LONG_COSTS: Final = 2

Events = list[tuple[int, int]]


@final
class Watch:
    """Of one who waits; a wait is short if it takes `short_ns` at the most."""

    def __init__(self, short_ns: i64, clock: Clock) -> None:
        self._short_ns: Final[i64] = short_ns
        self._clock: Final = clock
        self._worth: i64 = 0

    @property
    def pays(self) -> bool:
        """Whether the next wait is likely to be short."""
        return self._worth >= _SURE // 2

    def waited(self, wait_ns: i64) -> None:
        """Something came after so long."""
        if wait_ns <= self._short_ns:
            self._worth = min(self._worth + 1, _SURE)
        else:
            self._worth = max(self._worth - _LONG_COSTS, 0)

    def watch(self, look: Callable[[], Events], now_ns: i64, until_ns: i64) -> Events:
        """What there is to be seen, if it is soon; nothing if it is not, or somebody else wants
        the processor.
        """
        until_ns = min(until_ns, now_ns + self._short_ns)
        alone = True
        while True:
            events = look()
            now_ns = self._clock.now_ns()
            if events or not alone or now_ns >= until_ns:
                return events
            os.sched_yield()
            alone = self._clock.now_ns() - now_ns < ALONE_NS
