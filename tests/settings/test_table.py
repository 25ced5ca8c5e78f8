"""The table of settings: what each entry allows, and that everything else follows from it."""

import math
import re
import shutil
import typing
from pathlib import Path
from typing import Any

import pytest
from tools import settings as tool

from semcast.cli import main
from semcast.errors import ConfigError, InputError
from semcast.live.arguments import Settings
from semcast.live.config import configure, from_environment
from semcast.live.federation_settings import as_sites
from semcast.live.sockets.options import TransportSettings
from semcast.protocol.config import MemberConfig
from semcast.settings import SETTINGS, Place, Setting, at, for_member, named, table
from semcast.settings.setting import NAMES, Default, SecretOrNone, Sites, Tree
from semcast.sim.scenario import Protocol, parse

GOOD: dict[str, Any] = {"group": "quotes", "name": "a", "size": 3, "insecure": True}
MAKERS: dict[Place, Any] = {
    Place.GROUP: lambda **given: configure(GOOD | given),
    Place.MEMBER: MemberConfig,
    Place.SCENARIO: Protocol,
    Place.TRANSPORT: TransportSettings,
}
BOUNDED = [
    pytest.param(one, place, id=f"{place.name}-{one.name}")
    for place in MAKERS
    for one in at(place)
    if one.allowed and not one.choices
]
CHOSEN = [
    pytest.param(one, place, id=f"{place.name}-{one.name}")
    for place in MAKERS
    for one in at(place)
    if one.choices
]
NEW = Setting(
    "hop_delay_ms",
    1.5,
    Place.GROUP | Place.MEMBER | Place.SCENARIO | Place.JOINING,
    (0, 1000),
    "How long a hop takes.",
)


# -- entries ---------------------------------------------------------------------------------------


def test_every_name_is_there_once() -> None:
    names = [one.name for one in SETTINGS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)
def test_an_entry_is_complete(one: Setting) -> None:
    """It has a plain sentence, a known type, bounds if it is a number, and fitting defaults."""
    assert re.fullmatch(r"[A-Z`'].*\.", one.says)
    assert "|" not in one.says, "it stands in a table of Markdown"
    assert one.type in (bool, int, float, str, NAMES, SecretOrNone, Tree, Sites)
    if one.type in (int, float):
        low, high = one.allowed
        assert low < high
        assert low <= one.default_at(Place.SCENARIO) <= high
    else:
        assert all(isinstance(choice, str) for choice in one.allowed)
        assert not one.choices or one.default in one.choices
    assert one.where


def test_units_end_the_names_and_counts_have_none() -> None:
    units = {one.name: one.unit for one in SETTINGS}
    assert (units["gossip_period_ms"], units["spin_us"], units["evict_after_s"]) == (
        "ms",
        "us",
        "s",
    )
    assert (units["bandwidth_bytes_s"], units["message_bytes_max"]) == ("bytes_s", "bytes")
    assert units["window_messages"] == units["k"] == units["suite"] == ""
    assert all(unit for name, unit in units.items() if named(name).type is float)


def test_members_count_time_in_nanoseconds() -> None:
    period = named("gossip_period_ms")
    assert period.name_at(Place.MEMBER) == "gossip_period_ns"
    assert period.default_at(Place.MEMBER) == 30_000_000
    assert period.name_at(Place.SCENARIO) == "gossip_period_ms"
    found = for_member(Protocol(gossip_period_ms=0.0015, k=7), Place.SCENARIO)
    assert (found["gossip_period_ns"], found["k"]) == (1_500, 7)


def test_a_preset_is_that_of_members_and_scenarios_only() -> None:
    mtu, k = named("path_mtu_bytes"), named("k")
    assert (k.default_at(Place.GROUP), k.default_at(Place.MEMBER)) == (256, 64)
    assert (mtu.default_at(Place.TRANSPORT), mtu.default_at(Place.SCENARIO)) == (0, 1400)
    assert Protocol().config() == MemberConfig()


# -- values ----------------------------------------------------------------------------------------


def refused(make: Any, *words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("one", "place"), BOUNDED)
def test_a_number_out_of_bounds_is_one_line_with_the_bounds(one: Setting, place: Place) -> None:
    name, scale = one.name_at(place), 1_000_000 if one.name_at(place) != one.name else 1
    low, high = (bound * scale for bound in one.allowed)
    for bound in (low, high):
        one.check(type(one.default_at(place))(bound), place)
    for value in (low - 1, high + 1):
        if value == one.default_at(place):
            continue
        given = value if type(one.default_at(place)) is float else int(value)
        refused(lambda given=given: MAKERS[place](**{name: given}), f"{name} is ", " goes from ")
    if type(one.default_at(place)) is float:
        for value in (math.nan, math.inf, -math.inf):
            refused(lambda value=value: MAKERS[place](**{name: value}), f"{name} is {value:g}; ")


@pytest.mark.parametrize(("one", "place"), CHOSEN)
def test_a_word_that_is_no_choice_is_one_line_with_the_choices(one: Setting, place: Place) -> None:
    make = MAKERS[place]
    refused(lambda: make(**{one.name: "oak"}), f"{one.name} is 'oak'; ", *map(repr, one.choices))
    refused(lambda: make(**{one.name: ""}), f"{one.name} is ''; ")


def test_the_default_is_always_allowed_where_it_is_the_default() -> None:
    assert TransportSettings(path_mtu_bytes=0).path_mtu_bytes == 0
    refused(lambda: Protocol(path_mtu_bytes=0), "path_mtu_bytes is 0; it goes from 576 to 65535")


