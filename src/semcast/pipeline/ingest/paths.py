"""Paths as Spark wants them: with a scheme, and with no letter that it takes for a pattern."""

import re
from pathlib import Path


def to_read(path: Path) -> str:
    """A path to read. Spark reads patterns, so what would be one in a name is escaped."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", to_write(path))


def to_write(path: Path) -> str:
    """An absolute path with its scheme, whatever the cluster's default file system is."""
    return f"file://{path.absolute()}"
