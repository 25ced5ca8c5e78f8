"""`semcast replay`: a trace and a group in; its messages sent, at their own speed or another."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._group import Target, discarding, group_command
from semcast.cli._output import JsonOption, print_json, print_words
from semcast.cli._trace import PerSenderOption
from semcast.errors import ConfigError, InputError

if TYPE_CHECKING:
    from semcast.live.blocking import Group
    from semcast.sim.trace import TraceRow

_BATCH: Final = 256
_DRAIN_S: Final = 60.0
_REPLAY_SENDERS_MAX: Final = 32


@group_command(group_first=False)
def replay(
    target: Target,
    trace: Annotated[
        Path, typer.Argument(help="CSV with a heading (time_s,sender,key,kind,size), or .csv.gz.")
    ],
    speed: Annotated[
        float, typer.Option("--speed", help="How many times faster than it was recorded.")
    ] = 1.0,
    at_most: Annotated[
        bool, typer.Option("--max", help="As fast as the group takes it, whatever the times say.")
    ] = False,
    count: Annotated[
        int, typer.Option("--count", min=0, help="Only so many messages; 0: all.")
    ] = 0,
    per_sender: PerSenderOption = False,
    as_json: JsonOption = False,
) -> int:
    """Join a group as a member and send what a trace holds: its keys, its sizes, its pace.

    Payloads are zeros. Messages without a key are never replaced. The trace is one stream, which
    this member sends; with --per-sender each of its senders becomes a member, of the same name.
    If the group is closed (--members or --size at the others), say the same here.

    \b
    Example:
      semcast replay quotes.csv.gz quotes --name feed --secret-file secret.txt
      semcast replay quotes.csv.gz quotes --secret-file secret.txt --max
      semcast replay two-feeds.csv quotes --per-sender --secret-file secret.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    if not 0 < speed < 1e9:
        raise ConfigError(f"--speed {speed:g}; it is a number above 0")
    senders = _senders(trace, target, count) if per_sender else []
    rows = _rows(trace, count, timed=not at_most)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{trace}: no messages in it")
    with ExitStack() as members:
        if per_sender:
            groups = members.enter_context(target.joined_as(senders, deliver_own=False))
        else:
            groups = {"": members.enter_context(target.joined(deliver_own=False))}
        for group in groups.values():
            members.enter_context(discarding(group))
        began_s = time.monotonic()
        sent = _send(groups, first, rows, float("inf") if at_most else speed)
        for group in groups.values():
            group.drain(_DRAIN_S)
        took_s = time.monotonic() - began_s
    if as_json:
        sense = "per_sender" if per_sender else "one_stream"
        said = {"group": target.group, "sense": sense, "members": len(groups)}
        print_json(said | {"sent_messages": sent, "seconds": took_s})
    else:
        print_words(f"{sent:,} messages in {took_s:.1f} s, {sent / took_s:,.0f} a second.")
    return 0


def _senders(trace: Path, target: Target, count: int) -> list[str]:
    """The names of the senders in this trace, each of which becomes a member."""
    if target.options.get("name"):
        raise ConfigError("--name with --per-sender; members are called as the trace's senders are")
    found: dict[str, None] = {}
    for row in _rows(trace, count, timed=False):
        found.setdefault(row.sender)
        if len(found) > _REPLAY_SENDERS_MAX:
            raise InputError(
                f"{trace}: more than {_REPLAY_SENDERS_MAX} senders, and with --per-sender each "
                "would be a member of this process; replay a part of it (--count), or as one stream"
            )
    if "" in found:
        raise InputError(f"{trace}: a message without a sender; --per-sender needs all of them")
    return list(found)


def _rows(trace: Path, count: int, timed: bool) -> "Iterator[TraceRow]":
    from itertools import islice

    from semcast.sim.trace import read_trace

    found = read_trace(trace, timed=timed)
    return islice(found, count) if count else found


def _send(
    groups: "dict[str, Group]", first: "TraceRow", rows: "Iterator[TraceRow]", speed: float
) -> int:
    from itertools import chain

    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("sent {task.completed:,.0f} messages"), TimeElapsedColumn())
    sent, batch = 0, list["TraceRow"]()
    began_s = time.monotonic()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("replay", total=None)
        for row in chain([first], rows):
            wait_s = began_s + (row.time_s - first.time_s) / speed - time.monotonic()
            if batch and (wait_s > 0 or len(batch) == _BATCH):
                sent += _send_batch(groups, batch)
                progress.update(task, completed=sent)
                batch = []
            if wait_s > 0:
                time.sleep(wait_s)
            batch.append(row)
        sent += _send_batch(groups, batch)
        progress.update(task, completed=sent)
    return sent


def _send_batch(groups: "dict[str, Group]", batch: "list[TraceRow]") -> int:
    """Let each member send its part; one member for all is registered without a name."""
    parts: dict[str, list[TraceRow]] = {}
    for row in batch:
        parts.setdefault(row.sender if "" not in groups else "", []).append(row)
    sent = 0
    for sender, part in parts.items():
        payloads = [bytes(row.size_bytes) for row in part]
        sent += groups[sender].send_many(payloads, [row.key or None for row in part])
    return sent
