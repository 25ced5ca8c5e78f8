"""The commands in docs/design/closed-forms.md print the figures that stand beside them."""

import json
import re
from pathlib import Path

import pytest

from semcast.cli import main

NOTE = Path(__file__).parents[2] / "docs" / "design" / "closed-forms.md"
ROWS: list[tuple[str, str, str]] = re.findall(
    r"^\| `semcast (.+?)` \| `([\w.]+)` \| ([\d.]+) \|$", NOTE.read_text(encoding="utf-8"), re.M
)


def test_the_note_has_commands_for_all_four_models() -> None:
    assert {line.split()[1] for line, _, _ in ROWS} == {
        "purge",
        "stability",
        "trigger",
        "propagation",
    }


@pytest.mark.parametrize(("line", "key", "value"), ROWS)
def test_a_command_prints_what_the_note_says(
    line: str, key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 0
    found = json.loads(capsys.readouterr().out)
    for part in key.split("."):
        found = found[part]
    decimals = len(value.partition(".")[2])
    assert round(found, decimals) == float(value)
