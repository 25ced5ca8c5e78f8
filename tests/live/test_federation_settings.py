"""What a user may say of a federation, and what is refused in one clear line."""

import re
from typing import Any

import pytest

import semcast
import semcast.blocking
from semcast.errors import ConfigError
from semcast.live.config import GroupConfig, configure
from semcast.live.federation_settings import awaited, federation_config, own_groups
from semcast.protocol.propagation.rule_names import CENTRAL, RULE_NAMES
from semcast.settings.table import FEDERATION_PROTOCOLS, FEDERATION_RULES

SECRET = "a secret that only tests have"


def configured(**settings: Any) -> GroupConfig:
    given = {"group": "bank", "name": "a", "secret": SECRET, "reliability": "federation"}
    return configure(given | settings)


def test_a_site_is_in_the_groups_that_it_or_the_table_of_sites_names() -> None:
    assert own_groups(configured(groups=["alpha", "beta"])) == ("alpha", "beta")
    sites = {"b": ["alpha"], "a": ["beta", "gamma"]}
    assert own_groups(configured(sites=sites)) == ("beta", "gamma")
    assert awaited(configured(sites=sites)) == ("a", "b")
    assert own_groups(configured()) == ()


def test_times_are_what_the_protocol_is_told() -> None:
    found = federation_config(configured(null_ms=20, silence_ms=250, recovery="atomic"))
    assert (found.null_ns, found.silence_ns, found.atomic) == (20_000_000, 250_000_000, True)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"groups": ["alpha", "alpha"]}, "'a' is in a group twice: alpha, alpha"),
        ({"groups": [""]}, "group name ''; it has 1 to 64 bytes in UTF-8"),
        ({"groups": ["x" * 65]}, "it has 1 to 64 bytes in UTF-8"),
        ({"groups": "alpha"}, "groups is 'alpha'; it must be a list of names"),
        ({"sites": {"b": ["alpha"]}}, "this site is called 'a', which is not among sites: b"),
        ({"sites": {"a": "alpha"}}, "sites is {'a': 'alpha'}; it must say for each site"),
        ({"sites": 7}, "sites is 7; it must say for each site the list of groups"),
        (
            {"sites": {"a": ["alpha"]}, "groups": ["beta"]},
            "groups is beta, but sites says that 'a' is in alpha; leave out one of them",
        ),
        ({"recovery": "sometimes"}, "recovery is 'sometimes'; choose one of"),
        ({"rule": "oak"}, "rule is 'oak'; choose one of"),
        (
            {"null_ms": 600.0},
            "null_ms is 600 and silence_ms 1000: a site must be silent for two periods at least",
        ),
        ({"size": 3}, "size is 3 in a federation: name the sites and their groups in sites"),
        ({"order": "key"}, "order is 'key' in a federation: there all messages come in one order"),
        ({"protocol": "two-phase"}, "protocol 'two-phase' without sites; name all of them"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)) as refused:
        configured(**settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["groups", "history", "recovery"])
def test_settings_of_federations_are_refused_in_groups(name: str) -> None:
    value: Any = {"groups": ["alpha"], "history": "folder", "recovery": "atomic"}[name]
    with pytest.raises(ConfigError, match=f"^{name} is .*; it is for federations: use federate$"):
        configure({"group": "bank", "secret": SECRET, name: value})


def test_each_door_leads_to_its_own_kind() -> None:
    for join in (semcast.join, semcast.blocking.join):
        with pytest.raises(ConfigError, match="'bank' is to be a federation; use federate"):
            join("bank", secret=SECRET, reliability="federation")


@pytest.mark.parametrize(
    ("hooks", "text"),
    [
        ({"undo": 3}, "undo is 3; it must be a function"),
        ({"only": 5}, "only=5; say a prefix of keys"),
        ({"only": ["A", 5]}, "only=5; say a prefix of keys"),
    ],
)
def test_hooks_are_checked_before_anything_begins(hooks: dict[str, Any], text: str) -> None:
    for federate in (semcast.federate, semcast.blocking.federate):
        with pytest.raises(ConfigError, match=re.escape(text)):
            federate("bank", secret=SECRET, groups=("alpha",), **hooks)
    if "undo" not in hooks:
        with pytest.raises(ConfigError, match=re.escape(text)):
            semcast.blocking.join("quotes", secret=SECRET, **hooks)
    with pytest.raises(ConfigError, match="snapshot is 'no'; it must be a function"):
        semcast.join("quotes", secret=SECRET, snapshot="no", restore=print)  # type: ignore[arg-type]


def test_names_of_sites_are_checked() -> None:
    with pytest.raises(ConfigError, match="it needs 1 to 64 bytes of printable text"):
        semcast.federate("bank", name="a", secret=SECRET, sites={"a": ("x",), "b\n": ("x",)})


def test_every_rule_that_there_is_may_be_chosen() -> None:
    assert {*FEDERATION_RULES, CENTRAL} == set(RULE_NAMES)


def test_every_protocol_is_one_that_there_is() -> None:
    for protocol in FEDERATION_PROTOCOLS:
        sites = {"a": ("alpha",), "b": ("alpha",)}
        assert configured(protocol=protocol, sites=sites).protocol == protocol
