"""`semcast profile`: a trace in; who replaces whom how far back, how often and how fast, out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_opener
from semcast.cli._trace import (
    ColumnOption,
    FormatOption,
    PerSenderOption,
    TimeUnitOption,
    trace_options,
    warn_of_rows,
)

if TYPE_CHECKING:
    from semcast.pipeline.profiling.summary import TrafficProfile


def profile(
    trace: Annotated[
        str,
        typer.Argument(
            help="CSV with a heading, JSON lines or Parquet (time_s, sender, key, kind, size; .gz "
            "too), a folder or pattern of them, what `semcast ingest` wrote, or a journal."
        ),
    ],
    per_sender: PerSenderOption = False,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAME", help="Which trace, or run, if there are several."),
    ] = None,
    window_s: Annotated[
        float, typer.Option("--window-s", help="How long a window is for rates and bursts.")
    ] = 1.0,
    pmf_out: Annotated[
        Path | None,
        typer.Option("--pmf-out", help="Write the pmf here, for `semcast model purge --pmf`."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with tables and plots here.")
    ] = None,
    column: ColumnOption = None,
    time_unit: TimeUnitOption = "s",
    kind: FormatOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """How far apart are messages and the ones they replace, how often, how fast, how large?

    Distances are counted in the whole stream, as for one member that sends all of it; with
    --per-sender in each sender's own sequence. `plan` and `replay` take a trace the same way.

    \b
    Example:
      semcast profile quotes.csv.gz --pmf-out quotes.json --html quotes.html
      semcast model purge --pmf quotes.json --buffer 64 --sender-rate 100 --receiver-rate 40
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.pipeline import profile as measure

    options = trace_options(column, time_unit, kind)
    if html is not None:
        from semcast.report.figures import require_report

        require_report()  # before the minutes that a large trace takes
    with spark_opener("profile", master, conf) as spark:
        found = measure(
            trace,
            only=only,
            per_sender=per_sender,
            window_s=window_s,
            options=options,
            spark=spark,
        )
    _write(found, pmf_out, html)
    if as_json:
        from semcast.pipeline.profiling.tables import as_json as object_of

        print_json(object_of(found))
    else:
        _print(found)
    warn_of_rows(found.name, found.rejected, found.times_back)


def _write(found: "TrafficProfile", pmf_out: Path | None, html: Path | None) -> None:
    if pmf_out is not None:
        pmf_out.write_text(json.dumps(found.pmf))
    if html is not None:
        from semcast.pipeline.profiling.tables import tables
        from semcast.report.profile_page import profile_page

        html.write_text(profile_page(found, tables(found)), encoding="utf-8")


def _print(found: "TrafficProfile") -> None:
    from semcast.pipeline.profiling.tables import tables

    for title, columns, rows in tables(found):
        print_table(title, columns, rows)
    # Bitmaps count in their sender's own sequence; a buffer holds the messages of all.
    room = "bitmap of N bits" if found.per_sender else "buffer of N messages"
    print_words(
        f"{found.never_replaced_share:.1%} are never replaced: every member must get those. "
        f"A {room} can purge at most the share of its row."
    )
    if found.by_number:
        print_words(
            f"{found.by_number:,} messages replace others by number, not by key: "
            "their distances are not counted."
        )
