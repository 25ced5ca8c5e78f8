"""Run pytest; what failed runs once more, by itself: python tools/twice.py ARGUMENTS OF PYTEST

For tests on real clocks and sockets, which a machine that is busy with other things may fail. A
test that fails twice has failed. One that passes the second time is named, because it has a defect
all the same: it must not depend on how busy the machine is.
"""

import subprocess
import sys
import tempfile

FAILED = 1  # pytest's code for "tests were run, and some failed"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="semcast-tests-") as cache:
        words = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
        code = subprocess.call(words)
        if code != FAILED:
            return code
        print("== What failed runs once more, by itself", flush=True)
        code = subprocess.call([*words, "--last-failed", "--last-failed-no-failures=none"])
    if code == 0:
        print("== PASSED ONLY THE SECOND TIME: mend what is listed above as FAILED", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
