"""DuckDB's own virtual environment, `.venv-bench`: made and filled here, never touching .venv."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
VENV: Final = ROOT / ".venv-bench"
PYTHON: Final = VENV / "bin" / "python"
CONSTRAINTS: Final = Path(__file__).resolve().parent / "constraints.txt"
_INSTALL_S_MAX: Final = 600
_REASON_MAX: Final = 160
_VERSION: Final = "import duckdb; print(duckdb.__version__)"


def wanted_version() -> str:
    """The version that is measured, from constraints.txt."""
    return CONSTRAINTS.read_text().strip().removeprefix("duckdb==")


def version() -> str | None:
    """What is installed there, if anything."""
    if not PYTHON.exists():
        return None
    done = subprocess.run([PYTHON, "-c", _VERSION], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def prepare(say: Callable[[str], None]) -> str:
    """Make the environment and install DuckDB; the reason why not, or an empty string."""
    if version() == wanted_version():
        return ""
    say("making .venv-bench, with DuckDB ...")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        [*pip, "-c", str(CONSTRAINTS), "duckdb"],
    )
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_INSTALL_S_MAX
            )
        except subprocess.TimeoutExpired:
            return f"not installed: it took more than {_INSTALL_S_MAX} s"
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = lines[-1] if lines else f"{command[2]} failed"
            return f"not installed: {reason.removeprefix('ERROR: ')}"[:_REASON_MAX]
    # As newer versions of Python do by themselves: nothing here is anybody's to commit.
    (VENV / ".gitignore").write_text("*\n")
    return ""
