"""`semcast send`: text or lines in; a member that sends them, and leaves when all have them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._group import Target, discarding, group_command
from semcast.cli._output import JsonOption, print_json, print_words
from semcast.errors import InputError, UnknownGroupError

if TYPE_CHECKING:
    from semcast.live.blocking import Recipient
    from semcast.live.blocking_site import Site

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
    to_group: Annotated[
        str | None, typer.Option("--to-group", help="The group of a federation that it is for.")
    ] = None,
    drain_s: Annotated[
        float, typer.Option("--drain", min=0, help="Seconds to wait until all members have it.")
    ] = 10.0,
    as_json: JsonOption = False,
) -> int:
    """Join a group as a member, or a federation as a site, send, and leave when everybody has it.

    If the group is closed (--members or --size at the others), say the same here.

    \b
    Example:
      semcast send quotes --secret-file secret.txt --key AAPL 101.25
      tail -f prices.txt | semcast send quotes --secret-file secret.txt
      semcast send bank --to-group releases --secret-file secret.txt "release 7"
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    lines = [text.encode()] if text is not None else _lines()
    if to_group is not None:
        with target.federated(deliver_own=False) as site, discarding(site):
            sent = _send_to(site, to_group, lines, key)
            members, gossips = _in_group(site, to_group, _drained(site, drain_s)), False
    else:
        with target.joined(deliver_own=False) as group, discarding(group):
            sent = _send_all(lines, partial(group.send, replaces=key))
            members = _drained(group, drain_s)
            gossips = group.config.reliability == "gossip"
    if as_json:
        print_json({"group": target.group, "sent_messages": sent, "members": members})
    else:
        how = ", who pass them on" if gossips else ""
        print_words(f"{sent} messages sent to {', '.join(members)}{how}.")
    return 0


def _send_to(site: "Site", group: str, lines: Iterable[bytes], key: str | None) -> int:
    """Send to a group of a federation. If there is no such group, nobody lacks anything of this
    site, so it leaves in order, and what is said is that there is none.
    """
    try:
        return _send_all(lines, partial(site.send, group, replaces=key))
    except UnknownGroupError:
        site.leave()
        raise


def _in_group(site: "Site", group: str, there: list[str]) -> list[str]:
    """Those who got what was sent: of all who are there, the members of the group."""
    members = site.graph.get("groups", {}).get(group, there)
    return [name for name in there if name in members]


def _send_all(lines: Iterable[bytes], send_one: Callable[[bytes], int]) -> int:
    sent = 0
    for line in lines:
        send_one(line)
        sent += 1
    return sent


def _drained(group: "Recipient", drain_s: float) -> list[str]:
    """Wait until everybody has it; says who is there."""
    if drain_s > 0:
        group.drain(drain_s)
    return [one.name for one in group.view if one.state in ("here", "suspected")]


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline(_LINE_BYTES_MAX + 1):
        if len(line) > _LINE_BYTES_MAX:
            raise InputError(f"a line of more than {_LINE_BYTES_MAX} bytes; send less at once")
        yield line.rstrip(b"\r\n")
