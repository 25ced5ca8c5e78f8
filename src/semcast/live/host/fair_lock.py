"""A lock that nobody can keep to itself: callers in, one at a time, and everybody in the end.

A plain lock goes to whoever asks at the right moment, and that is nearly always the thread that has
just let go of it: a loop of sends would shut out everybody else for as long as it goes on. To hand
the lock on each time would be fair, and slow, since every hand-over is a change of threads. So a
thread competes for a moment first, and then holds the queue: whoever comes while somebody holds the
queue waits behind it.
"""

import threading
from collections.abc import Callable
from typing import Final, final

# How long a caller that finds the lock taken competes before it makes the others wait. So threads
# that are all busy have the lock for about so long at a time.
COMPETES_S: Final = 0.0005


@final
class FairLock:
    """Not reentrant, as a plain lock."""

    def __init__(self) -> None:
        self._pressed = False
        self._make()

    def _make(self) -> None:
        self._lock = threading.Lock()
        # Held by the one who is next; `_pressed` says so, for it is faster to look at.
        self._queue = threading.Lock()
        # Held here, since they are called for every message.
        self._acquire: Callable[[], object] = self._lock.acquire
        self._release: Callable[[], object] = self._lock.release
        self._locked: Callable[[], bool] = self._lock.locked

    def acquire(self) -> None:
        """Have the lock; compete for it if it is taken, and insist after a moment."""
        if self._pressed or self._locked():
            if self._pressed or not self._lock.acquire(True, COMPETES_S):
                self._press()
        else:
            # Mostly it is free. If another thread is quicker after all, this one competes for as
            # long as it takes: to ask so that one can insist takes longer, and this is rare.
            self._acquire()

    def insist(self) -> None:
        """Have the lock before anybody who has just had it: for those who were woken for work that
        others wait for.
        """
        if self._pressed or not self._lock.acquire(False):
            self._press()

    def _press(self) -> None:
        self._queue.acquire()
        try:
            self._pressed = True
            self._lock.acquire()
        finally:
            self._pressed = False
            self._queue.release()

    def release(self) -> None:
        """Let go of it."""
        self._release()

    def locked(self) -> bool:
        """Whether anybody has it."""
        return self._locked()

    def renew(self) -> None:
        """In a forked child: whoever had the lock, or waited for it, is not there."""
        self._pressed = False
        self._make()

    def __enter__(self) -> "FairLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
