"""A lock that no thread can keep to itself: every thread that asks for it has it in the end.

A plain lock goes to whoever asks at the right moment, and that is nearly always the thread that has
just let go of it: a loop of sends would shut out everybody else for as long as it goes on. To hand
the lock on each time would be fair, and slow, since every hand-over is a change of threads. So a
thread competes for a moment first, and then holds the queue: whoever comes while somebody holds the
queue waits behind it.
"""

import threading
from collections.abc import Callable
from typing import Final, final

# A caller that finds the lock taken competes for so long before it makes others queue behind it. So
# busy threads have the lock for about so long at a time.
COMPETES_S: Final = 0.0005


@final
class FairLock:
    """Not reentrant, as a plain lock."""

    def __init__(self) -> None:
        self._pressed = False
        self._make()

    def _make(self) -> None:
        self._lock = threading.Lock()
        # Held by the thread that is next; `_pressed` says the same and is faster to look at.
        self._queue = threading.Lock()
        # These are called for every message, and a field is found faster than a method.
        self._acquire: Callable[[], object] = self._lock.acquire
        self._release: Callable[[], object] = self._lock.release
        self._locked: Callable[[], bool] = self._lock.locked

    def acquire(self) -> None:
        """Take the lock. If it is taken, compete for it for a moment, and then insist."""
        if self._pressed or self._locked():
            if self._pressed or not self._lock.acquire(True, COMPETES_S):
                self._press()
        else:
            # Mostly it is free. If another thread is quicker after all, which is rare, this one
            # competes for as long as it takes: a call that can time out would be slower.
            self._acquire()

    def insist(self) -> None:
        """Take the lock before a thread that has just had it: for threads that were woken to do
        what others wait for.
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
        """In a forked child the threads that had the lock, or waited for it, do not exist."""
        self._pressed = False
        self._make()

    def __enter__(self) -> "FairLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
