"""Print the requirements of the package and the named extras from pyproject.toml, one a line."""

import sys
import tomllib
from pathlib import Path


def main(pyproject: str, *extras: str) -> None:
    project = tomllib.loads(Path(pyproject).read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    print("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
