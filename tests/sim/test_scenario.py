"""Scenarios: what a file may say, what it may not, and that all of it is documented."""

import re
import tomllib
import typing
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import InputError
from semcast.sim import scenario as scenarios
from semcast.sim import surroundings as around
from semcast.sim.ranges import hints_of
from semcast.sim.scenario import MODELS, ProtocolScenario, TwoBufferScenario, load, parse
from semcast.sim.stability.round_scenario import StabilityScenario
from semcast.sim.surroundings import Crash, Lan, Restart, Restarts
from semcast.sim.traffic import Game, Replay

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/scenarios").glob("*.toml"))
TWO_BUFFERS = 'model = "two-buffers"\n'
PROTOCOL = 'model = "protocol"\nmembers = 3\n'
RESTARTS = (
    "processes = [{kind = 'restarts', member = 1, at_s = 2, every_s = %s, down_s = %s, times = %s}"
)


def parsed(text: str) -> scenarios.Scenario:
    return parse(tomllib.loads(text), "test.toml")


def protocol(text: str) -> ProtocolScenario:
    found = parsed(PROTOCOL + text)
    assert isinstance(found, ProtocolScenario)
    return found


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parsed(text)
    said = str(caught.value)
    assert said.startswith("test.toml: ")
    assert "\n" not in said
    return said.removeprefix("test.toml: ")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_scenario_and_says_what_it_shows_and_where(path: Path) -> None:
    assert load(path).title
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert re.search(r"\[(SRM|OBS|PSRM|STAB|PROP) §\d", " ".join(comment))


def test_the_examples_that_were_promised_are_there() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "fig5-purging", "fig5-no-purging", "fig5-small-buffer", "fig5-protocol", "slow-reader",
        "group-64", "stability", "stability-wan", "stability-scale", "stability-random",
        "stability-trigger", "restarts", "prop-graphs", "prop-map",
    }  # fmt: skip


def test_a_file_says_only_what_differs_from_the_defaults() -> None:
    assert parsed(TWO_BUFFERS) == TwoBufferScenario()
    assert protocol("") == ProtocolScenario(members=3)


def test_restarts_are_as_many_crashes_and_restarts() -> None:
    found = protocol(RESTARTS % ("1", "0.25", "2") + "]")
    assert found.processes == (Restarts(1, at_s=2.0, every_s=1.0, down_s=0.25, times=2),)
    assert found.process_faults() == (
        Crash(1, 2.0),
        Restart(1, 2.25),
        Crash(1, 3.0),
        Restart(1, 3.25),
    )
    assert found.comes_back(1, 3.0)
    assert not found.comes_back(1, 3.5)


