"""A member's clock: it starts at the time since 1970, and then runs on without being set.

Other machines read when a message was sent, so the clock has to start at the real time; but a clock
that is set while a member runs must not disturb its timers.
"""

import time
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

FOREVER: Final = (1 << 62) - 1
_TIMEOUT_S_MAX: Final = 1e9


@final
class Clock:
    """Tells the time in nanoseconds."""

    def __init__(self) -> None:
        self._epoch_ns: Final[i64] = time.time_ns() - time.monotonic_ns()
        # This is called for every message, and a field is found faster than a module's function.
        self._monotonic_ns: Final[Callable[[], int]] = time.monotonic_ns

    def now_ns(self) -> i64:
        """The time since 1970, but never set back or forward."""
        return self._monotonic_ns() + self._epoch_ns

    def until_ns(self, timeout: float | None) -> i64:
        """When so many seconds are over; None never is."""
        if timeout is None or timeout > _TIMEOUT_S_MAX:
            return FOREVER
        return self.now_ns() + i64(int(timeout * 1e9))
