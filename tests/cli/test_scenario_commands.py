"""Commands on scenarios, as design notes and the scenarios themselves print them, can be run: the
options are there, the settings that they change too, and so are the points of their grids.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from semcast.cli import app
from semcast.pipeline.sweeping.grid import points_of
from semcast.sim.scenario import load

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/scenarios/*.toml"),
        *ROOT.glob("src/semcast/cli/*.py"),
    ]
)
_COMMAND = r"semcast (?:sim run|sweep) examples/scenarios/[\w-]+\.toml"


def commands() -> list[str]:
    """As they are printed, each on one line; those with a "…" for the reader to fill in are not
    among them.
    """
    found: set[str] = set()
    for source in SOURCES:
        text = source.read_text(encoding="utf-8").replace("\\\\\n", "\\\n")
        text = re.sub(r"^#", "", text, flags=re.M) if source.suffix == ".toml" else text
        text = re.sub(r" *\\\n\s*", " ", text)
        in_sentences = re.findall(rf"`({_COMMAND}[^`]*)`", text)
        on_lines = re.findall(rf"^\s*(?:\$ )?({_COMMAND}[^`\n]*)$", text, re.M)
        found.update(" ".join(one.split()) for one in (*in_sentences, *on_lines))
    return sorted(one for one in found if "…" not in one)


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The command's name and the values of its options; click refuses those that are not there."""
    command: Any = typer.main.get_command(app)
    # A remark on where in the papers it comes from may follow.
    words = shlex.split(re.sub(r"\s+\[(?:SRM|OBS|PSRM|STAB|PROP) §.*", "", line))[1:]
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command.name, command.make_context(command.name, words).params


def test_there_are_commands_of_every_kind() -> None:
    lines = commands()
    assert len(lines) > 25
    assert sum(" sweep " in line for line in lines) > 4
    assert sum("--set" in line for line in lines) > 5


@pytest.mark.parametrize("line", commands())
def test_a_printed_command_on_a_scenario_can_be_run(line: str) -> None:
    name, options = parsed(line)
    if name == "sweep":
        assert points_of(ROOT / options["scenario"], options["grid"] or "")[1]
    else:
        assert load(ROOT / options["scenario"], options.get("changes") or ()).title
