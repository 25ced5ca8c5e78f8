"""Titles, columns and rows of text in; tables that fit the terminal out, with no word cut in two.

A table that is too wide at its natural widths gets narrower gaps, and breaks headings and cells
between words. If that is not enough, it becomes several tables, each of which begins with the first
column, so that every row can still be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console, Group, JustifyMethod
    from rich.table import Table

# A longer word, such as a path, may be cut: otherwise it alone would not fit.
_WORD_MAX: Final = 40
# Between two columns: wide gaps with a margin around the table, or narrow ones without.
_WIDE_GAP: Final = 3
_WIDE_MARGIN: Final = 4
_NARROW_GAP: Final = 2


@dataclass(frozen=True)
class _Column:
    """A heading and its cells. `natural` is the width without a break, `least` the longest word."""

    heading: str
    cells: Sequence[str]

    @property
    def natural(self) -> int:
        return max(_width(text) for text in (self.heading, *self.cells))

    @property
    def least(self) -> int:
        words = [word for text in (self.heading, *self.cells) for word in text.split()]
        return min(_WORD_MAX, max((_width(word) for word in words), default=0))


def fitted(
    console: "Console", title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> "Group":
    """The table, or as many tables as it takes, no wider than the console.

    The first column names the row; the others are set to the right. A row may be too short.
    """
    from rich.console import Group

    made = [
        _Column(heading, [row[at] if at < len(row) else "" for row in rows])
        for at, heading in enumerate(columns)
    ]
    natural = [one.natural for one in made]
    if sum(natural) + _WIDE_GAP * (len(made) - 1) + _WIDE_MARGIN <= console.width:
        return Group(_table(title, made, natural, narrow=False))
    tables: list[Table | str] = []
    for part in _parts(made, console.width):
        name = f"{title} (continued)" if tables else title
        tables += [_table(name, part, _widths(part, console.width), narrow=True), ""]
    return Group(*tables)


def _parts(columns: list[_Column], width: int) -> list[list[_Column]]:
    """The columns in as many groups as needed, each with the first column and some others."""
    parts: list[list[_Column]] = [columns[:1]]
    for column in columns[1:]:
        part = [*parts[-1], column]
        needed = sum(one.least for one in part) + _NARROW_GAP * (len(part) - 1)
        if needed > width and len(part) > 2:
            parts.append([columns[0], column])
        else:
            parts[-1] = part
    return parts


def _widths(columns: list[_Column], width: int) -> list[int]:
    """What is left beyond the longest words goes to the names, then to all others in proportion."""
    wanted = [one.natural - one.least for one in columns]
    left = max(0, width - _NARROW_GAP * (len(columns) - 1) - sum(one.least for one in columns))
    first = min(wanted[0], left)
    rest = max(1, sum(wanted[1:]))
    share = min(left - first, rest)
    more = [first, *(want * share // rest for want in wanted[1:])]
    return [one.least + extra for one, extra in zip(columns, more, strict=True)]


def _table(title: str, columns: list[_Column], widths: list[int], narrow: bool) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=narrow,
        pad_edge=not narrow,
        show_edge=not narrow,
    )
    for at, (column, width) in enumerate(zip(columns, widths, strict=True)):
        justify: JustifyMethod = "right" if at else "left"
        table.add_column(Text(column.heading), justify=justify, width=width, overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
