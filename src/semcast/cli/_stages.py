"""What a long command is doing: one plain line on stderr as each of its stages begins.

The lines are the same on a terminal, in a pipe and in a log: no control characters, and each is
written at once.
"""

import sys
import time
from typing import Final


class Stages:
    """So many stages, each named as it begins."""

    def __init__(self, count: int) -> None:
        self._count: Final = count
        self._begun = 0
        self._began_s: Final = time.monotonic()

    def begin(self, what: str) -> None:
        """Say which stage begins."""
        assert self._begun < self._count
        self._begun += 1
        self._print(f"{self._begun}/{self._count} {what}")

    def end(self) -> None:
        """Say that all is done."""
        self._print("done")

    def _print(self, what: str) -> None:
        elapsed_s = time.monotonic() - self._began_s
        print(f"semcast: {elapsed_s:3.0f} s: {what}", file=sys.stderr, flush=True)