def test_every_part_of_a_group_can_be_set() -> None:
    found = protocol("""
        senders = [0, 2]
        traffic = { kind = "game", rounds_s = 20 }
        network = { kind = "lan", stack_us = 12 }
        protocol = { gossip_period_ms = 2.5, nak_delay_ms = 1, k = 0 }
        faults = { loss = 0.1, partitions = [{ members = [1], at_s = 1, until_s = 2.5 }] }
        consumers = [{ members = [1, 2], delay_ms = 5 }]
        processes = [{ kind = "crash", member = 1, at_s = 3 }]
        host = { kind = "costs", send_us = 338, send_us_per_byte = 0.1175 }
    """)
    assert found.senders == (0, 2)
    assert found.traffic == Game(rounds_s=20)
    assert found.network == Lan(stack_us=12)
    assert found.protocol.config().gossip_period_ns == 2_500_000
    assert found.faults.partitions[0].until_s == 2.5
    assert found.processes == (Crash(member=1, at_s=3.0),)
    assert found.consumers[0].members == (1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "model is missing; choose one of 'two-buffers', 'protocol'"),
        ('model = "x"', "model is 'x'; choose one of 'two-buffers', 'protocol'"),
        ("model = 3", "model is 3; choose"),
        (TWO_BUFFERS + "slow_delay = 3", "unknown key 'slow_delay'; known are traffic, buffers,"),
        (TWO_BUFFERS + "duration_s = '3'", "duration_s is '3'; it must be a number"),
        (TWO_BUFFERS + "duration_s = nan", "duration_s is nan; it goes from 0.001 to 1e+07"),
        (TWO_BUFFERS + "seed = true", "seed is True; it must be a whole number"),
        (TWO_BUFFERS + "buffers = 3", "buffers is 3; it must be a table"),
        (TWO_BUFFERS + "buffers.k = 1.5", "buffers: k is 1.5; it must be a whole number"),
        (TWO_BUFFERS + "buffers.k = 2000", "buffers: k is 2000; it goes from 0 to 1024"),
        (TWO_BUFFERS + "buffers.layout = 'both'", "buffers: layout is 'both'; choose one of"),
        (TWO_BUFFERS + "traffic.r = 0.5", "traffic.kind is missing; choose one of 'overwrites'"),
        (TWO_BUFFERS + "traffic = 1", "traffic.kind is missing"),
        (TWO_BUFFERS + "traffic = {kind='game', r=1}", "traffic: unknown key 'r'; known are kind"),
        (TWO_BUFFERS + "traffic = {kind='replay'}", "traffic: key 'file' is missing"),
        (TWO_BUFFERS + "warm_up_s = 400", "warm_up_s is 400 and duration_s 400; nothing"),
        ('model = "protocol"', "key 'members' is missing"),
        (PROTOCOL + "senders = 0", "senders is 0; it must be a list"),
        (PROTOCOL + "senders = [0.5]", "senders[0] is 0.5; it must be a whole number"),
        (PROTOCOL + "senders = []", "senders is []; name at least one"),
        (PROTOCOL + "senders = [3]", "senders names member 3; members go from 0 to 2"),
        (PROTOCOL + "senders = [-1]", "senders is -1; it goes from 0"),
        (PROTOCOL + "protocol.f = 3", "protocol.f is 3, but the group has 3 members"),
        (PROTOCOL + "protocol.reliability = 'gossip'", "protocol.reliability is 'gossip' with"),
        (PROTOCOL + "protocol.window_bytes = 9", "protocol: window_bytes is 9: too small"),
        (PROTOCOL + "consumers = [{members = [1]}]", "consumers[0]: key 'delay_ms' is missing"),
        (PROTOCOL + "consumers = [{members = [4], delay_ms = 1}]", "consumers[0].members names"),
        (PROTOCOL + "processes = [{member = 1}]", "processes[0].kind is missing; choose one of"),
        (
            PROTOCOL + "processes = [{kind = 'crash', member = 9, at_s = 1}]",
            "processes[0].member names member 9",
        ),
        (
            PROTOCOL + "processes = [{kind = 'restart', member = 1, at_s = 1}]",
            "processes[0]: restart of member 1 at 1 s, when it is alive",
        ),
        (
            PROTOCOL
            + "processes = [{kind = 'pause', member = 1, at_s = 9, for_s = 1}, "
            + "{kind = 'crash', member = 1, at_s = 4}]",
            "processes[0]: pause of member 1 at 9 s, when it is gone",
        ),
        (
            PROTOCOL
            + "processes = [{kind = 'pause', member = 1, at_s = 2, for_s = 3}, "
            + "{kind = 'pause', member = 1, at_s = 4, for_s = 1}]",
            "processes[1]: pause of member 1 at 4 s, when it is paused until 5 s",
        ),
        (
            PROTOCOL + RESTARTS % ("1", "0.5", "3.5") + "]",
            "processes[0]: times is 3.5; it must be a whole",
        ),
        (PROTOCOL + RESTARTS % ("1", "0.5", "0") + "]", "processes[0]: times is 0; it goes from 1"),
        (
            PROTOCOL + RESTARTS % ("0", "0", "3") + "]",
            "processes[0]: every_s is 0; it goes from 1e-06",
        ),
        (
            PROTOCOL + RESTARTS % ("1", "1", "3") + "]",
            "processes[0]: down_s is 1 and every_s 1; a process must be back before it crashes",
        ),
        (
            PROTOCOL + RESTARTS % ("1", "0.5", "3") + ", {kind = 'crash', member = 1, at_s = 4.2}]",
            "processes[1]: crash of member 1 at 4.2 s, when it is gone",
        ),
        (
            PROTOCOL + "processes = [{kind = 'leave', member = 1, at_s = 3}, "
            "{kind = 'restart', member = 1, at_s = 9}]",
            "processes[1]: restart of member 1 at 9 s, when it is leaving, or has left for good",
        ),
        (
            PROTOCOL + "processes = [{kind = 'join', member = 1, at_s = 3}]",
            "a process that joins, but the group is closed",
        ),
        (PROTOCOL + "readers = [2]", "readers, but the group is closed"),
        (
            PROTOCOL + "readers = [0]\nprotocol.membership = 'open'",
            "member 0 is in senders and in readers",
        ),
        (
            PROTOCOL + "protocol.membership = 'open'\n"
            "processes = [{kind = 'join', member = 1, at_s = 3, count = 3}]",
            "processes[0].member names member 3",
        ),
        (
            PROTOCOL + "protocol.membership = 'open'\n"
            "processes = [{kind = 'crash', member = 1, at_s = 1}, "
            "{kind = 'join', member = 1, at_s = 3}]",
            "processes[0]: crash of member 1 at 1 s, when it is gone",
        ),
        (
            PROTOCOL + "protocol.membership = 'open'\n"
            "processes = [{kind = 'join', member = 1, at_s = 1}, "
            "{kind = 'join', member = 1, at_s = 3}]",
            "processes[1]: join of member 1 at 3 s, when it is alive",
        ),
        (PROTOCOL + "protocol.membership = 'ajar'", "protocol: membership"),
        (
            PROTOCOL + "network = {kind = 'tree', branching = 3, height = 1, leaf_degree = 3}",
            "members is 3, but the tree has 4 nodes",
        ),
        (
            PROTOCOL + "network = {kind = 'tree', branching = 2, leaf_degree = 3}",
            "network: a tree of branching 2, height 3 and leaf degree 3",
        ),
        (
            PROTOCOL + "network = {kind = 'tree', branching = 9, height = 9}",
            "network: branching is 9 and height 9; a group has at most 10000 members",
        ),
        (
            PROTOCOL + "network = {kind = 'ideal'}\nlinks = [{member = 1, bandwidth_mbit_s = 1}]",
            "network 'ideal' has no bandwidth",
        ),
        (PROTOCOL + "links = [{member = 5}]", "links[0].member names member 5"),
        (
            PROTOCOL + "faults.partitions = [{members = [1], at_s = 2, until_s = 2}]",
            "faults: partitions[0]: until_s is 2; it must be after at_s 2",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_key_its_value_and_what_is_allowed(
    text: str, said: str
) -> None:
    assert complaint(text).startswith(said)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["model", "members", "traffic", "kind", "protocol", "processes", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(sorted(MODELS)),
)
def test_whatever_a_file_holds_is_a_scenario_or_an_input_error(content: object, model: str) -> None:
    table = {"model": model, **(content if isinstance(content, dict) else {"traffic": content})}
    with suppress(InputError):
        parse(table, "test.toml")


# -- files and changes -----------------------------------------------------------------------------


def test_a_trace_is_named_as_seen_from_the_scenario(tmp_path: Path) -> None:
    path = tmp_path / "replay.toml"
    path.write_text(TWO_BUFFERS + "traffic = { kind = 'replay', file = 'quotes.csv', speed = 2 }\n")
    found = load(path)
    assert isinstance(found, TwoBufferScenario)
    assert found.traffic == Replay(file=str(tmp_path / "quotes.csv"), speed=2)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"model =", "not TOML"), (b"\xff\xfe", "not TOML"), (b"#" * (1 << 20) + b"\n", "more than")],
)
def test_a_file_that_is_no_toml_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"bad.toml: {said}"):
        load(path)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    path = tmp_path / "group.toml"
    path.write_text(PROTOCOL + "consumers = [{ members = [2], delay_ms = 20 }]\n")
    return path


