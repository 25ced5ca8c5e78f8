"""A file descriptor that becomes readable when somebody says so: to end a wait from elsewhere."""

import contextlib
import os
import threading
from typing import Final

_CLOSED: Final = -1


class Waker:
    """Wakes a thread that waits for its descriptor, or naps on it."""

    def __init__(self) -> None:
        # Until when the thread that waits for it sleeps at most, as that thread said.
        self.sleeps_until_ns = 0
        self._bell: Final = threading.Lock()
        self._bell.acquire()
        if hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """What to wait on."""
        return self._read

    def wake(self) -> None:
        """Make it readable."""
        # An error means that it is readable already, or closed, and both are fine.
        with contextlib.suppress(OSError):
            os.write(self._write, b"\1\0\0\0\0\0\0\0")
        if self._bell.locked():
            with contextlib.suppress(RuntimeError):  # another thread was quicker
                self._bell.release()

    def wake_by(self, due_ns: int) -> None:
        """Wake the thread that waits for it, unless it is awake by then anyway."""
        if due_ns < self.sleeps_until_ns:
            self.sleeps_until_ns = due_ns
            self.wake()

    def nap(self, wait_ns: int) -> None:
        """Wait until it is woken, at most so long. This is exact to some microseconds, while a
        thread that polls the descriptor waits for whole milliseconds.
        """
        if self._bell.acquire(timeout=max(wait_ns, 0) / 1e9):
            self.clear()

    def clear(self) -> None:
        """Make it unreadable again."""
        # An error means that nobody woke it, or that it is closed, and both are fine.
        with contextlib.suppress(OSError):
            os.read(self._read, 8)

    def close(self) -> None:
        """Close the descriptors; harmless when repeated."""
        held = {self._read, self._write} - {_CLOSED}
        # A moment from now these numbers may be other files.
        self._read = self._write = _CLOSED
        for fileno in held:
            os.close(fileno)
