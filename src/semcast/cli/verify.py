"""`semcast verify`: journals of any size in; which promises were kept, and what broke them, out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from semcast.cli._output import JsonOption
from semcast.cli._program import spelled
from semcast.cli._spark import ConfOption, MasterOption, spark_opener
from semcast.cli._verdicts import (
    PerRunOption,
    PropertyOption,
    RestOption,
    RunOption,
    ShowOption,
    report,
)


def verify(
    journal: Annotated[
        Path, typer.Argument(help="A folder of journals: run=<name>/*.parquet and live streams.")
    ],
    run: RunOption = None,
    properties: PropertyOption = None,
    per_run: PerRunOption = False,
    rest: RestOption = None,
    show: ShowOption = 20,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> int:
    """Judge every property that was promised, over journals too large for one process.

    The exit code is 1 if a promise is broken. What must hold in the end is judged of members that
    ended by themselves, as their logs say, and of simulations that came to rest. A run that was cut
    short is named, but is no violation. Small journals are judged sooner by `semcast check`, which
    needs no Spark and gives the same verdicts.

    \b
    Example:
      semcast sim run examples/scenarios/slow-reader.toml --journal journals
      semcast verify journals
      semcast verify journals --property agreement --property fifo-order --json
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.check import EVENTS_MAX
    from semcast.pipeline import verify as judge

    with spark_opener("verify", master, conf) as spark:
        verdicts = judge(
            journal, properties, runs=run, at_rest=rest, shown_max=max(show, 1), spark=spark
        )
    whole = sum(verdict.events <= EVENTS_MAX for verdict in verdicts)
    if whole:
        large = len(verdicts) - whole
        what = f"{whole:,} small runs judged whole, as by semcast check; {large:,} larger in parts"
        print(f"semcast: {spelled(what)}", file=sys.stderr)
    return report(journal, verdicts, show, per_run, as_json)
