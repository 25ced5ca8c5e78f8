"""Write everything anew that follows from the table of settings: `make settings`.

In src and docs, what stands between a line `settings: NAME` and a line `end of settings` (comments
of Python or Markdown) is written here: fields of classes, typed arguments, tables. A test sees that
nothing is out of date, and says which part of which file is.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from semcast.settings import Place, Setting, at
from semcast.settings.setting import NAMES, Default

ROOT: Final = Path(__file__).parent.parent
_PART: Final = re.compile(
    r"(?P<first>^ *(?:#|<!--) settings: (?P<name>\w+)\b[^\n]*\n)(?P<old>.*?)"
    r"(?P<last>^ *(?:#|<!--) end of settings)",
    re.MULTILINE | re.DOTALL,
)


def fields_of(place: Place) -> list[str]:
    """The lines of a dataclass with all settings of a place."""
    return [
        f"{one.name_at(place)}: {type_text(one, place)}{_default(one, place)}" for one in at(place)
    ]


def arguments() -> list[str]:
    """The lines of the TypedDict for arguments, in which lists of names are of any kind."""
    given = [one for one in at(Place.GROUP) if one.default is not Default.REQUIRED]
    return [
        f"{one.name}: {'Names' if one.type == NAMES else type_text(one, Place.GROUP)}"
        for one in given
    ]


def rows(place: Place) -> list[str]:
    """The lines of a table for people."""
    lines = ["", "| setting | default | allowed | what |", "|---|---|---|---|"]
    for one in at(place):
        default = one.default_at(place)
        shown = default.value if isinstance(default, Default) else f"`{default!r}`"
        lines.append(f"| `{one.name}` | {shown} | {allowed(one)} | {one.says} |")
    return [*lines, ""]


def allowed(one: Setting) -> str:
    """What a setting may be, in words."""
    if not one.allowed:
        return ""
    if one.choices:
        return ", ".join(f"`{choice!r}`" for choice in one.choices)
    low, high = one.allowed
    return f"{low:,} to {high:,} {one.unit.replace('_', '/')}".strip()


def type_text(one: Setting, place: Place) -> str:
    """The annotation of a field."""
    in_other_unit = one.name_at(place) != one.name
    found = int if in_other_unit else one.types.get(place, one.type)
    name = found.__name__ if found in (bool, int, float, str) else str(found)
    return name.replace("collections.abc.", "")


def _default(one: Setting, place: Place) -> str:
    default = one.default_at(place)
    if default is Default.REQUIRED:
        return ""
    if default is Default.OWN_NAME:
        return " = field(default_factory=own_name)"
    if one.hidden:
        return f" = field(default={default!r}, repr=False)"
    if isinstance(default, str):
        return f' = "{default}"'
    return f" = {default:_}" if type(default) is int else f" = {default!r}"


PARTS: Final[dict[str, Callable[[], list[str]]]] = {
    "group": lambda: fields_of(Place.GROUP),
    "arguments": arguments,
    "member": lambda: fields_of(Place.MEMBER),
    "transport": lambda: fields_of(Place.TRANSPORT),
    "scenario": lambda: fields_of(Place.SCENARIO),
    "group_table": lambda: rows(Place.GROUP),
    "scenario_table": lambda: rows(Place.SCENARIO),
}


def parts(path: Path) -> Iterator[re.Match[str]]:
    """Every part of a file that is written here."""
    yield from _PART.finditer(path.read_text(encoding="utf-8"))


def lines_of(part: re.Match[str]) -> str:
    """What should stand in a part."""
    if part["name"] not in PARTS:
        sys.exit(f"settings: {part['name']} is unknown; known: {', '.join(PARTS)}")
    margin = part["first"][: -len(part["first"].lstrip(" "))]
    return "".join(f"{margin if line else ''}{line}\n" for line in PARTS[part["name"]]())


def files(root: Path) -> list[Path]:
    """The files that may have such parts."""
    return sorted([*root.glob("src/**/*.py"), *root.glob("docs/**/*.md")])


def write(root: Path) -> list[str]:
    """Write every part that is out of date; says which."""
    written = []
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        stale = [part for part in parts(path) if part["old"] != lines_of(part)]
        for part in reversed(stale):  # from the end: the places of the others stay where they are
            text = text[: part.start("old")] + lines_of(part) + text[part.end("old") :]
            written.append(f"{path.relative_to(root)}: settings: {part['name']}")
        if stale:
            path.write_text(text, encoding="utf-8")
    return written


if __name__ == "__main__":
    print("\n".join(write(ROOT)) or "nothing to do")
