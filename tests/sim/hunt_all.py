"""Hunt every broken variant from the first seed on: python -m tests.sim.hunt_all [--seconds 60]

`make test` hunts each from the seed on that is known to break it, and stops there. This goes on for
so long with each, and shows every run that breaks it and what that took: the quickest is the one to
name as `first` in the file of its family (`tests/sim/mutants.py`). Fails if one is caught by none.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sim import hunts
from tests.sim.mutants import MUTANTS
from tests.sim.test_mutants import command


def main() -> int:
    """Hunt all whose name has the given words; the exit code is 1 if one gets away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time, for each")
    parser.add_argument("--only", default="", help="variants whose name has these words")
    asked = parser.parse_args()
    free = []
    for mutant in (one for one in MUTANTS if asked.only in one.name):
        print(f"{mutant.name} (known: {mutant.first})", flush=True)
        with tempfile.TemporaryDirectory(prefix="semcast-hunt-") as folder:
            words, environment = command(mutant, Path(folder), 1)
            ended = subprocess.run([*words, str(asked.seconds)], env=environment, check=False)
        if ended.returncode != hunts.CAUGHT:
            free.append(mutant.name)
    for name in free:
        print(f"NOT CAUGHT: {name}")
    return 1 if free else 0


if __name__ == "__main__":
    sys.exit(main())
