"""Print the requirements of the package and of extras of it, one a line.

    python tools/requirements.py pyproject.toml EXTRA...

The extra "build" is what compiles the package. One that names another, as semcast[spark], has what
that one has.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def of_extra(whole: dict[str, Any], extra: str) -> Iterator[str]:
    project = whole["project"]
    extras = project["optional-dependencies"] | {"build": whole["build-system"]["requires"]}
    for line in extras[extra]:
        named = re.fullmatch(rf"{project['name']}\[(.+)\]", line)
        if named is None:
            yield line
        else:
            for other in named[1].split(","):
                yield from of_extra(whole, other)


def main(pyproject: str, *extras: str) -> None:
    whole = tomllib.loads(Path(pyproject).read_text())
    lines = list(whole["project"]["dependencies"])
    for extra in extras:
        lines += of_extra(whole, extra)
    print("\n".join(dict.fromkeys(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
