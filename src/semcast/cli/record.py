"""`semcast record`: a group in; a member that writes its journal and does nothing else."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._group import Target, group_command
from semcast.cli._output import JsonOption, print_json, print_words
from semcast.errors import InputError

if TYPE_CHECKING:
    from semcast.live.blocking import Recipient


@group_command()
def record(
    target: Target,
    out: Annotated[Path, typer.Option("--out", help="The folder to write to.")] = Path("journal"),
    run: Annotated[
        str, typer.Option("--run", help="The run's name; without it, the group's and its start.")
    ] = "",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Leave after this long; 0: on Ctrl-C.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> int:
    """Join a group as a reader that only records, until Ctrl-C.

    If the group is closed (--members or --size at the others), say the same here. Of a federation,
    say with --groups which groups this site is to be in. The journal is what this process saw: a
    folder of Parquet files, for `semcast check` and others.

    \b
    Example:
      semcast record quotes --out journal --secret-file secret.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is not a folder; a journal is one")
    # An interrupt is how it is ended, and no reason to leave in a hurry.
    with (
        target.attended(record=str(out), record_run=run, deliver_own=False) as group,
        contextlib.suppress(KeyboardInterrupt),
    ):
        how_long = f"for {seconds:g} s" if seconds else "until Ctrl-C"
        print(f"semcast: recording {target.group} into {out}, {how_long}", file=sys.stderr)
        _take_all(group, seconds)
    # The member has left, and its recorder has written everything.
    stats = group.stats()
    found = {
        "group": target.group,
        "folder": str(out),
        "recorded_events": int(stats["recorded_events"]),
        "left_out_events": int(stats["recorded_left_out"]),
        "delivered_messages": int(stats["delivered"]),
    }
    if as_json:
        print_json(found)
    else:
        print_words(f"{found['recorded_events']:,} events in {out}.")
        if found["left_out_events"]:
            print_words(
                f"{found['left_out_events']:,} events could not be written: what comes after the "
                "first of them is not judged."
            )
    return 0


def _take_all(group: "Recipient", seconds: float) -> None:
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    until_s = time.monotonic() + seconds if seconds else float("inf")
    columns = (TextColumn("recorded {task.completed:,.0f} events"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("record", total=None)
        while (left_s := until_s - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                group.receive_many(timeout=min(left_s, 0.5))
            progress.update(task, completed=group.stats()["recorded_events"])
