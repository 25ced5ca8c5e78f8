"""A member's clock: the time since 1970 when it begins, and then one that nobody sets.

Times tell when a message was sent, on other machines too; but a clock that is set must not disturb
timers.
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
        # Held here, since it is asked for every message.
        self._monotonic_ns: Final[Callable[[], int]] = time.monotonic_ns

    def now_ns(self) -> i64:
        """The time since 1970, but never set back or forward."""
        return self._monotonic_ns() + self._epoch_ns

    def until_ns(self, timeout: float | None) -> i64:
        """When so many seconds are over; None never is."""
        if timeout is None or timeout > _TIMEOUT_S_MAX:
            return FOREVER
        return self.now_ns() + i64(int(timeout * 1e9))
