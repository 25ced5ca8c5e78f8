"""Tables that a benchmark measured go into a page of the docs, between two marks.

What people wrote before and after the marks stays. A page that has no marks is left alone.
"""

from pathlib import Path
from typing import Final

END: Final = "<!-- measured: end -->"


def mark_of(command: str) -> str:
    """The line before the tables: it names the command that writes them."""
    return f"<!-- measured: begin (written by {command}) -->"


def refused(path: Path, begin: str) -> str:
    """Why a page cannot be written between these marks; nothing if it can."""
    if not path.exists():
        return ""
    _, found, rest = path.read_text(encoding="utf-8").partition(begin)
    if found and END in rest:
        return ""
    return f"{path} has no marks; put these lines where the table belongs:\n{begin}\n{END}"


def write_between(path: Path, begin: str, text: str) -> None:
    """Put the text between the marks, or into a file of its own if there is none."""
    why_not = refused(path, begin)
    if why_not:
        raise ValueError(why_not)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, _, rest = old.partition(begin)
    after = rest.partition(END)[2] if old else "\n"
    path.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{END}{after}", encoding="utf-8")
