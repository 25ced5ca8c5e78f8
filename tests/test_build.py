"""The package as a whole: which build runs, what importing it pulls in."""

import importlib.machinery
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import semcast.ids
import semcast.protocol.queue.buffer

ROOT = Path(__file__).parent.parent
EXTRAS = ("pyspark", "pandas", "pyarrow", "matplotlib", "starlette", "uvicorn", "hypothesis")


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    return {name.split(".")[0] for name in json.loads(run.stdout)}


def test_the_core_is_compiled_or_interpreted_as_a_whole() -> None:
    """A half-compiled core would be slow without anybody noticing."""
    endings = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    builds = {
        str(module.__file__).endswith(endings)
        for module in (semcast.ids, semcast.protocol.queue.buffer)
    }
    assert len(builds) == 1


def test_make_test_runs_the_build_that_it_says() -> None:
    """The interpreted run puts src first; otherwise the installed, compiled package is tested."""
    interpreted = str(ROOT / "src") in [str(Path(p).resolve()) for p in sys.path if p]
    assert str(semcast.ids.__file__).endswith(".py") == interpreted


@pytest.mark.parametrize("statement", ["import semcast", "import semcast.protocol"])
def test_importing_the_library_pulls_in_no_extra(statement: str) -> None:
    loaded = modules_after(statement)
    # numpy is loaded only by groups that have stability rounds.
    assert not loaded & {*EXTRAS, "typer", "rich", "cryptography", "numpy"}


def test_the_command_line_pulls_in_no_extra() -> None:
    assert not modules_after("import semcast.cli") & {*EXTRAS, "cryptography"}
