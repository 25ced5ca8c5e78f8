"""What `ingest`, `profile`, `plan` and `replay` share: how to read a trace's files, whether it is
one stream or one of each sender, and how to say what was bad.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from semcast.pipeline.ingest.inputs import TraceOptions

ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="OURS=THEIRS",
        help="What the file calls a column, as in time_s=ts,key=symbol; may be repeated.",
    ),
]
TimeUnitOption = Annotated[
    str, typer.Option("--time-unit", metavar="UNIT", help="Of its times: s, ms, us, ns or iso.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="csv, json or parquet; without it, by the file's name."
    ),
]
# All three have the same option, so that what one says of a trace holds for the others.
PerSenderOption = Annotated[
    bool,
    typer.Option(
        "--per-sender/--one-stream",
        help="Each sender of the trace is a member of its own; or the trace is one stream, which "
        "one member sends.",
    ),
]


def trace_options(columns: list[str] | None, time_unit: str, kind: str | None) -> "TraceOptions":
    """The three options as one; raises InputError for what makes no sense."""
    from semcast.pipeline.ingest.inputs import (
        TraceOptions,
        parse_columns,
        parse_format,
        parse_time_unit,
    )

    return TraceOptions(
        parse_columns(columns or ()), parse_time_unit(time_unit), parse_format(kind)
    )


def warn_of_rows(what: str, rejected: Mapping[str, int], times_back: int) -> None:
    """Say on stderr what is wrong with rows, one line for each kind of wrong."""
    for reason, rows in sorted(rejected.items(), key=lambda one: -one[1]):
        _warn(f"{what}: {rows:,} bad rows left out: {reason}")
    if times_back:
        _warn(
            f"{what}: {times_back:,} rows have a time before that of the row above; "
            "they keep their place"
        )


def _warn(text: str) -> None:
    print(f"semcast: warning: {text}", file=sys.stderr)
