"""Watching: when messages came goes in; when to be awake for the next one comes out.

To fall asleep and to be woken takes longer than to receive a message, and longer still where a
processor that has nothing to do is taken away by a hypervisor. Whoever waits where messages mostly
come soon, or at regular times, therefore stays awake, or wakes up in time, and watches the sockets;
but only for a while, and as long as nobody else wants its processor.
"""

import os
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER, Clock
from semcast.live.host.rhythm import Confidence, Rhythm

# A call that only lets others go first and takes longer than this has let somebody.
ALONE_NS: Final = 5_000


@final
class Watch:
    """Of one who waits, and is awake for `short_ns` of a wait at the most."""

    def __init__(self, short_ns: i64, clock: Clock) -> None:
        self._short_ns: Final[i64] = short_ns
        self._clock: Final = clock
        self._soon: Final = Confidence()
        self._rhythm: Final = Rhythm(short_ns // 2)

    def came(self, wait_ns: i64, now_ns: i64) -> None:
        """A message came after so long a wait."""
        if self._short_ns == 0:
            return  # whatever is learned, nobody may be awake for it
        self._soon.learn(wait_ns <= self._short_ns)
        self._rhythm.came(now_ns)

    def begins_ns(self, now_ns: i64) -> i64:
        """From when on it pays to be awake in a wait that begins now; FOREVER if it does not."""
        if self._soon.enough:
            return now_ns
        next_ns = self._rhythm.next_ns(now_ns)
        return max(now_ns, next_ns - self._short_ns) if next_ns < FOREVER else FOREVER

    def watch(self, look: Callable[[], list[int]], now_ns: i64, until_ns: i64) -> list[int]:
        """What there is to be seen, if it is soon; nothing if it is not, or somebody else wants
        the processor.
        """
        until_ns = min(until_ns, now_ns + self._short_ns)
        alone = True
        while True:
            ready = look()
            now_ns = self._clock.now_ns()
            if ready or not alone or now_ns >= until_ns:
                return ready
            os.sched_yield()
            alone = self._clock.now_ns() - now_ns < ALONE_NS
