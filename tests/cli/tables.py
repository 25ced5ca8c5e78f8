"""Whether tables are readable at 80 columns: commands are run under `watched`.

Then `assert_readable` looks at what they printed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from semcast.cli import _tables

WIDTH = 80


class Watched:
    """The tables that were printed, as they were given."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = []

    def assert_readable(self, out: str, whole: bool = True) -> None:
        """At least one table, no line too long, no word cut in two; `whole`: no table in pieces."""
        assert self.tables
        for line in out.splitlines():
            assert len(line) <= WIDTH, line
        printed = set(out.split())
        for title, columns, rows in self.tables:
            for text in (*columns, *(cell for row in rows for cell in row)):
                short = [word for word in text.split() if len(word) <= 40]
                assert printed.issuperset(short), f"{title}: {text!r} is cut in\n{out}"
        assert not whole or "(continued)" not in out, out


@contextmanager
def watched() -> Iterator[Watched]:
    """Commands within see a terminal of 80 columns."""
    found = Watched()
    fitted = _tables.fitted

    def watch(console: Any, title: str, columns: Sequence[str], rows: Any) -> Any:
        found.tables.append((title, columns, rows))
        return fitted(console, title, columns, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(WIDTH))
        patch.setattr(_tables, "fitted", watch)
        yield found
