"""A file descriptor that becomes readable when somebody says so: to end a wait from elsewhere."""

import contextlib
import os


class Waker:
    """Whoever waits for it to become readable is woken."""

    def __init__(self) -> None:
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
        # It is readable already, or closed: fine.
        with contextlib.suppress(OSError):
            os.write(self._write, b"\1\0\0\0\0\0\0\0")

    def clear(self) -> None:
        """Make it unreadable again."""
        # Nobody woke it, or it is closed: fine.
        with contextlib.suppress(OSError):
            os.read(self._read, 8)

    def close(self) -> None:
        """Let go of it."""
        for fileno in {self._read, self._write}:
            os.close(fileno)
