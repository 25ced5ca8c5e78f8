"""Files with a group's secret: a path goes in; the secret comes out, and a warning if others can
read the file, too.

Whoever has the secret is a member, so a file that other users of the machine can read is a hole
that nothing else in semcast closes.
"""

import logging
import os
import shlex
import stat
from pathlib import Path
from typing import Final

from semcast.errors import InputError

log: Final = logging.getLogger("semcast")

SECRET_BYTES_MAX: Final = 4096
_OTHERS: Final = (("its group", stat.S_IRGRP), ("everybody", stat.S_IROTH))
# Each file is warned of once in the life of a process.
_warned: Final[set[Path]] = set()


def read_secret(path: Path) -> str:
    """The secret in a file, without the end of its line."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(SECRET_BYTES_MAX + 1).decode().strip()
    except OSError as error:
        raise InputError(f"cannot read the secret from {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(
            f"the secret in {path} is not text; `semcast keys new FILE` makes one"
        ) from None
    if not text:
        raise InputError(f"{path} is empty; make a file with a secret: semcast keys new FILE")
    _warn_if_others_read(path, found)
    return text


def write_secret(path: Path, text: str) -> None:
    """A new file that only its owner can read; one that is there already is never overwritten."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} is there already, and a secret that is overwritten is lost; "
            "give another name, or remove it"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write the secret to {path}: {error.strerror}") from None
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def warn_if_others_read(path: Path) -> None:
    """Say so, once, if somebody else than its owner can read this file, which holds a secret."""
    try:
        found = path.stat()
    except OSError:
        return  # whoever reads it says why it cannot be read
    _warn_if_others_read(path, found)


def _warn_if_others_read(path: Path, found: os.stat_result) -> None:
    # A pipe, a terminal or /dev/stdin is not kept anywhere; and Windows has other permissions.
    if os.name != "posix" or not stat.S_ISREG(found.st_mode):
        return
    who = [name for name, bit in _OTHERS if found.st_mode & bit]
    where = path.absolute()
    if not who or where in _warned or _is_borrowed(where):
        return
    _warned.add(where)
    text, about = "%s holds a secret and %s can read it; do: chmod 600 %s", str(path)
    extra = {"semcast": {"kind": "secret_readable", "path": about}}
    log.warning(text, path, " and ".join(who), shlex.quote(about), extra=extra)


def _is_borrowed(path: Path) -> bool:
    """Whether this is a name for a file that a shell has opened for us, as /dev/fd/63 is."""
    return path.parts[1:2] in (("dev",), ("proc",))
