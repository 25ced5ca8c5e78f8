"""Whole processes with sessions of their own, for what the shared session must not go through."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Long enough beside busy processes: who waits so long waits for something that hangs.
RUN_S_MAX: Final = 1200.0


def environment(temporary: Path) -> dict[str, str]:
    """Ours, with a temporary folder whose contents a test can look at."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    absolute = os.pathsep.join(str(Path(p).resolve()) for path in paths for p in path.split(":"))
    return {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": absolute}


def run_python(*arguments: str, temporary: Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(temporary),
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


def without_progress(errors: str) -> str:
    """What was written to stderr but for lines that say how far a long job is."""
    return re.sub(r"(?m)^semcast: .*: \d+ s, (planning|stage .*)\n", "", errors)


def run_until_interrupted(
    arguments: Sequence[str], folder: Path, temporary: Path, cwd: Path
) -> "subprocess.CompletedProcess[str]":
    """Send SIGINT once two tasks say that they started."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(temporary),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + RUN_S_MAX
        while len(list(folder.glob("started-*"))) < 2 and process.poll() is None:
            assert time.monotonic() < deadline, "the tasks never started"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=RUN_S_MAX)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)
