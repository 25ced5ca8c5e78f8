"""Tables that a benchmark measured go into a page of the docs, between two marks.

What people wrote before and after the marks stays. A file without marks is written anew.
"""

from pathlib import Path
from typing import Final

END: Final = "<!-- measured: end -->"


def mark_of(command: str) -> str:
    """The line before the tables: it names the command that writes them."""
    return f"<!-- measured: begin (written by {command}) -->"


def write_between(path: Path, begin: str, text: str) -> None:
    """Put the text between the marks, or into a file of its own."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = old.partition(begin)
    _, end, after = rest.partition(END)
    marked = f"{begin}\n\n{text.strip()}\n\n{END}"
    whole = before + marked + after if found and end else f"{marked}\n"
    path.write_text(whole, encoding="utf-8")
