"""What type checkers of users see: plain integers, and settings whose names are checked.

That the examples are typed as users would write them, `make check` sees.
"""

import importlib
import inspect
import os
import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest

import semcast
import semcast.blocking
import semcast.ids
from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.live import aio
from semcast.live.arguments import Names, Overrides, Settings
from semcast.live.config import GroupConfig, changed, configure
from semcast.wire.message import Message

SRC = Path(__file__).parent.parent / "src"
PUBLIC = (
    "semcast",
    "semcast.blocking",
    "semcast.obsolescence",
    "semcast.protocol",
    "semcast.testing",
)

PROGRAM = """
import time

import semcast
import semcast.blocking
from semcast.testing.network import FakeNetwork


def weigh(message: semcast.Message) -> float:
    age_ms = (time.time_ns() - message.sent_ns) / 1e6
    seqs: list[int] = [message.seq, message.source.sender, message.source.incarnation]
    return message.seq * 1.5 + age_ms + len(seqs) + message.rank / 2 + max(message.seq, 0.5)


def threads(settings: semcast.Settings) -> float:
    with semcast.blocking.join("g", **(settings | {"name": "a"})) as group:
        total = group.send(b"1", replaces="key") * 0.5 + group.stats()["purged"] / 2
        total += sum(one.since_ns / 1e9 + one.held_messages * 0.5 for one in group.view)
        total += sum((time.time_ns() - event.time_ns) / 1e6 for event in group.past_events())
        last: dict[str, int] = {}
        for message in group:
            total += weigh(message)
            last[message.sender] = message.seq
        return total


async def tasks() -> float:
    total = 0.0
    async with semcast.join("g", size=3, members=["a", "b", "c"], join_timeout_s=5) as group:
        total += await group.send(b"1") * 0.5
        async for message in group:
            total += weigh(message)
    group = await semcast.join("g", config="group.toml", evict_after_s=1.5)
    return total + (await group.receive()).seq / 2


FakeNetwork().join("g", name="a", size=2, insecure=True)
"""
# Each line is wrong in the way that its pattern says.
MISTAKES = (
    ('semcast.join("g", sizee=3)', r'"sizee".*did you mean "size"'),
    ('semcast.blocking.join("g", sizee=3)', r'"sizee".*did you mean "size"'),
    ('semcast.join("g", size="3")', r'"size".*expected "int"'),
    ('semcast.blocking.join("g", members="a,b")', r'"members".*expected "list\[str\]'),
    ('semcast.GroupConfig.load("g.toml", sizee=3)', r'"sizee".*did you mean "size"'),
)


def checked(program: str, folder: Path) -> list[str]:
    """The errors that mypy --strict finds in a program of a user, far from our pyproject.toml."""
    path = folder / "program.py"
    path.write_text(program)
    quiet = ("--follow-imports=silent", "--no-error-summary", "--hide-error-context")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-incremental"]
    run = subprocess.run(
        [*command, f"--cache-dir={folder / 'cache'}", *quiet, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(SRC)},
    )
    assert run.stderr == ""
    return [line for line in run.stdout.splitlines() if ": note: " not in line]


def test_a_program_that_computes_with_what_it_received_is_typed(tmp_path: Path) -> None:
    assert checked(PROGRAM, tmp_path) == []


def test_a_setting_that_is_wrong_is_found_before_it_runs(tmp_path: Path) -> None:
    lines = ["import semcast", "import semcast.blocking", *(line for line, _ in MISTAKES)]
    found = checked("\n".join([*lines, ""]), tmp_path)
    assert len(found) == len(MISTAKES), found
    for number, (message, (_, pattern)) in enumerate(zip(found, MISTAKES, strict=True), 3):
        assert message.startswith(f"program.py:{number}: error: ")
        assert re.search(pattern, message)


def test_what_users_checkers_read_is_installed() -> None:
    home = Path(str(semcast.__file__)).parent
    assert (home / "py.typed").exists()
    assert (home / "_native.pyi").read_text() == "i64 = int\n"


def test_what_is_public_takes_native_integers_from_where_users_see_int() -> None:
    homes = {
        inspect.getmodule(getattr(importlib.import_module(room), name))
        for room in PUBLIC
        for name in importlib.import_module(room).__all__
    } | {inspect.getmodule(Source)}
    names = {home.__name__ for home in homes if home and home.__name__.startswith("semcast.")}
    assert {"semcast.wire.message", "semcast.live.blocking", "semcast.ids"} <= names
    native = re.compile(r"^from mypy_extensions import .*\bi(16|32|64)\b", re.MULTILINE)
    leaky = [
        name
        for name in sorted(names)
        if native.search((SRC / f"{name.replace('.', '/')}.py").read_text())
    ]
    assert leaky == []


def test_the_compiler_does_not_read_the_stub() -> None:
    """Compiled, numbers of messages are machine words, for speed: so large a one does not fit."""
    if str(semcast.ids.__file__).endswith(".py"):
        pytest.skip("interpreted")
    with pytest.raises((OverflowError, TypeError)):
        Message(Source(1, 2), 1 << 64, b"")
    with pytest.raises((OverflowError, TypeError)):
        Source(1 << 64, 2)


def test_native_fields_hold_whole_numbers_at_run_time() -> None:
    message = Message(Source(1, 2), 3, b"", sent_ns=4)
    numbers = (message.seq, message.sent_ns, message.source.sender, message.source.incarnation)
    assert numbers == (3, 4, 1, 2)
    assert {type(number) for number in numbers} == {int}
    assert message.seq * 1.5 == 4.5


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_the_fields_of_a_configuration() -> None:
    fields = typing.get_type_hints(GroupConfig)
    expected = {
        name: Names if wanted == tuple[str, ...] else wanted for name, wanted in fields.items()
    }
    assert typing.get_type_hints(Overrides) == expected
    assert list(Settings.__annotations__) == [name for name in fields if name != "group"]
    assert not Overrides.__required_keys__


@pytest.mark.parametrize("join", [aio.join, semcast.blocking.join])
def test_no_setting_has_the_name_of_another_argument(join: types.FunctionType) -> None:
    assert not set(inspect.signature(join).parameters) & set(Settings.__annotations__)


def test_an_unknown_setting_brings_the_closest_to_mind(tmp_path: Path) -> None:
    file = tmp_path / "group.toml"
    file.write_text("sizee = 2\n")
    config = GroupConfig("g", size=2, insecure=True)
    wrong: dict[str, typing.Any] = {"sizee": 2}
    for say in (
        lambda: semcast.join("g", **wrong),
        lambda: semcast.blocking.join("g", **wrong),
        lambda: semcast.blocking.join("g", config=config, **wrong),
        lambda: semcast.blocking.join("g", config=file),
        lambda: changed(config, **wrong),
    ):
        with pytest.raises(ConfigError, match="unknown setting 'sizee'; did you mean 'size'"):
            say()


def test_an_unknown_setting_like_no_other_brings_all_names() -> None:
    with pytest.raises(ConfigError, match=r"'zzzz'; known: bandwidth_bytes_s, .*, window_messages"):
        configure({"group": "g", "zzzz": 1})
