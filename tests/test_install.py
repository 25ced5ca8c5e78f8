"""Setting up says how far it is, and brings no more than was asked for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tools.install import Progress
from tools.requirements import of_extra

ROOT = Path(__file__).parents[1]
# Packages that only tests, checks and docs need.
TOOLS = {"furo", "hypothesis", "import-linter", "matplotlib", "pytest", "ruff", "simpy", "sphinx"}


def test_what_is_large_is_told_with_its_size_and_the_rest_is_counted() -> None:
    progress = Progress("setting up")
    said = [
        progress.note(line)
        for line in (
            "WARNING: something that nobody needs to know",
            "Collecting rich>=14",
            "  Downloading rich-15.0.0-py3-none-any.whl (243 kB)",
            "Collecting pyspark==4.3.0",
            "  Downloading https://x.org/a/pyspark-4.3.0.tar.gz (434.2 MB)",
            "Building wheels for collected packages: pyspark",
            "  Building wheel for pyspark (pyproject.toml): started",
            "  Building wheel for pyspark (pyproject.toml): still running...",
            "Installing collected packages: py4j, rich, pyspark",
        )
    ]
    assert [one for one in said if one] == [
        "fetching pyspark 4.3.0, 434.2 MB", "building pyspark", "installing 3: py4j, rich, pyspark",
    ]  # fmt: skip
    assert progress.packages == 2


def test_if_pip_fails_all_that_it_said_is_shown() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "install.py"), "Trying", "--no-such-option"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout.startswith("Trying ...\n")
    assert "FAILED" in done.stdout.splitlines()[-1]
    assert "no such option" in done.stderr


def names(*extras: str) -> set[str]:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [line for extra in extras for line in of_extra(whole, extra)]
    return {re.split(r"[\[<>=]", line)[0] for line in lines}


def test_the_demo_is_set_up_without_tools() -> None:
    makefile = (ROOT / "Makefile").read_text()
    asked = re.search(r"pyproject\.toml (.*) > \$\(VENV\)/requirements\.txt", makefile)
    assert asked is not None
    assert names(*asked[1].split()).isdisjoint(TOOLS)
    assert names("dev") > TOOLS
    assert re.search(r"^demo: setup ", makefile, re.MULTILINE)
    assert re.search(r"^setup: \$\(VENV\)/\.installed ", makefile, re.MULTILINE)


def test_an_extra_that_names_others_has_what_they_have() -> None:
    assert names("spark") < names("spark-connect") < names("dev")
    assert not any("[" in name for name in names("dev"))
