"""Run pip and show how far it is: python tools/install.py "WHAT IS DONE" ARGUMENTS OF PIP...

One line when it begins, one for everything large that is fetched, one every few seconds in which
nothing else was said, and one at the end. If pip fails, all that it said is shown.
"""

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

QUIET_S = 10.0
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
# What pip says of a file that it fetches or has: "Downloading pyspark-4.3.0.tar.gz (434.2 MB)".
FETCHED = re.compile(r"\s*(?:Downloading|Using cached) (\S+) \((\d\S* MB)\)")
COLLECTED = re.compile(r"Collecting (\S+)")
INSTALLING = re.compile(r"Installing collected packages: (.*)")
BUILDING = re.compile(r"\s*Building wheel for (\S+)")


class Progress:
    """What pip is at, from its own words."""

    def __init__(self, what: str) -> None:
        self.doing = what
        self.packages = 0

    def note(self, line: str) -> str:
        """What to show of a line; nothing, if it is no news."""
        before = self.doing
        if found := COLLECTED.match(line):
            self.packages += 1
            self.doing = f"package {self.packages}, {found[1]}"
            return ""
        if found := FETCHED.match(line):
            name, version, *_ = found[1].rpartition("/")[2].removesuffix(".tar.gz").split("-")
            self.doing = f"fetching {name} {version}, {found[2]}"
        elif found := BUILDING.match(line):
            self.doing = f"building {found[1]}"
        elif found := INSTALLING.match(line):
            self.doing = f"installing {found[1].count(',') + 1}: {found[1][:60]}"
        return self.doing if self.doing != before else ""


def read(output: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in output:
        lines.put(line)
    lines.put(None)


def install(what: str, arguments: Sequence[str]) -> int:
    """Run pip to its end; says how that ended."""
    began_s = time.monotonic()
    progress, said = Progress(what), []

    def show(text: str) -> None:
        print(f"  {time.monotonic() - began_s:4.0f} s  {text}", flush=True)

    print(f"{what} ...", flush=True)
    lines: queue.Queue[str | None] = queue.Queue()
    with subprocess.Popen(
        [*PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        threading.Thread(target=read, args=(pip.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=QUIET_S)
            except queue.Empty:
                show(f"still {progress.doing}" if progress.doing != what else "still at it")
                continue
            if line is None:
                break
            said.append(line)
            if text := progress.note(line):
                show(text)
    if pip.returncode:
        print("".join(said), end="", file=sys.stderr)
    show("done" if pip.returncode == 0 else "FAILED; what pip said is above")
    return pip.returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(install(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
