"""Scenarios: a TOML file in, a checked tree of frozen settings out, or one line on what is wrong.

Every key has its unit in its name and its range in its annotation; `docs/design/scenarios.md`
explains each. Knows nothing of how a scenario is run: that is `two_buffers`, `world`, `stability`,
`epidemic` and `propagation`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from semcast.errors import ConfigError, InputError
from semcast.protocol.config import MemberConfig
from semcast.settings import Place, check, for_member
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.lives import require_lives
from semcast.sim.propagation.federation_scenario import FederationScenario
from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.ranges import Between, Settings, read_settings
from semcast.sim.stability.round_scenario import StabilityScenario
from semcast.sim.surroundings import (
    SCENARIO_MEMBERS_MAX,
    Consumer,
    Faults,
    Host,
    Ideal,
    Join,
    Lan,
    Link,
    Medium,
    Milliseconds,
    Network,
    NoCost,
    Nodes,
    ProcessFault,
    Restart,
    Restarts,
    Seconds,
    Shared,
    Tree,
)
from semcast.sim.traffic import Overwrites, Replay, Traffic
from semcast.sim.two_buffers import TwoBuffers
from semcast.wire.limits import Limits

FILE_BYTES_MAX: Final = 1 << 20


# -- the protocol --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol(Settings):
    """How every member is set up: what of `semcast.settings.table` applies to scenarios."""

    # settings: scenario (from semcast.settings.table, written by `make settings`)
    path_mtu_bytes: int = 1_400
    bandwidth_bytes_s: int = 0
    reliability: str = "group"
    order: str = "fifo"
    purging: bool = True
    purge_policy: str = "eager"
    replacement: str = "key"
    k: int = 64
    f: int = 1
    deliver_own: bool = True
    delivery_messages: int = 1_024
    delivery_bytes: int = 67_108_864
    window_messages: int = 1_024
    window_bytes: int = 67_108_864
    total_messages: int = 0
    state: str = "keys"
    standing_keys_max: int = 131_072
    standing_bytes_max: int = 67_108_864
    gossip_period_ms: float = 30.0
    gossip_fanout: int = 3
    gossip_messages: int = 0
    stability: str = "gossip"
    stability_branching: int = 4
    stability_tree: str = "filled"
    stability_period_ms: float = 0.0
    stability_delta: bool = False
    stability_ride_ms: float = 0.0
    safety_rest_messages: int = 0
    nak_delay_ms: float = 2.0
    membership: str = "closed"
    sealed: bool = False
    # end of settings

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, Place.SCENARIO)
        self.config()

    def config(self) -> MemberConfig:
        """The same, as a member takes it."""
        limits = Limits(path_mtu_bytes=self.path_mtu_bytes)
        return MemberConfig(limits=limits, **for_member(self, Place.SCENARIO))


# -- scenarios -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoBufferScenario(TwoBuffers):
    """The two-buffer model, with a name and a seed."""

    model: Literal["two-buffers"] = "two-buffers"
    title: str = ""
    seed: int = 1


@dataclass(frozen=True)
class ProtocolScenario(Settings):
    """A group of members that run the real protocol."""

    members: Annotated[int, Between(1, SCENARIO_MEMBERS_MAX)]
    model: Literal["protocol"] = "protocol"
    title: str = ""
    seed: int = 1
    duration_s: Annotated[float, Between(1e-3, 1e7)] = 60.0
    warm_up_s: Seconds = 10.0
    # How long after the traffic the run goes on at most, until nothing is left to deliver or keep.
    drain_s: Seconds = 60.0
    senders: Nodes = (0,)
    # Of an open group: those that only receive.
    readers: Nodes = ()
    traffic: Traffic = field(default_factory=Overwrites)
    protocol: Protocol = field(default_factory=Protocol)
    network: Network = field(default_factory=Lan)
    links: tuple[Link, ...] = ()
    faults: Faults = field(default_factory=Faults)
    host: Host = field(default_factory=NoCost)
    consumers: tuple[Consumer, ...] = ()
    processes: tuple[ProcessFault | Restarts, ...] = ()
    # How long after a crash for good the others learn of it; after a member left, at most so long.
    detection_ms: Milliseconds = 500.0
    # Datagrams that wait for a paused process; more are lost.
    socket_datagrams: Annotated[int, Between(0, 1_000_000)] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol.reliability == "gossip":
            raise ConfigError(
                "protocol.reliability is 'gossip' with model 'protocol', whose members do not; "
                "say model = 'gossip' and [gossip] instead, as in examples/scenarios/psrm.toml"
            )
        if self.warm_up_s >= self.duration_s:
            raise ConfigError(
                f"warm_up_s is {self.warm_up_s:g} and duration_s {self.duration_s:g}; "
                "nothing would be left to measure"
            )
        if not self.senders or len(set(self.senders)) != len(self.senders):
            raise ConfigError(f"senders is {list(self.senders)}; name at least one, and none twice")
        self._require_open()
        counted = self.protocol.reliability == "group" and not self.open
        if counted and self.protocol.f >= self.members:
            raise ConfigError(
                f"protocol.f is {self.protocol.f}, but the group has {self.members} members"
            )
        if isinstance(self.network, Tree) and len(self.network.parents()) != self.members:
            raise ConfigError(
                f"members is {self.members}, but the tree has {len(self.network.parents())} nodes"
            )
        narrows = any(one.bandwidth_mbit_s for one in self.links)
        if isinstance(self.network, Ideal | Medium) and narrows:
            kind = self.network.kind
            raise ConfigError(f"network {kind!r} has no bandwidth that links could change")
        if isinstance(self.network, Shared) and self.members < 2:
            raise ConfigError(f"members is {self.members}; a shared network needs at least 2")
        self._require_members()
        require_lives(self.members, self._numbered())

    @property
    def open(self) -> bool:
        """Whether processes come and go."""
        return self.protocol.membership == "open"

    def _require_open(self) -> None:
        """Only processes of an open group come later or only read; readers do not send."""
        joins = any(isinstance(fault, Join) for fault in self.processes)
        if not self.open and (joins or self.readers):
            what = "a process that joins" if joins else "readers"
            raise ConfigError(f"{what}, but the group is closed; say protocol.membership = 'open'")
        for member in self.readers:
            if member in self.senders:
                raise ConfigError(
                    f"member {member} is in senders and in readers; readers send nothing"
                )

    def _require_members(self) -> None:
        """Every member that is named exists."""
        named = {
            "senders": self.senders,
            "readers": self.readers,
            "faults.to_members": self.faults.to_members,
        }
        for at, link in enumerate(self.links):
            named[f"links[{at}].member"] = (link.member,)
        for at, consumer in enumerate(self.consumers):
            named[f"consumers[{at}].members"] = consumer.members
        for at, partition in enumerate(self.faults.partitions):
            named[f"faults.partitions[{at}].members"] = partition.members
        for at, fault in enumerate(self.processes):
            last = fault.member + fault.count - 1 if isinstance(fault, Join) else fault.member
            named[f"processes[{at}].member"] = (fault.member, last)
        for key, members in named.items():
            for member in members:
                if member >= self.members:
                    raise ConfigError(
                        f"{key} names member {member}; members go from 0 to {self.members - 1}"
                    )

    def process_faults(self) -> tuple[ProcessFault, ...]:
        """What happens to processes, with every crash and restart by itself."""
        return tuple(fault for _, fault in self._numbered())

    def _numbered(self) -> Iterator[tuple[int, ProcessFault]]:
        """The same, each with the place of the table in `processes` that says so."""
        for at, fault in enumerate(self.processes):
            if isinstance(fault, Restarts | Join):
                for one in fault.each():
                    yield at, one
            else:
                yield at, fault

    def come_later(self) -> set[int]:
        """The processes that do not start with the run."""
        return {fault.member for fault in self.process_faults() if isinstance(fault, Join)}

    def comes_back(self, member: int, after_s: float) -> bool:
        """Whether a crashed member restarts at some time."""
        return any(
            isinstance(fault, Restart) and fault.member == member and fault.at_s >= after_s
            for fault in self.process_faults()
        )


Scenario: TypeAlias = (
    TwoBufferScenario
    | ProtocolScenario
    | StabilityScenario
    | GossipScenario
    | GraphScenario
    | FederationScenario
)
MODELS: Final[dict[str, type[Scenario]]] = {
    "two-buffers": TwoBufferScenario,
    "protocol": ProtocolScenario,
    "stability": StabilityScenario,
    "gossip": GossipScenario,
    "propagation-graph": GraphScenario,
    "federation": FederationScenario,
}


def load(path: Path, changes: Sequence[str] = ()) -> Scenario:
    """The scenario in a file, with changes such as `protocol.k=32` made to it first."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise InputError(f"{path}: more than {FILE_BYTES_MAX} bytes; a scenario is a short file")
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    for change in changes:
        _change(table, change)
    scenario = parse(table, str(path))
    trace = trace_of(scenario)
    if trace is not None and not Path(trace.file).is_absolute():
        # Traces are named as seen from the scenario, wherever it is run from.
        traffic = {**table["traffic"], "file": str(path.parent / trace.file)}
        scenario = parse({**table, "traffic": traffic}, str(path))
    return scenario


def trace_of(scenario: Scenario) -> Replay | None:
    """The trace that a scenario replays, if it does."""
    if isinstance(scenario, StabilityScenario | GraphScenario):
        return None
    return scenario.traffic if isinstance(scenario.traffic, Replay) else None


def parse(table: Mapping[str, object], where: str) -> Scenario:
    """The scenario in a table of settings."""
    model = table.get("model")
    if not isinstance(model, str) or model not in MODELS:
        shown = "missing" if model is None else repr(model)
        choices = ", ".join(map(repr, MODELS))
        raise InputError(f"{where}: model is {shown}; choose one of {choices}")
    return read_settings(MODELS[model], table, where)


def _change(table: dict[str, Any], change: str) -> None:
    """Make one change, `key=value` with dots in the key; lists by number: consumers.0.delay_ms=5"""
    key, equals, text = change.partition("=")
    if not (key.strip() and equals):
        raise InputError(f"--set {change!r}: write key=value, for instance protocol.k=32")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a word without quotes
    *way, last = key.strip().split(".")
    place: Any = table
    try:
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        place[int(last) if isinstance(place, list) else last] = value
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"--set {change!r}: the scenario has no place for it") from error
