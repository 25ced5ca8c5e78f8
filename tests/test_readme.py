"""What users read first is true: commands and code work as printed, in the project's folder, after
`make demo`; figures are those of the page that they are from; every link leads somewhere.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from semcast.cli import app
from semcast.testing import FakeNetwork

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/guide.md", "docs/operating.md", "docs/simulate.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WORDS_MAX = 1_000
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


def assert_that_pip_finds(words: list[str]) -> None:
    """`pip install .` or `pip install .[extra,extra]`, in the project's folder."""
    install, place = words
    found = re.fullmatch(r"\.(?:\[([\w,-]+)\])?", place)
    assert install == "install"
    assert found is not None, f"{place} is not this folder"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = found[1].split(",") if found[1] else []
    assert set(extras) <= set(project["optional-dependencies"])


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
    if program == "pip":
        assert_that_pip_finds(words)
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


def taken(keys: int, replacement: str) -> int:
    """How many of 2 * keys messages, each key in turn, a reader finds that comes at the end."""
    network = FakeNetwork(seed=1)
    config: dict[str, Any] = {"size": 2, "insecure": True, "k": 256, "replacement": replacement}
    a, b = (network.join("quotes", name=name, **config) for name in "ab")
    assert network.run(lambda: a.complete and b.complete)
    for number in range(2 * keys):
        a.send(b"value", f"key {number % keys}")
    assert network.run(lambda: a.stable)
    return len(b.receive_many())


def test_a_key_replaces_at_any_distance_and_with_a_bitmap_as_far_as_k_reaches() -> None:
    """As the guide says; whoever changes it changes that."""
    assert taken(256, "bitmap") == 256
    assert taken(300, "bitmap") == 600
    assert taken(300, "key") == 300


def test_the_readme_begins_with_the_two_commands_and_is_short() -> None:
    text = TEXTS["README.md"]
    assert blocks("README.md")[0].startswith("make demo ")
    assert blocks("README.md")[1].startswith("make test ")
    assert text.index("make demo") < text.index("## ")
    assert len(text.split()) < WORDS_MAX


def test_the_ten_lines_print_what_they_say() -> None:
    code = re.search(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    assert code is not None
    lines = code[1].splitlines()
    assert len([line for line in lines if line and not line.startswith("# ")]) <= 10
    promised = lines[max(at for at, line in enumerate(lines) if not line.startswith("#")) + 1 :]
    assert promised, "the code ends with comments that say what it prints"
    run = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout.splitlines() == [line.removeprefix("# ") for line in promised]


# A row of the README's table, and the rows of docs/peers.md that its columns are from.
PEERS = {
    "**semcast**, sealed": ("semcast sealed", "semcast sealed", "semcast key"),
    "pyzmq, XPUB_NODROP": ("zmq NODROP",) * 3,
    "zenoh, BLOCK": ("zenoh BLOCK",) * 3,
    "NATS; slow reader: JetStream": ("NATS core", "NATS core", "NATS JetStream"),
    "Redis Streams": ("Redis Streams",) * 3,
    "Cyclone DDS, KEEP_LAST(1)": ("DDS KEEP_LAST(1)",) * 3,
}


def measured(heading: str) -> dict[str, list[str]]:
    """The rows below a heading of docs/peers.md, by their first cell."""
    page = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    table = page.split(f"### {heading}\n", 1)[1].split("\n###", 1)[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells}


@pytest.mark.parametrize("name", PEERS)
def test_a_row_beside_the_peers_is_what_was_measured(name: str) -> None:
    fast, quick, slow = PEERS[name]
    rate = float(measured("Throughput, 64 B")[fast][0].replace(",", ""))
    p50, p99 = measured("Latency, 10,000 msg/s")[quick][:2]
    reader = measured("10% never replaced, one slow reader")[slow]
    cells = f"{rate / 1000:,.0f}k | {p50} / {p99} | {reader[3]} | {reader[5]} / {reader[6]}"
    assert f"| {name} | {cells} |\n" in TEXTS["README.md"]


def test_the_table_beside_the_peers_has_no_other_row() -> None:
    table = TEXTS["README.md"].split("## Beside its peers", 1)[1].split("\n\n## ", 1)[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(PEERS)


def anchors(page: Path) -> set[str]:
    """What a link may name after #, as GitHub and Sphinx make it of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for target in found:
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


def test_every_page_is_in_the_table_of_contents() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for caption in ("Use it", "Size it", "Run it", "Understand it", "Work on it"):
        assert f":caption: {caption}\n" in text
    listed = re.findall(r"^[\w/-]+$", text, re.M)
    pages = {str(page.relative_to(ROOT / "docs"))[:-3] for page in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages - {"index"})


def test_every_page_that_the_code_names_is_there() -> None:
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("bench/**/*.py"), ROOT / "pyproject.toml"]
    named = {
        page
        for file in files
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert named
    assert [page for page in sorted(named) if not (ROOT / page).exists()] == []


def test_the_glossary_has_each_word_once_and_says_where_it_lives() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| .+ \| `(.+)` \|$", text, re.M)
    words = [word.strip(" *") for names, _ in rows for word in names.split(",")]
    assert len(words) > 50
    assert len(words) == len(set(words))
    for _, place in rows:
        assert (ROOT / "src" / "semcast" / place).exists(), place


def test_the_makefile_puts_it_there() -> None:
    text = (ROOT / "Makefile").read_text()
    assert "VENV := .venv" in text
    assert "BIN := $(VENV)/bin" in text
    assert "@$(BIN)/semcast demo" in text
