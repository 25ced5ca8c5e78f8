"""The tests run the same whoever starts them: `tests/conftest.py` undoes what is inherited."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOOK = """
import json, os, signal
from tests import conftest
numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
print(json.dumps({
    "ignored": [n for n in numbers if signal.getsignal(n) == signal.SIG_IGN],
    "blocked": [n for n in numbers if n in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "ctrl_c_raises": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "left": [n for n in os.environ if n in ("FORCE_COLOR", "COLUMNS", "SPARK_HOME")],
}))
"""


def hostile() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def test_nothing_that_a_caller_ignores_or_sets_is_left() -> None:
    given = {"FORCE_COLOR": "1", "COLUMNS": "40", "SPARK_HOME": "elsewhere"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=ROOT, env=os.environ | given, preexec_fn=hostile,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found == {"ignored": [], "blocked": [], "ctrl_c_raises": True, "left": []}
