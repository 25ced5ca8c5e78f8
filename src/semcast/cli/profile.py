"""`semcast profile`: a trace in; how far apart are messages and what they replace, out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.errors import InputError
from semcast.obsolescence import Profile, Profiler

if TYPE_CHECKING:
    from semcast.sim.trace import TraceRow

_DISTANCES = (1, 4, 16, 32, 64, 128, 256, 1024)


def profile(
    trace: Annotated[
        Path, typer.Argument(help="CSV with a heading (time_s,sender,key,kind,size), or .csv.gz.")
    ],
    per_sender: Annotated[
        bool,
        typer.Option(
            "--per-sender", help="Count distances in each sender's own sequence, as bitmaps do."
        ),
    ] = False,
    pmf_out: Annotated[
        Path | None,
        typer.Option("--pmf-out", help="Write the pmf here, for `semcast model purge --pmf`."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far apart are messages and the ones they replace, and how many are never replaced?

    \b
    Example:
      semcast profile quotes.csv.gz --pmf-out quotes.json
      semcast model purge --pmf quotes.json --buffer 64 --sender-rate 100 --receiver-rate 40
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    found = _profile(trace, per_sender)
    if pmf_out is not None:
        pmf_out.write_text(json.dumps(found.pmf))
    within = {str(x): found.share_within(x) for x in _DISTANCES}
    if as_json:
        print_json(
            {
                "messages": found.messages,
                "share_never_obsolete": found.share_never_obsolete,
                "purge_ratio_limit": 1 - found.pmf.get(0, 0.0),
                "share_replacing_within": within,
                "per_sender": per_sender,
            }
        )
        return
    rows = [(f"{x} messages", f"{share:.1%}") for x, share in within.items()]
    print_table(
        f"{trace.name}: {found.messages:,} messages", ["replaces one within", "share"], rows
    )
    print_words(
        f"{found.share_never_obsolete:.1%} are never replaced: every member must get those. "
        f"A buffer of N messages, and a bitmap of N bits, can purge at most the share of its row."
    )


def _profile(trace: Path, per_sender: bool) -> Profile:
    profilers: dict[str, Profiler] = {}
    for row in _with_progress(trace):
        name = row.sender if per_sender else ""
        profiler = profilers.get(name)
        if profiler is None:
            profiler = profilers[name] = Profiler()
        profiler.add(row.key or None)
    if not profilers:
        raise InputError(f"{trace}: no messages in it")
    profiles = [profiler.profile() for profiler in profilers.values()]
    counts: dict[int, int] = {}
    for found in profiles:
        for distance, count in found.counts.items():
            counts[distance] = counts.get(distance, 0) + count
    return Profile(
        sum(found.messages for found in profiles),
        counts,
        sum(found.never_obsolete for found in profiles),
    )


def _with_progress(trace: Path) -> "Iterator[TraceRow]":
    """The rows, with a count of them on a terminal once it takes longer than two seconds."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from semcast.sim.trace import read_trace

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from read_trace(trace)
        return
    columns = (TextColumn("reading {task.completed:,.0f} messages"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("read", total=None, visible=False)
        started = progress.get_time()
        for at, row in enumerate(read_trace(trace), start=1):
            if at % 10_000 == 0:
                late = progress.get_time() - started > 2
                progress.update(task, completed=at, visible=late)
            yield row
