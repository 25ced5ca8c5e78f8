"""The guide's table of settings is complete and its defaults are the real ones."""

import dataclasses
import re
from pathlib import Path

from semcast.live.config import GroupConfig

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", GUIDE.read_text(encoding="utf-8"), re.M))


def test_every_setting_is_in_the_table_in_order() -> None:
    assert list(ROWS) == [one.name for one in dataclasses.fields(GroupConfig)]


def test_every_default_is_the_real_one() -> None:
    for one in dataclasses.fields(GroupConfig):
        if one.default is not dataclasses.MISSING:
            assert ROWS[one.name] == f"`{one.default!r}`", one.name
