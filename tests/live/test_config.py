"""GroupConfig: what makes no sense is one clear line, and the secret is never shown."""

import dataclasses
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError, InputError, SemcastError
from semcast.live.config import (
    GroupConfig,
    changed,
    configure,
    for_asking,
    from_environment,
)
from semcast.live.meeting.joining import resolve, transport_settings
from semcast.settings.table import GROUP_SIZE_MAX
from semcast.wire.keys import Keyring, Unsealed

SECRET = "correct horse battery staple"
GOOD: dict[str, Any] = {"group": "quotes", "name": "a", "size": 3, "secret": SECRET}
FIELDS = {one.name: one for one in dataclasses.fields(GroupConfig)}


def refused(make: Callable[[], object], *words: str) -> str:
    """The one line of the ConfigError that this raises; it has these words in it."""
    with pytest.raises(ConfigError) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text
    return text


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", FIELDS)
def test_a_value_of_another_type_is_named(setting: str) -> None:
    for value in (object(), {"a": 1}, [1], 1j):
        refused(lambda value=value: configure(GOOD | {setting: value}), setting)  # type: ignore[misc]


BAD: dict[str, list[object]] = {
    "group": ["", "x" * 256, "a\nb", "\ud800"],
    "name": ["", "x" * 65, "a\tb", "\ud800"],
    "secret": [b"short", "short", b"x" * 2000],
    "suite": ["rot13", ""],
    "members": [["b", "c"], ["a", "b", "b"], ["a", ""], ["a", "x" * 65]],
    "size": [-1, GROUP_SIZE_MAX + 1],
    "join_timeout_s": [-1.0, math.nan, math.inf],
    "transport": ["tcp", ""],
    "port": [-1, 65_536],
    "ttl": [-1, 256],
    "path_mtu_bytes": [-1, 100, 70_000],
    "receive_buffer_bytes": [-1, 1 << 31],
    "send_buffer_bytes": [-1, 1 << 31],
    "bandwidth_bytes_s": [-1],
    "reliability": ["best effort", ""],
    "order": ["total", ""],
    "k": [-1, 1 << 20],
    "f": [-1],
    "delivery_messages": [0, -1],
    "delivery_bytes": [0, 1000],
    "window_messages": [0, -1],
    "window_bytes": [0, 1000],
    "message_bytes_max": [0, -1, 1 << 30],
    "gossip_period_ms": [0.0, -1.0, math.nan, math.inf],
    "gossip_fanout": [0, -1],
    "gossip_messages": [-1],
    "stability": ["total", ""],
    "stability_branching": [0, -1],
    "stability_tree": [
        "oak",
        "",
        "measured",
        {"b": "a"},
        {},
        [["b", "a"]],
        [["b", "a", "c"]],
        "{}",
    ],
    "stability_ring": [["a", "b", "c"], ["a"]],
    "stability_period_ms": [-1.0, math.nan, math.inf],
    "stability_ride_ms": [-1.0, math.nan, math.inf],
    "safety_rest_messages": [-1],
    "nak_delay_ms": [0.0, -1.0, math.nan, math.inf],
    "slow_after_ms": [-1.0, math.nan, math.inf],
    "evict_after_s": [-1.0, math.nan, math.inf],
    "metrics_port": [-1, 65_536],
    "spin_us": [-1, 1_000_001, 1 << 80],
}
BAD_VALUES = [(setting, value) for setting, values in BAD.items() for value in values]


@pytest.mark.parametrize(("setting", "value"), BAD_VALUES)
def test_a_value_out_of_range_is_refused_before_a_socket_is_opened(
    setting: str, value: object
) -> None:
    refused(lambda: transport_settings(configure(GOOD | {setting: value})))


@pytest.mark.parametrize("setting", ["gossip_period_ms", "nak_delay_ms", "slow_after_ms", "k"])
def test_a_refusal_names_the_setting_and_the_value(setting: str) -> None:
    refused(lambda: configure(GOOD | {setting: -1}), setting.partition("_m")[0], "-1")


def test_a_group_is_open_unless_its_members_are_counted() -> None:
    assert configure({"group": "g", "secret": SECRET}).is_open
    assert not configure(GOOD).is_open
    assert not configure(GOOD | {"members": ["a", "b"], "size": 0}).is_open


def test_a_reader_of_a_closed_group_is_refused() -> None:
    refused(lambda: configure(GOOD | {"role": "reader"}), "role 'reader'", "leave these out")


def test_members_and_size_may_not_contradict_each_other() -> None:
    members = ["a", "b"]
    assert configure(GOOD | {"members": members, "size": 2}).group_size == 2
    assert configure(GOOD | {"members": members, "size": 0}).group_size == 2
    refused(lambda: configure(GOOD | {"members": members, "size": 3}), "size is 3", "2 names")


def test_a_member_that_is_not_among_the_members_is_named() -> None:
    refused(lambda: configure(GOOD | {"members": ["b", "c"], "size": 0}), "'a'", "b, c")


