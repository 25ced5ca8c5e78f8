"""A title, tables and plots in; one HTML page out, with nothing to fetch."""

from collections.abc import Sequence
from typing import TypeAlias

from semcast.report.figures import Plot, draw, require_report

# Of each table: its title, its columns, and rows of text.
Tables: TypeAlias = Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]


def page(title: str, tables: Tables, plots: Sequence[Plot], words: Sequence[str] = ()) -> str:
    """The page. `words` are sentences that stand above everything else."""
    require_report()
    import jinja2

    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("semcast.report", "."),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    return pages.get_template("page.html").render(
        title=title, words=words, tables=tables, drawings=[draw(plot) for plot in plots]
    )
