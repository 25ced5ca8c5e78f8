"""Commands side by side, three at a time for two cores: python tools/together.py "COMMAND" ...

Each line is shown as soon as it is whole, behind the last word of its command, so that it is in the
record whatever becomes of the rest. Then comes how each command ended; and for those that failed
their last lines and, at the very end, the tests that failed and why: records are often cut to their
end. Fails if any of them does. Ctrl-C reaches all, and so does an end from outside (SIGTERM), of
which the same is told.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from types import FrameType

# One more than cores: some of what runs here mostly waits.
LANES = 3
LOOK_S = 0.2
TAIL_LINES = 100
REASON_CHARACTERS = 300
# What pytest says of each test that did not pass, and make of each target.
FAILED = re.compile(r"(FAILED|ERROR) \S|make.*: \*\*\* ")

_printing = threading.Lock()


def say(line: str) -> None:
    with _printing:
        print(line, flush=True)


class Stream:
    """One command, and what it said last."""

    def __init__(self, command: str) -> None:
        self.command = shlex.split(command)
        self.name = self.command[-1]
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.failed: list[str] = []
        self.code: int | None = None  # None before its end
        self._took_s = 0.0
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._stopping = threading.Lock()

    def run(self) -> None:
        """Run it to its end, and show what it says.

        It writes to a file: a pipe would stay open as long as any process that it left behind.
        """
        began_s, seen = time.monotonic(), 0
        with tempfile.TemporaryFile() as output:
            with self._stopping:
                if self._stopped:
                    return
                self._process = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
            code = None
            while code is None:
                time.sleep(LOOK_S)
                code = self._process.poll()
                while more := os.pread(output.fileno(), 1 << 20, seen):
                    seen += len(more)
                    self._note(more)
        with self._stopping:
            if not self._stopped:
                self._took_s = time.monotonic() - began_s
                self.code = abs(code)

    def _note(self, more: bytes) -> None:
        *lines, self._rest = (self._rest + more).split(b"\n")
        for line in (one.decode(errors="replace") for one in lines):
            self.tail.append(line)
            if FAILED.match(line):
                self.failed.append(line[:REASON_CHARACTERS])
            say(f"{self.name}| {line}")

    def stop(self) -> None:
        """It did not end, or did not even start: what becomes of it from now on is our doing."""
        with self._stopping:
            self._stopped = True
            if self._process is not None and self.code is None:
                self._process.terminate()

    @property
    def ended(self) -> str:
        if self.code is None:
            return "did not end"
        how = "passed" if self.code == 0 else f"FAILED (exit code {self.code})"
        return f"{how} in {self._took_s:.0f} s"

    @property
    def last_lines(self) -> list[str]:
        return [*self.tail, self._rest.decode(errors="replace")]


def work(streams: Sequence[Stream]) -> None:
    """Run all, each as soon as one of the lanes is free."""
    waiting = deque(streams)

    def lane() -> None:
        while waiting:
            waiting.popleft().run()

    lanes = [threading.Thread(target=lane, daemon=True) for _ in range(LANES)]
    for one in lanes:
        one.start()
    for one in lanes:
        one.join()


def tell(streams: Sequence[Stream]) -> None:
    """How all ended; what failed comes last."""
    bad = [one for one in streams if one.code != 0]
    for one in bad:
        say(f"\n== {one.name} {one.ended}; its last lines:")
        for line in one.last_lines:
            say(line)
    say("")
    for one in streams:
        say(f"== {one.name} {one.ended}")
    for one in bad:
        for line in one.failed:
            say(f"{one.name}: {line}")


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(commands: Sequence[str]) -> int:
    """Run them all; says how that ended."""
    streams = [Stream(command) for command in commands]
    signal.signal(signal.SIGTERM, _end)
    try:
        work(streams)
    except (KeyboardInterrupt, SystemExit):
        for one in streams:
            one.stop()
        tell(streams)
        raise
    tell(streams)
    return 0 if all(one.code == 0 for one in streams) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