# -- trees -----------------------------------------------------------------------------------------

SHAPED: dict[str, Any] = GOOD | {"members": ["c", "a", "b"], "size": 0, "stability": "s_coordp"}


def test_a_tree_of_names_becomes_one_of_numbers_in_the_order_of_the_members() -> None:
    """Whatever form it was given in, and however the protocol numbers the members."""
    as_table = configure(SHAPED | {"stability_tree": {"a": "b", "c": "b"}})
    as_pairs = configure(SHAPED | {"stability_tree": [["c", "b"], ["a", "b"]]})
    given = configure(
        SHAPED | {"stability_tree": {"a": "b", "c": "b"}, "stability_ring": ["c", "a", "b"]}
    )
    for config in (as_table, as_pairs, changed(as_table, k=7)):
        assert config.member_config(3, 1400, order=["a", "b", "c"]).stability_tree == (1, -1, 1)
        assert config.member_config(3, 1400, order=["b", "a", "c"]).stability_tree == (-1, 0, 0)
    assert given.member_config(3, 1400, order=["a", "b", "c"]).stability_ring == (2, 0, 1)
    assert hash(changed(given, secret=None, insecure=True))


def test_a_tree_may_stand_in_the_environment_and_in_a_file(tmp_path: Path) -> None:
    found = from_environment(SHAPED, {"SEMCAST_STABILITY_TREE": '{"a": "b", "c": "a"}'})
    assert found.stability_tree == (("a", "b"), ("c", "a"))
    measured = from_environment(SHAPED, {"SEMCAST_STABILITY_TREE": "measured"})
    assert measured.stability_tree == "measured"
    refused(lambda: from_environment(SHAPED, {"SEMCAST_STABILITY_TREE": "{"}), "STABILITY_TREE")
    path = tmp_path / "group.toml"
    path.write_text(
        'group = "g"\nname = "a"\ninsecure = true\nmembers = ["a", "b"]\nstability = "s_train"\n'
        '[stability_tree]\na = "b"\n'
    )
    assert GroupConfig.load(path).member_config(2, 1400).stability_tree == (1, -1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stability_tree": {"a": "b", "x": "b"}}, ["'x'", "no member"]),
        ({"stability_tree": {"a": "b"}}, ["2 members without a parent", "c, b"]),
        ({"stability_tree": {"a": "b", "b": "c", "c": "a"}}, ["0 members without", "nobody"]),
        ({"stability_tree": {"a": "a", "b": "b"}}, ["never reaches the root"]),
        ({"stability_tree": [["a", "b"], ["a", "c"]]}, ["twice", "'a'"]),
        ({"stability_ring": ["a", "b"]}, ["2 names", "3 members"]),
        ({"stability_ring": ["a", "b", "b"]}, ["3 names", "once"]),
        ({"members": [], "size": 3, "stability_ring": ["a"]}, ["needs members"]),
        ({"members": [], "size": 3, "stability_tree": {"a": "b"}}, ["needs members"]),
        ({"members": [], "size": 257, "stability_tree": "measured"}, ["257", "256", "filled"]),
        ({"stability": "gossip", "stability_tree": "measured"}, ["gossip", "s_coordp"]),
        ({"stability_tree": "measured", "stability_ring": ["a", "b", "c"]}, ["choose one"]),
    ],
)
def test_a_tree_that_makes_no_sense_is_one_clear_line(
    settings: dict[str, Any], words: list[str]
) -> None:
    refused(lambda: configure(SHAPED | settings), *words)


def test_a_secret_or_the_wish_to_have_none() -> None:
    without = {"group": "g", "size": 2}
    refused(lambda: configure(without), "semcast keys new", "insecure")
    refused(lambda: configure(without | {"secret": SECRET, "insecure": True}), "choose one")
    assert isinstance(configure(without | {"insecure": True}).keys(), Unsealed)
    as_text, as_bytes = configure(GOOD).keys(), configure(GOOD | {"secret": SECRET.encode()}).keys()
    assert isinstance(as_text, Keyring)
    assert isinstance(as_bytes, Keyring)
    assert as_text.list() == as_bytes.list()


@pytest.mark.parametrize("peer", ["", "host", "host:", ":7400", "host:0", "host:70000", "h:x"])
def test_a_peer_that_is_no_address_is_named(peer: str) -> None:
    refused(lambda: resolve([peer], ipv6=False), repr(peer), "host:port")


def test_peers_are_looked_up_and_each_address_is_there_once() -> None:
    found = resolve(["127.0.0.1:7400", "127.0.0.1:7400", "localhost:7401"], ipv6=False)
    assert found == [("127.0.0.1", 7400), ("127.0.0.1", 7401)]
    assert resolve(["[::1]:7400"], ipv6=True) == [("::1", 7400)]


