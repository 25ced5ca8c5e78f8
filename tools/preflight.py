"""Say in one line each what this machine lacks, and which Debian package brings it."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PYTHON_MIN = (3, 11)
JAVA_MIN = 17


def java_version() -> int | None:
    """The major version of the Java that Spark would start (JAVA_HOME's, else PATH's), or None."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)  # Java 8 called itself 1.8
    return int(found.group(1)) if found else None


def java_problem() -> str | None:
    """What `make demo` and `make test` will stop at; everything without Spark goes on."""
    version = java_version()
    if version is not None and version >= JAVA_MIN:
        return None
    home = os.environ.get("JAVA_HOME")
    where = f"in JAVA_HOME={home}" if home else "on the path"
    was = f"not found {where}" if version is None else f"{where} is version {version}"
    return (
        f"Java {JAVA_MIN} or newer is needed for Spark, so for make demo and make test; "
        f"java {was}: apt-get install openjdk-17-jre-headless"
    )


def problems() -> list[str]:
    """What stops the set-up."""
    found = []
    if sys.version_info < PYTHON_MIN:
        found.append(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: "
            "apt-get install python3 (Debian 12 or newer), or make PYTHON=python3.11"
        )
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        found.append("Python cannot make virtual environments: apt-get install python3-venv")
    if not (shutil.which("cc") or shutil.which("gcc")):
        found.append("no C compiler found: apt-get install gcc libc6-dev")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        found.append("Python.h not found: apt-get install python3-dev")
    return found


def main() -> int:
    note = java_problem()
    if note is not None:
        print(f"semcast: note: {note}", file=sys.stderr)
    found = problems()
    for line in found:
        print(f"semcast: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