def test_a_number_beyond_every_float_is_refused() -> None:
    beyond = 10**400
    refused(lambda: configure(GOOD | {"evict_after_s": beyond}), "evict_after_s is 1000000000")
    with pytest.raises(InputError, match=r"protocol: nak_delay_ms is 1000000000"):
        parse({"model": "protocol", "members": 2, "protocol": {"nak_delay_ms": beyond}}, "x.toml")


@pytest.mark.parametrize("one", at(Place.SCENARIO), ids=lambda one: one.name)
def test_a_scenario_names_the_key_whose_value_is_of_another_type(one: Setting) -> None:
    scenario = {"model": "protocol", "members": 2, "protocol": {one.name: [1]}}
    with pytest.raises(InputError, match=rf"^x\.toml: protocol: {one.name} is \[1\]; it must be "):
        parse(scenario, "x.toml")


@pytest.mark.parametrize("one", at(Place.GROUP), ids=lambda one: one.name)
def test_every_setting_of_a_group_is_a_variable(one: Setting) -> None:
    """Its text is understood, and what is no such value is named with the variable."""
    good = {"group": "g", "name": "b", "members": "a, b", "size": "3", "sites": "{}"}
    shown = one.default if not isinstance(one.default, Default) else "g"
    text = good.get(one.name, ",".join(shown) if one.type == NAMES else str(shown))
    if one.name == "secret":
        text = "sixteen bytes or more"
    variable = f"SEMCAST_{one.name.upper()}"
    given = {name: value for name, value in GOOD.items() if name != one.name}
    if one.name in ("secret", "members"):
        given.pop("insecure" if one.name == "secret" else "size", None)
    if one.name == "insecure":
        text = "true"
    found = getattr(from_environment(given, {variable: text}), one.name)
    parsed = one.parsed(text, variable)
    assert found == (as_sites(parsed) if one.type is Sites else parsed)
    if one.type in (bool, int, float):
        refused(lambda: from_environment(given, {variable: "oak"}), f"{variable} is 'oak'; ")


def test_options_of_commands_come_from_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["tail", "--help"])
    joining = " ".join(capsys.readouterr().out.split())
    main(["members", "--help"])
    asking = " ".join(capsys.readouterr().out.split())
    for one in at(Place.REACHING):
        assert f"--{one.name.replace('_', '-')}" in joining
        assert f"--{one.name.replace('_', '-')}" in asking
    for option in ("--name", "--members", "--size", "--join-timeout"):
        assert option in joining
        assert f"{option} " not in asking
    for text in (named("interface").says.replace("`", ""), "One of auto, multicast, unicast."):
        assert text in joining
        assert text in asking


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--transport", "oak"], "transport is 'oak'; choose one of 'auto', 'multicast'"),
        (["--size", "9999"], "size is 9999; it goes from 0 to 4096"),
        (["--join-timeout", "-1"], "join_timeout_s is -1; it goes from 0"),
        (["--members", "b,c"], "not among members: b, c"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["send", "quotes", "x", "--name", "a", "--insecure", "--size", "0", *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("semcast: ")
    assert told in " ".join(said.split())


# -- what follows from the table -------------------------------------------------------------------


def test_what_is_written_from_the_table_is_up_to_date() -> None:
    stale = [
        f"{path.relative_to(tool.ROOT)}: settings: {part['name']}"
        for path in tool.files(tool.ROOT)
        for part in tool.parts(path)
        if part["old"] != tool.lines_of(part)
    ]
    assert stale == [], "run `make settings`"


def test_every_part_is_there_once() -> None:
    names = [part["name"] for path in tool.files(tool.ROOT) for part in tool.parts(path)]
    assert sorted(names) == sorted(tool.PARTS)


def test_typed_arguments_are_the_settings_of_a_group() -> None:
    assert list(typing.get_type_hints(Settings)) == [one.name for one in at(Place.GROUP)][1:]


def test_a_new_setting_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it in the table, one command writes every class, the arguments and both tables."""
    for path in tool.files(tool.ROOT):
        if list(tool.parts(path)):
            copy = tmp_path / path.relative_to(tool.ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    for place in Place:
        if place in NEW.where:
            monkeypatch.setitem(table._AT, place, (*at(place), NEW))
    written = tool.write(tmp_path)
    assert {line.partition("settings: ")[2] for line in written} == set(tool.PARTS) - {"transport"}
    texts = {path.name: path.read_text() for path in tool.files(tmp_path)}
    assert "    hop_delay_ms: float = 1.5\n" in texts["scenario.py"]
    assert "    hop_delay_ms: float\n" in texts["arguments.py"]
    assert (
        "    hop_delay_ms: float = 1.5\n" in (tmp_path / "src/semcast/live/config.py").read_text()
    )
    assert (
        "hop_delay_ns: int = 1_500_000\n"
        in (tmp_path / "src/semcast/protocol/config.py").read_text()
    )
    row = "| `hop_delay_ms` | `1.5` | 0 to 1,000 ms | How long a hop takes. |\n"
    assert row in texts["guide.md"]
    assert row in texts["scenarios.md"]
    assert tool.write(tmp_path) == []
    assert (
        for_member(type("Given", (), {one.name: 2 for one in (*SETTINGS, NEW)}), Place.GROUP)[
            "hop_delay_ns"
        ]
        == 2_000_000
    )


def test_a_part_that_nobody_writes_is_named(tmp_path: Path) -> None:
    page = tmp_path / "docs/page.md"
    page.parent.mkdir()
    page.write_text("<!-- settings: oak -->\n<!-- end of settings -->\n")
    with pytest.raises(SystemExit, match="oak is unknown; known: group, arguments"):
        tool.write(tmp_path)