def test_a_peer_without_an_address_is_one_line() -> None:
    with pytest.raises(SemcastError, match=r"no-such-host\.invalid"):
        resolve(["no-such-host.invalid:7400"], ipv6=False)


def test_an_unknown_setting_is_named() -> None:
    refused(lambda: configure(GOOD | {"sise": 3}), "'sise'", "size")


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), st.none() | st.text() | st.integers()))
def test_any_values_make_a_configuration_or_one_of_our_errors(settings: dict[str, Any]) -> None:
    try:
        config = configure(GOOD | settings)
    except ConfigError:
        return
    assert changed(config) == config


# -- the secret ------------------------------------------------------------------------------------


def test_the_secret_is_not_shown_by_a_configuration() -> None:
    config = configure(GOOD)
    assert SECRET not in repr(config) + str(config) + repr(config.keys())


@pytest.mark.parametrize(
    "wrong", [list(SECRET.encode()), bytearray(SECRET.encode()), [SECRET], 12345678901234567890]
)
def test_the_secret_is_not_shown_by_an_error(wrong: object) -> None:
    """Neither where it has the wrong type, nor where another setting is wrong."""
    text = refused(lambda: configure(GOOD | {"secret": wrong}), "secret")
    assert repr(wrong) not in text
    with pytest.raises(ConfigError) as caught:
        configure(GOOD | {"size": "x"})
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown.replace(f'"{SECRET}"', "")


def test_a_secret_that_is_too_short_is_not_shown() -> None:
    assert "hunter2" not in refused(lambda: configure(GOOD | {"secret": "hunter2"}), "7 bytes")


# -- files and the environment ---------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "group.toml"
    path.write_text(text)
    return path


TOML = f"""
group = "quotes"
name = "a"
members = ["a", "b"]
secret = "{SECRET}"
evict_after_s = 5
order = "key"
"""


def test_a_file_has_the_same_settings_and_arguments_go_first(tmp_path: Path) -> None:
    path = write(tmp_path, TOML)
    config = GroupConfig.load(path)
    assert (config.members, config.evict_after_s, config.order) == (("a", "b"), 5.0, "key")
    assert GroupConfig.load(path, order="fifo", group="other") == changed(
        config, order="fifo", group="other"
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [("group = ", "not TOML"), ("\x00", "not TOML"), ('group = "g"\nsise = 3', "sise")],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str, word: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SemcastError, match=word) as caught:
        GroupConfig.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        GroupConfig.load(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"SEMCAST_CONFIG=.*none\.toml"):
        from_environment({"group": "g"}, {"SEMCAST_CONFIG": str(tmp_path / "none.toml")})


def test_a_file_is_blamed_on_whoever_named_it(tmp_path: Path) -> None:
    """An option goes before the variable, whose file is not even looked at."""
    environment = {"SEMCAST_CONFIG": str(write(tmp_path, TOML))}
    missing = tmp_path / "none.toml"
    with pytest.raises(InputError) as caught:
        from_environment({"group": "g"}, environment, missing)
    assert str(caught.value) == f"cannot read --config {missing}: No such file or directory"
    with pytest.raises(InputError, match=r"^cannot read --config "):
        for_asking({"group": "g"}, environment, missing)
    missing.write_text("group = ")
    with pytest.raises(InputError, match=r"^--config .*none\.toml is not TOML: "):
        from_environment({"group": "g"}, environment, missing)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "group.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        GroupConfig.load(tmp_path / "group.toml")


def test_arguments_go_before_the_environment_and_that_before_a_file(tmp_path: Path) -> None:
    environment = {
        "SEMCAST_CONFIG": str(write(tmp_path, TOML)),
        "SEMCAST_NAME": "b",
        "SEMCAST_MEMBERS": "b, c ,d",
        "SEMCAST_DELIVER_OWN": "FALSE",
        "SEMCAST_WINDOW_MESSAGES": "77",
        "SEMCAST_JOIN_TIMEOUT_S": "2.5",
    }
    config = from_environment({"group": "quotes", "window_messages": 88}, environment)
    assert config.name == "b"
    assert config.members == ("b", "c", "d")
    assert config.deliver_own is False
    assert config.window_messages == 88
    assert config.join_timeout_s == 2.5
    assert config.order == "key"


@pytest.mark.parametrize(
    ("variable", "text"),
    [("PORT", "x"), ("INSECURE", "maybe"), ("TTL", "1.5"), ("JOIN_TIMEOUT_S", "soon")],
)
def test_a_variable_that_makes_no_sense_is_named(variable: str, text: str) -> None:
    environment = {f"SEMCAST_{variable}": text}
    told = refused(lambda: from_environment(GOOD, environment), f"SEMCAST_{variable}", repr(text))
    assert "<class" not in told


def test_the_secret_may_come_from_the_environment() -> None:
    given = {name: value for name, value in GOOD.items() if name != "secret"}
    config = from_environment(given, {"SEMCAST_SECRET": SECRET})
    assert config == configure(GOOD)
