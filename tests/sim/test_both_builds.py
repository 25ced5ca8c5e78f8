"""The same seed gives the same journal, compiled and interpreted: users run what was explored."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = 12
# Prints which build ran, and a digest of the journal of each case.
DIGESTS = f"""
import hashlib, json
from semcast import ids
from semcast.sim.exploring.cases import case
from semcast.sim.world import run

found = []
for seed in range({CASES}):
    scenario = case(seed)
    journal = run(scenario, scenario.seed).journal
    digest = hashlib.sha256()
    for event in journal.events:
        digest.update(repr(event).encode())
    found.append([len(journal.events), digest.hexdigest()])
print(json.dumps({{"interpreted": ids.__file__.endswith(".py"), "found": found}}))
"""


def digests(python_path: str) -> dict[str, object]:
    env = {**os.environ, "PYTHONPATH": python_path, "PYTHONHASHSEED": "random"}
    if not python_path:
        del env["PYTHONPATH"]
    run = subprocess.run(
        [sys.executable, "-P", "-c", DIGESTS],
        capture_output=True,
        text=True,
        check=True,
        env=env,
        cwd=ROOT / "tests",
    )
    result: dict[str, object] = json.loads(run.stdout)
    return result


def test_a_case_goes_the_same_way_compiled_and_interpreted() -> None:
    installed = digests("")
    if installed["interpreted"]:
        pytest.skip("semcast is not installed compiled here")
    here = digests(str(ROOT / "src"))
    assert here["interpreted"]
    assert here["found"] == installed["found"]
