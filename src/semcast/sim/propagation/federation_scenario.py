"""What a simulated federation is made of: sites, groups, traffic to them, network, and protocol.

Frozen settings with their ranges, as `sim.scenario` reads them; `docs/design/scenarios.md` explains
each. Knows nothing of how it is run.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from semcast.errors import ConfigError
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.config import FederationConfig, check_group_name, check_groups
from semcast.protocol.propagation.federated import GROUPS_MAX, SITES_MAX
from semcast.sim.lives import require_lives
from semcast.sim.ranges import Between, Settings
from semcast.sim.surroundings import (
    Consumer,
    Crash,
    Faults,
    Host,
    Ideal,
    Join,
    Leave,
    Milliseconds,
    Network,
    NoCost,
    Node,
    Nodes,
    Pause,
    ProcessFault,
    Restart,
    Seconds,
    Slow,
    Tree,
)
from semcast.sim.traffic import Chains, Overwrites, Replay, Traffic
from semcast.wire.limits import Limits

PROPAGATION: Final = "propagation"
TWO_PHASE: Final = "two-phase"
CENTRAL: Final = "central"
_MS_NS: Final = 1_000_000


@dataclass(frozen=True)
class GroupOf(Settings):
    """A group, and the sites that are in it."""

    name: str
    sites: Nodes

    def __post_init__(self) -> None:
        super().__post_init__()
        check_group_name(self.name)
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise ConfigError(
                f"group {self.name!r} has sites {list(self.sites)}; name at least one, none twice"
            )


@dataclass(frozen=True)
class RandomGroups(Settings):
    """Groups whose sites are drawn evenly from all (PROP §4.1)."""

    number: Annotated[int, Between(1, GROUPS_MAX)] = 10
    # How many sites a group has; if sizes are exponential, on average.
    size: Annotated[int, Between(1, SITES_MAX)] = 5
    sizes: Literal["fixed", "exponential"] = "fixed"

    def draw(self, sites: int, rng: random.Random) -> dict[str, tuple[int, ...]]:
        """The groups of one run."""
        found: dict[str, tuple[int, ...]] = {}
        for number in range(self.number):
            size = self.size
            if self.sizes == "exponential":
                size = max(1, round(rng.expovariate(1 / self.size)))
            members = rng.sample(range(sites), min(size, sites))
            found[f"g{number}"] = tuple(sorted(members))
        return found


@dataclass(frozen=True)
class SiteRestart(Settings):
    """A crashed site comes back in another life: with what it had written down, or without."""

    member: Node
    at_s: Seconds
    store: bool = True
    kind: Literal["restart"] = "restart"


@dataclass(frozen=True)
class Change(Settings):
    """From now on a site wants to be a member of these groups and no others (PROP §5.1)."""

    member: Node
    at_s: Seconds
    groups: tuple[str, ...]
    kind: Literal["change"] = "change"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.groups:
            check_group_name(name)


SiteFault: TypeAlias = Crash | SiteRestart | Pause | Slow | Leave | Join | Change


@dataclass(frozen=True)
class FederationSettings(Settings):
    """Which protocol orders the messages, and what sites may hold."""

    protocol: Literal["propagation", "two-phase", "central"] = "propagation"
    # How the propagation graph is chosen; and the site that is the primary destination of all
    # groups, if the protocol is "central".
    rule: str = "greedy"
    central_site: Node = 0
    recovery: Literal["non-atomic", "atomic"] = "non-atomic"
    null_ms: Milliseconds = 100.0
    silence_ms: Milliseconds = 1000.0
    settle_ms: Milliseconds = 20.0
    forward_messages: Annotated[int, Between(1, 1 << 20)] = 1_024
    wait_messages: Annotated[int, Between(1, 1 << 20)] = 256
    history_messages: Annotated[int, Between(1, 1 << 20)] = 1 << 14
    window_messages: Annotated[int, Between(1, 1 << 20)] = 1_024
    delivery_messages: Annotated[int, Between(1, 1 << 20)] = 1_024
    purging: bool = True
    replacement: Literal["key", "bitmap"] = "key"
    k: Annotated[int, Between(0, 16_384)] = 64
    deliver_own: bool = True
    path_mtu_bytes: Annotated[int, Between(576, 65_507)] = 1_400
    sealed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config()
        self.member_config()

    def config(self) -> FederationConfig:
        """What all sites agree on."""
        return FederationConfig(
            recovery=self.recovery,
            rule=self.rule,
            null_ns=round(self.null_ms * _MS_NS),
            silence_ns=round(self.silence_ms * _MS_NS),
            settle_ns=round(self.settle_ms * _MS_NS),
            forward_messages=self.forward_messages,
            wait_messages=self.wait_messages,
            history_messages=self.history_messages,
        )

    def member_config(self) -> MemberConfig:
        """What each site may hold."""
        return MemberConfig(
            purging=self.purging,
            replacement=self.replacement,
            k=self.k,
            deliver_own=self.deliver_own,
            delivery_messages=self.delivery_messages,
            window_messages=self.window_messages,
            limits=Limits(path_mtu_bytes=self.path_mtu_bytes),
        )


@dataclass(frozen=True)
class FederationScenario(Settings):
    """Sites in overlapping groups, whose messages have one order."""

    sites: Annotated[int, Between(1, SITES_MAX)]
    model: Literal["federation"] = "federation"
    title: str = ""
    seed: int = 1
    duration_s: Annotated[float, Between(1e-3, 1e7)] = 10.0
    warm_up_s: Seconds = 0.0
    # How long after the traffic the run goes on at most, until nothing is left to do.
    drain_s: Seconds = 60.0
    # The groups; or how to draw them, one or the other.
    groups: tuple[GroupOf, ...] = ()
    random_groups: RandomGroups | None = None
    # Who sends; if nobody is named, all sites. And to which groups: those that it is in, those
    # that it is not in, or all. Each message goes to one of them, drawn evenly.
    senders: Nodes = ()
    to: Literal["own", "others", "any"] = "own"
    traffic: Traffic = field(default_factory=Overwrites)
    federation: FederationSettings = field(default_factory=FederationSettings)
    network: Network = field(default_factory=Ideal)
    faults: Faults = field(default_factory=Faults)
    host: Host = field(default_factory=NoCost)
    consumers: tuple[Consumer, ...] = ()
    processes: tuple[SiteFault, ...] = ()
    # Datagrams that wait for a paused site; more are lost.
    socket_datagrams: Annotated[int, Between(0, 1_000_000)] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_up_s >= self.duration_s:
            raise ConfigError(
                f"warm_up_s is {self.warm_up_s:g} and duration_s {self.duration_s:g}; "
                "nothing would be left to measure"
            )
        if bool(self.groups) == (self.random_groups is not None):
            raise ConfigError("name the groups, or say random_groups: one of them, and not both")
        drawn = self.random_groups
        if drawn is not None and drawn.sizes == "fixed" and drawn.size > self.sites:
            raise ConfigError(
                f"random_groups.size is {drawn.size}, but there are only {self.sites} sites"
            )
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise ConfigError(f"groups are named {names}; each needs a name of its own")
        if isinstance(self.traffic, Chains | Replay):
            raise ConfigError(
                f"traffic {self.traffic.kind!r} says who sends what; sites of a federation send "
                "each for itself: choose another kind"
            )
        if isinstance(self.network, Tree) and len(self.network.parents()) != self.sites:
            raise ConfigError(
                f"sites is {self.sites}, but the tree has {len(self.network.parents())} nodes"
            )
        self._require_sites()
        self._require_processes()

    def _require_sites(self) -> None:
        """Every site that is named exists."""
        named: dict[str, tuple[int, ...]] = {
            "senders": self.senders,
            "faults.to_members": self.faults.to_members,
            "federation.central_site": (self.federation.central_site,),
        }
        for group in self.groups:
            named[f"group {group.name!r}"] = group.sites
        for at, consumer in enumerate(self.consumers):
            named[f"consumers[{at}].members"] = consumer.members
        for at, partition in enumerate(self.faults.partitions):
            named[f"faults.partitions[{at}].members"] = partition.members
        for at, fault in enumerate(self.processes):
            last = fault.member + (fault.count - 1 if isinstance(fault, Join) else 0)
            named[f"processes[{at}].member"] = (fault.member, last)
        for key, sites in named.items():
            for site in sites:
                if site >= self.sites:
                    raise ConfigError(
                        f"{key} names site {site}; sites go from 0 to {self.sites - 1}"
                    )
        check_groups(dict.fromkeys([group.name for group in self.groups], ()), self.sites)

    def _require_processes(self) -> None:
        require_lives(self.sites, self._numbered())
        if self.federation.protocol != TWO_PHASE:
            return
        for at, fault in enumerate(self.processes):
            if not isinstance(fault, Crash | Pause | Slow):
                raise ConfigError(
                    f"processes[{at}]: {fault.kind} with protocol 'two-phase', whose groups never "
                    "change; sites may crash there, pause or become slow"
                )

    def _numbered(self) -> Iterator[tuple[int, ProcessFault]]:
        """What happens to lives, each with the place of the table in `processes` that says so."""
        for at, fault in enumerate(self.processes):
            if isinstance(fault, Join):
                for one in fault.each():
                    yield at, one
            elif isinstance(fault, SiteRestart):
                yield at, Restart(fault.member, fault.at_s)
            elif not isinstance(fault, Change):
                yield at, fault

    def process_faults(self) -> tuple[ProcessFault, ...]:
        """What happens to lives, each crash and start by itself."""
        return tuple(fault for _, fault in self._numbered())

    def come_later(self) -> set[int]:
        """The sites that do not start with the run."""
        return {fault.member for fault in self.process_faults() if isinstance(fault, Join)}

    def groups_of_run(self, seed: int) -> dict[str, tuple[int, ...]]:
        """By group: the sites that are in it from their beginning."""
        if self.random_groups is not None:
            return self.random_groups.draw(self.sites, random.Random(f"{seed}/groups"))
        return {group.name: tuple(sorted(group.sites)) for group in self.groups}

    def sending_sites(self) -> tuple[int, ...]:
        """Who sends."""
        return self.senders or tuple(range(self.sites))
