"""`make test-quick` has something of every room, and takes no Spark session to do so."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUICK = [ROOT / line for line in (ROOT / "tests" / "quick.txt").read_text().split()]
ROOMS = sorted(
    one.name for one in (ROOT / "src" / "semcast").iterdir() if (one / "__init__.py").exists()
)


def files() -> list[Path]:
    return [file for one in QUICK for file in (one.rglob("test_*.py") if one.is_dir() else [one])]


def test_the_list_names_what_there_is_each_once() -> None:
    assert [one for one in QUICK if not one.exists()] == []
    assert len(files()) == len(set(files()))


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_quick_test(room: str) -> None:
    """In its own folder of tests; a room that has none is used by name in another's."""
    own = ROOT / "tests" / room
    if own.is_dir():
        assert [one for one in files() if one.is_relative_to(own)], f"add one of {own}"
    else:
        names = re.compile(rf"(from|import) semcast\.{room}\b")
        assert [one for one in files() if names.search(one.read_text())], f"add one of {room}"


def test_no_quick_test_starts_spark() -> None:
    """A session alone takes as long as a room. The fixture `spark` is what starts it."""
    asks = re.compile(r"\bspark: SparkSession|spark_session\(|usefixtures\(\"spark\"")
    assert [one for one in files() if asks.search(one.read_text())] == []
