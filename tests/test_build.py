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


# What the library must do without: everything that an extra brings, but for Hypothesis.
NOT_NEEDED = (
    *("click", "jinja2", "matplotlib", "numpy", "opentelemetry", "pandas", "prometheus_client"),
    *("pyarrow", "pyspark", "rich", "typer"),
)
BLOCKED = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None  # importing it is an ImportError from now on
"""
GROUP = """
import semcast
from semcast.testing import FakeNetwork
network = FakeNetwork(seed=1, loss=0.1)
a, b = (network.join("quotes", name=name, size=2, insecure=True) for name in "ab")
network.run(lambda: a.complete and b.complete)
a.send(b"101.25", replaces="AAPL")
network.run(lambda: b.waiting > 0)
print(b.receive_many()[0].payload.decode())
"""
ROUNDS = """
import semcast.blocking
try:
    semcast.blocking.join("quotes", size=1, insecure=True, interface="lo", stability="train")
except semcast.errors.ConfigError as error:
    print(error)
"""


def without_extras(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in an interpreter that has none of the extras."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=NOT_NEEDED) + code],
        capture_output=True, text=True, check=False, env=os.environ, timeout=120,
    )  # fmt: skip


def test_a_group_works_without_numpy_and_the_command_line() -> None:
    done = without_extras(GROUP)
    assert (done.stdout, done.stderr) == ("101.25\n", "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ROUNDS, "pip install 'semcast[rounds]'\n"),
        ("from semcast.__main__ import main; sys.exit(main())", "pip install 'semcast[cli]'\n"),
    ],
)
def test_what_needs_an_extra_says_which_in_one_line(code: str, said: str) -> None:
    done = without_extras(code)
    told = done.stdout + done.stderr
    assert told.endswith(said)
    assert told.count("\n") == 1


def test_the_command_line_pulls_in_no_extra() -> None:
    assert not modules_after("import semcast.cli") & {*EXTRAS, "cryptography"}