def test_changes_are_made_before_anything_is_checked(group: Path) -> None:
    changes = [
        "consumers.0.delay_ms=5", "protocol.k=32", "traffic.kind=game", "protocol.purging = false",
        "title=two words", "network={kind='ideal', latency_us=3}", "members=5",
    ]  # fmt: skip
    found = load(group, changes)
    assert isinstance(found, ProtocolScenario)
    assert found.consumers[0].delay_ms == 5
    assert (found.protocol.k, found.protocol.purging) == (32, False)
    assert found.traffic == Game()
    assert found.title == "two words"
    assert (found.network.kind, found.members) == ("ideal", 5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("protocol.k", "write key=value"),
        ("=3", "write key=value"),
        ("consumers.1.delay_ms=5", "no place for it"),
        ("consumers.x.delay_ms=5", "no place for it"),
        ("members.x=5", "no place for it"),
        ("protocol.kk=5", "unknown key 'kk'"),
        ("protocol.k=many", "k is 'many'"),
    ],
)
def test_a_change_that_cannot_be_made_is_one_line(group: Path, change: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        load(group, [change])


# -- documentation ---------------------------------------------------------------------------------


def settings_classes(cls: type) -> dict[type, None]:
    """A settings class and all those that its annotations mention."""
    found = {cls: None}
    for hint in hints_of(cls).values():
        for inner in (hint, *typing.get_args(hint)):
            if is_dataclass(inner) and isinstance(inner, type):
                found |= settings_classes(inner)
            for choice in typing.get_args(inner):
                if is_dataclass(choice) and isinstance(choice, type):
                    found |= settings_classes(choice)
    return found


ALL_SETTINGS = [
    *settings_classes(TwoBufferScenario),
    *settings_classes(ProtocolScenario),
    *settings_classes(StabilityScenario),
]


def test_the_walk_over_settings_finds_them_at_every_depth() -> None:
    assert {around.Partition, around.Pause, Game, Lan, around.Consumer} <= {*ALL_SETTINGS}


@pytest.mark.parametrize("cls", dict.fromkeys(ALL_SETTINGS), ids=lambda cls: cls.__name__)
def test_every_key_is_documented(cls: type) -> None:
    note = (ROOT / "docs/design/scenarios.md").read_text()
    for field in fields(cls):
        assert f"`{field.name}`" in note
