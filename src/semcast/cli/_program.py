"""Spells our commands the way that the user of this process has to type them.

After `make demo` there is `.venv/bin/semcast` and no `semcast` on the path, so a hint that says
`semcast verify` would not work as printed. Texts are written with `semcast`, and spelled here.
"""

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Final

PROGRAM: Final = "semcast"


def program() -> str:
    """What to type for this program: its name if the path leads to it, else how it was started."""
    started = Path(sys.argv[0])
    if started.stem != PROGRAM:
        return PROGRAM  # another program runs our commands, and knows how
    found = shutil.which(PROGRAM)
    if found is not None and started.exists() and Path(found).samefile(started):
        return PROGRAM
    return shlex.quote(str(started))


def spelled(text: str) -> str:
    """A text for people, in which every command of ours is written as it has to be typed."""
    name = program()
    return text if name == PROGRAM else _commands().sub(lambda _: f"{name} ", text)


@cache
def _commands() -> re.Pattern[str]:
    """Matches our name before one of our commands; elsewhere it is a word like others."""
    from semcast.cli import app  # which imports whoever asks

    groups = [one.name for one in app.registered_groups]
    names = [one.name for one in app.registered_commands] + groups
    return re.compile(rf"(?<![\w./-]){PROGRAM} (?=(?:{'|'.join(filter(None, names))})\b)")
