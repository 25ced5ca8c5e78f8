"""Results out: one JSON object for programs, tables and sentences for people."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from semcast.cli._program import spelled

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of a table.")
]


def print_json(result: Mapping[str, object]) -> None:
    print(json.dumps(result, indent=2, allow_nan=False))


def null_if_unlimited(value: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(value) else value


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column names the row; the others are numbers, set to the right."""
    from rich.console import Console

    from semcast.cli._tables import fitted

    console = Console(highlight=False)
    console.print(fitted(console, title, columns, rows))


def print_commands(title: str, commands: Sequence[str]) -> None:
    """Commands to copy, each on a line of its own that is never broken."""
    print(title, flush=True)
    for command in commands:
        print(f"  {spelled(command)}", flush=True)


def print_words(*sentences: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for sentence in sentences:
        console.print(spelled(sentence), markup=False)
