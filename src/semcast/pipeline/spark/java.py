"""Which Java would Spark start, and is it new enough? Asked before Spark is, for one clear line.

Spark itself answers a missing or old Java with pages of stack traces.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from semcast.errors import PipelineError

JAVA_MIN: Final = 17
_MEND: Final = (
    "install it (Debian: apt-get install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one that is there"
)
_ANSWER_S_MAX: Final = 30.0
# 'openjdk version "17.0.15" 2025-04-15'; Java 8 called itself 1.8.
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


def require_java(environ: Mapping[str, str] = os.environ) -> str:
    """What `java -version` calls itself, if it is one that Spark can use."""
    path = _path(environ)
    answer = _ask(path)
    found = _VERSION.search(answer)
    if found is None:
        raise PipelineError(f"{path} does not say its version; Spark needs Java: {_MEND}")
    major = int(found.group(1))
    if major < JAVA_MIN:
        raise PipelineError(f"Java {major} at {path} is too old for Spark; {_newer()}")
    return " ".join(answer.split())


def _newer() -> str:
    return f"it needs Java {JAVA_MIN} or newer: {_MEND}"


def _path(environ: Mapping[str, str]) -> str:
    """As Spark looks for it: JAVA_HOME first, then PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not path.is_file():
            raise PipelineError(f"JAVA_HOME is {home}, but there is no {path}; {_newer()}")
        return str(path)
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise PipelineError(f"Java not found; Spark cannot start without: {_newer()}")
    return found


def _ask(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_S_MAX,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PipelineError(f"{path} does not start ({error}); {_newer()}") from error
    return done.stderr
