"""`semcast doctor`: an interface in; what its network can do, and what to mend, out."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_words

if TYPE_CHECKING:
    from semcast.live.insight.diagnosis import Check
    from semcast.live.sockets.interfaces import Interface

FAILED: Final = 1


def doctor(
    interface: Annotated[
        str,
        typer.Option("--interface", help="Name or address; without it, the one multicasts take."),
    ] = "",
    group: Annotated[
        str, typer.Option("--group", help="Probe the address of the group with this name.")
    ] = "",
    answer: Annotated[
        bool,
        typer.Option("--answer", help="Answer a doctor on another machine; looks at nothing."),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.1, max=86_400.0, help="How long to answer."),
    ] = 60.0,
    as_json: JsonOption = False,
) -> int:
    """Look at multicast, MTU, socket buffers, clocks and firewall, and say what to do.

    Nothing is changed. The exit code is 1 if something fails without which no member works here;
    warnings leave it at 0. With `--answer` on other machines, it also says which of them multicasts
    come to, how large a datagram gets there, and how far their clocks are off.

    \b
    Example:
      semcast doctor
      semcast doctor --interface lo --group quotes --json
      semcast doctor --answer --seconds 600
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.live.insight.diagnosis import FAIL, WARN, choose_interface, diagnose
    from semcast.live.sockets.address import group_host, group_port
    from semcast.wire.keys import group_id

    number = group_id(group) if group else 0
    chosen = choose_interface(interface)
    if answer:
        return _answer(chosen, number, seconds, as_json)
    checks = diagnose(chosen, number)
    failures = sum(one.status == FAIL for one in checks)
    warnings = sum(one.status == WARN for one in checks)
    if as_json:
        print_json(
            {
                "interface": chosen.name,
                "group": group or None,
                "group_address_ipv4": group_host(number, ipv6=False),
                "group_address_ipv6": group_host(number, ipv6=True),
                "group_port": group_port(number),
                "failures": failures,
                "warnings": warnings,
                "checks": [asdict(one) for one in checks],
            }
        )
    else:
        _print(checks)
        print_words(
            f"{len(checks)} checks on {chosen.name}: {failures} failed, {warnings} warnings."
        )
    return FAILED if failures else 0


def _answer(interface: "Interface", number: int, seconds: float, as_json: bool) -> int:
    from contextlib import suppress

    from semcast.live.insight.reach import Answerer
    from semcast.live.sockets.options import TransportSettings

    ipv6 = ":" in interface.host
    there = TransportSettings(interface=interface.name, group_id=number, ipv6=ipv6)
    answerer = Answerer(there)
    where = f"{answerer.group[0]} port {answerer.group[1]} on {interface.name}"
    typer.echo(f"Answering at {where} for {seconds:g} s; Ctrl-C ends it.", err=True)
    with suppress(KeyboardInterrupt):
        answerer.run(seconds)
    if as_json:
        print_json({"interface": interface.name, "answered_questions": answerer.answered})
    else:
        print_words(f"{answerer.answered} questions answered.")
    return 0


def _print(checks: "list[Check]") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("check", "", "found, and what to do"):
        table.add_column(column)
    for one in checks:
        advice = f"{one.found}. To do: {one.advice}" if one.advice else one.found
        table.add_row(one.check, Text(one.status, style=colours[one.status]), Text(advice))
    Console(highlight=False).print(table)
