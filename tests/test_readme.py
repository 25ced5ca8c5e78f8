"""Commands that users read work as printed, in the project's folder, after `make demo`."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from semcast.cli import app
from semcast.obsolescence import Ranked
from semcast.testing import FakeNetwork

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/guide.md")
BIN = ".venv/bin/"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}


def blocks(page: str) -> list[str]:
    """The lines of fenced blocks without a language; drawings are no commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXTS[page], re.M | re.S)
    commands = [block for language, block in found if not language and "│" not in block]
    return [line for block in commands for line in block.splitlines() if line]


LINES = [(page, line) for page in PAGES for line in blocks(page)]
# What stands in sentences: `semcast keys new`, `.venv/bin/python examples/quotes.py`.
NAMED = sorted({words for text in TEXTS.values() for words in re.findall(r"`([^`\n]+)`", text)})


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words after the program's name call, and its arguments."""
    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def test_there_are_commands_to_try() -> None:
    assert sum("semcast sim" in line for _, line in LINES) >= 5
    assert sum("semcast keys" in line for _, line in LINES) >= 5
    assert sum(line.startswith("make ") for _, line in LINES) >= 2


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_of_a_block_is_there_and_takes_these_arguments(page: str, line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    if program == "make":
        assert set(words) <= TARGETS
        return
    assert program == f"{BIN}semcast", f"{page} prints {line!r}, which is not there after make demo"
    if ">" in words:
        words = words[: words.index(">")]
    command, arguments = command_of(words)
    command.make_context(command.name, list(arguments))
    for one in arguments:
        assert "/" not in one or (ROOT / one).exists(), f"there is no {one}"


@pytest.mark.parametrize("words", [one for one in NAMED if re.match(r"(\S+/)?semcast [a-z]", one)])
def test_a_command_that_is_named_in_a_sentence_is_there(words: str) -> None:
    _, *rest = shlex.split(words)
    command_of(rest)


@pytest.mark.parametrize("words", [one for one in NAMED if re.match(r"(\S+/)?python ", one)])
def test_a_program_that_is_named_in_a_sentence_is_there(words: str) -> None:
    program, *rest = shlex.split(words)
    assert program == f"{BIN}python"
    file = rest[1].replace(".", "/") if rest[0] == "-m" else rest[0]
    assert any((ROOT / f"{file}{end}").exists() for end in ("", ".py", "/__main__.py"))


def taken(keys: int, ranked: bool) -> int:
    """How many of 2 * keys messages, each key in turn, a reader finds that comes at the end."""
    network = FakeNetwork(seed=1)
    a, b = (network.join("quotes", name=name, size=2, insecure=True, k=256) for name in "ab")
    assert network.run(lambda: a.complete and b.complete)
    for number in range(2 * keys):
        key = f"key {number % keys}"
        a.send(b"value", Ranked(key, number) if ranked else key)
    assert network.run(lambda: a.stable)
    return len(b.receive_many())


def test_a_feed_of_more_keys_in_turn_than_k_is_not_purged_unless_it_is_ranked() -> None:
    """As README and guide say; whoever mends it mends them."""
    assert taken(256, ranked=False) == 256
    assert taken(300, ranked=False) == 600
    assert taken(300, ranked=True) == 300


def test_the_makefile_puts_it_there() -> None:
    text = (ROOT / "Makefile").read_text()
    assert "VENV := .venv" in text
    assert "BIN := $(VENV)/bin" in text
    assert "@$(BIN)/semcast demo" in text
