"""Say in one line each what this machine lacks, and which Debian package brings it."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PYTHON_MIN = (3, 11)
JAVA_MIN = 17


def java_version() -> int | None:
    """The major version of the Java on PATH, or None."""
    if shutil.which("java") is None:
        return None
    text = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    return int(found.group(1)) if found else None


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
    version = java_version()
    if version is None or version < JAVA_MIN:
        was = "not found" if version is None else f"is version {version}"
        # Only the Spark pipeline needs it, so everything else goes on.
        print(
            f"semcast: note: Java {JAVA_MIN} or newer is needed for Spark; java {was}: "
            "apt-get install openjdk-17-jre-headless",
            file=sys.stderr,
        )
    found = problems()
    for line in found:
        print(f"semcast: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
