"""`semcast check`: small journals in; which promises were kept, and what broke them, out."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from semcast.cli._output import JsonOption
from semcast.cli._program import spelled
from semcast.cli._stages import Stages
from semcast.cli._verdicts import (
    PerRunOption,
    PropertyOption,
    RestOption,
    RunOption,
    ShowOption,
    report,
)

# More events than this take longer than a few seconds, so the command shows how far it is.
EVENTS_QUICK_MAX: Final = 50_000


def check(
    journal: Annotated[
        Path, typer.Argument(help="A folder of journals: run=<name>/*.parquet and live streams.")
    ],
    run: RunOption = None,
    properties: PropertyOption = None,
    per_run: PerRunOption = False,
    rest: RestOption = None,
    show: ShowOption = 20,
    as_json: JsonOption = False,
) -> int:
    """Judge every property that was promised, in this process: without Java, without Spark.

    It gives the same verdicts as `semcast verify`, in seconds, if the journals fit into memory. If
    they are too large it says so before it begins. The exit code is 1 if a promise is broken.

    \b
    Example:
      semcast sim run examples/scenarios/slow-reader.toml --journal journals
      semcast check journals
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.check import EVENTS_MAX, chosen, verdict_on
    from semcast.journal import chosen_runs, events_in, read_journal

    wanted = chosen(properties)
    runs = chosen_runs(journal, run)
    events = sum(events_in(journal, one) for one in runs)
    if events > EVENTS_MAX:
        hint = (
            f"semcast: some {events:,} events are many for one process; semcast verify {journal} "
            "judges them on all cores, in parts"
        )
        print(spelled(hint), file=sys.stderr)
    stages = Stages(2 * len(runs)) if events > EVENTS_QUICK_MAX else None
    verdicts = []
    for one in runs:
        if stages is not None:
            stages.begin(f"reading {one}")
        log = read_journal(journal, one)
        if stages is not None:
            stages.begin(f"judging {len(log):,} events")
        verdicts.append(verdict_on(log, wanted, rest, show))
    return report(journal, verdicts, show, per_run, as_json)
