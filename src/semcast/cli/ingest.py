"""`semcast ingest`: traces and journals in, partitioned Parquet out, each file once."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table
from semcast.cli._spark import ConfOption, MasterOption, spark_session
from semcast.cli._trace import (
    ColumnOption,
    FormatOption,
    TimeUnitOption,
    trace_options,
    warn_of_rows,
)

if TYPE_CHECKING:
    from semcast.pipeline.ingest.inputs import TraceFile
    from semcast.pipeline.ingest.journals import JournalReport
    from semcast.pipeline.ingest.traces import FileReport


def ingest(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Trace files, folders or patterns, or folders of journals."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to fill.")],
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="NAME",
            help="Make all files one trace of this name, in the order given; "
            "without it each is one of its own.",
        ),
    ] = None,
    column: ColumnOption = None,
    time_unit: TimeUnitOption = "s",
    kind: FormatOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 if anything was bad.")
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put traces and journals into partitioned Parquet; what is there already is not added again.

    Bad rows are kept aside below _rejected/, each with the reason.

    \b
    Example:
      semcast ingest feed/*.csv.gz --out lake --trace feed --column time_s=ts,key=symbol
      semcast profile lake --only feed
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.pipeline.ingest.inputs import find_files
    from semcast.pipeline.ingest.journals import ingest_journals, journal_files

    options = trace_options(column, time_unit, kind)
    journals = [path for one in inputs for path in journal_files(Path(one))]
    others = [one for one in inputs if not journal_files(Path(one))]
    files: list[TraceFile] = find_files(others, options)
    reports: list[FileReport] = []
    if files:
        with spark_session("ingest", master, conf) as spark:
            from semcast.pipeline.ingest.traces import ingest_traces

            reports = ingest_traces(spark, files, out, options, trace)
    copied = ingest_journals(journals, out) if journals else []
    if as_json:
        print_json(_as_json(out, reports, copied))
    else:
        _print(out, reports, copied)
    for one in reports:
        warn_of_rows(str(one.path), one.rejected, one.times_back)
    for journal in copied:
        if journal.reason:
            warn_of_rows(f"{journal.path}: {journal.reason}", {"the whole file": 1}, 0)
    bad = any(one.rejected or one.times_back for one in reports) or any(
        journal.reason for journal in copied
    )
    return 1 if strict and bad else 0


def _as_json(
    out: Path, reports: "list[FileReport]", journals: "list[JournalReport]"
) -> dict[str, object]:
    reasons: Counter[str] = Counter()
    for one in reports:
        reasons.update(one.rejected)
    return {
        "out": str(out),
        "added_files": sum(one.added for one in reports) + sum(one.added for one in journals),
        "added_rows": sum(one.rows for one in reports),
        "rejected_rows": sum(reasons.values()),
        "rejected_by_reason": dict(reasons),
        "times_back_rows": sum(one.times_back for one in reports),
        "files": [
            {
                "file": str(one.path), "trace": one.trace, "source": one.source,
                "added": one.added, "rows": one.rows, "rejected_rows": sum(one.rejected.values()),
            }
            for one in reports
        ],
        "journals": [
            {
                "file": str(one.path), "run": one.run, "added": one.added, "events": one.events,
                "rejected": one.reason,
            }
            for one in journals
        ],
    }  # fmt: skip


def _print(out: Path, reports: "list[FileReport]", journals: "list[JournalReport]") -> None:
    rows = [
        (
            one.path.name, one.trace, "added" if one.added else "already there",
            f"{one.rows:,}", f"{sum(one.rejected.values()):,}",
        )
        for one in reports
    ] + [
        (
            one.path.name, one.run,
            "bad" if one.reason else "added" if one.added else "already there",
            f"{one.events:,}", "0",
        )
        for one in journals
    ]  # fmt: skip
    print_table(str(out), ["file", "trace or run", "", "rows added", "bad rows"], rows)
