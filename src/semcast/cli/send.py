"""`semcast send`: text or lines in; a member that sends them, and leaves when all have them."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from semcast.cli._group import Target, discarding, group_command
from semcast.cli._output import JsonOption, print_json, print_words
from semcast.errors import InputError

_LINE_BYTES_MAX = 1 << 20


@group_command()
def send(
    target: Target,
    text: Annotated[
        str | None, typer.Argument(help="What to send; without it, each line of stdin.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Each message replaces the last of this key.")
    ] = None,
    drain_s: Annotated[
        float, typer.Option("--drain", min=0, help="Seconds to wait until all members have it.")
    ] = 10.0,
    as_json: JsonOption = False,
) -> int:
    """Join a group as a member, send, and leave when everybody has it.

    If the group is closed (--members or --size at the others), say the same here.

    \b
    Example:
      semcast send quotes --secret-file secret.txt --key AAPL 101.25
      tail -f prices.txt | semcast send quotes --secret-file secret.txt
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    sent = 0
    with target.joined(deliver_own=False) as group, discarding(group):
        for line in [text.encode()] if text is not None else _lines():
            group.send(line, key)
            sent += 1
        if drain_s > 0:
            group.drain(drain_s)
        gossips = group.config.reliability == "gossip"
        members = [one.name for one in group.view if one.state in ("here", "suspected")]
    if as_json:
        print_json({"group": target.group, "sent_messages": sent, "members": members})
    else:
        how = ", who pass them on" if gossips else ""
        print_words(f"{sent} messages sent to {', '.join(members)}{how}.")
    return 0


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline(_LINE_BYTES_MAX + 1):
        if len(line) > _LINE_BYTES_MAX:
            raise InputError(f"a line of more than {_LINE_BYTES_MAX} bytes; send less at once")
        yield line.rstrip(b"\r\n")
