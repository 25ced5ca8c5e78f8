"""What surrounds the members of a scenario: network, hosts, applications, and what goes wrong.

Frozen settings with their ranges, as `scenario` reads them; `docs/design/scenarios.md` explains
each. Knows nothing of the group that they apply to, so it cannot say whether a member exists.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from semcast.errors import ConfigError
from semcast.sim.network import tree_parents
from semcast.sim.ranges import Between, Settings
from semcast.sim.traffic import Share

SCENARIO_MEMBERS_MAX: Final = 10_000
Seconds: TypeAlias = Annotated[float, Between(0, 1e7)]
Milliseconds: TypeAlias = Annotated[float, Between(0, 3_600_000)]
Microseconds: TypeAlias = Annotated[float, Between(0, 3_600_000_000)]
Node: TypeAlias = Annotated[int, Between(0, 65_535)]
Nodes: TypeAlias = Annotated[tuple[int, ...], Between(0, 65_535)]
MbitS: TypeAlias = Annotated[float, Between(1e-6, 1e6)]


# -- the network, the hosts, and what goes wrong --------------------------------------------------


@dataclass(frozen=True)
class Ideal(Settings):
    """Every datagram takes the same time, whatever its size."""

    kind: Literal["ideal"] = "ideal"
    latency_us: Microseconds = 100.0


@dataclass(frozen=True)
class Lan(Settings):
    """A switched, duplex network: the testbed of SRM §6.1."""

    kind: Literal["lan"] = "lan"
    bandwidth_mbit_s: MbitS = 100.0
    stack_us: Microseconds = 10.0
    # The queue of each link, up or down; what does not fit is lost. 0: no bound.
    queue_bytes: Annotated[int, Between(0, 1 << 40)] = 0


@dataclass(frozen=True)
class Shared(Settings):
    """Bandwidth divided equally over all directed pairs (PSRM §4.2)."""

    kind: Literal["shared"] = "shared"
    bandwidth_mbit_s: MbitS = 10.0
    latency_us: Microseconds = 100.0


@dataclass(frozen=True)
class Tree(Settings):
    """A tree of routers with a member on each node (STAB §5.1); it says how many members."""

    kind: Literal["tree"] = "tree"
    branching: Annotated[int, Between(1, 1000)] = 2
    height: Annotated[int, Between(1, 20)] = 3
    leaf_degree: Annotated[int, Between(1, 1000)] = 2
    bandwidth_mbit_s: MbitS = 100.0
    router_us: Microseconds = 1000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branching**self.height > SCENARIO_MEMBERS_MAX:
            raise ConfigError(
                f"branching is {self.branching} and height {self.height}; "
                f"a group has at most {SCENARIO_MEMBERS_MAX} members"
            )
        self.parents()

    def parents(self) -> list[int]:
        """The parent of each node."""
        return tree_parents(self.branching, self.height, self.leaf_degree)


@dataclass(frozen=True)
class Medium(Settings):
    """A broadcast medium: one transmission at a time, which all hear (PROP §4.2)."""

    kind: Literal["medium"] = "medium"
    transmission_us: Microseconds = 100.0


Network: TypeAlias = Ideal | Lan | Shared | Tree | Medium


@dataclass(frozen=True)
class Link(Settings):
    """From some time on, the link of a member is longer or slower (SRM Figure 1)."""

    member: Node
    at_s: Seconds = 0.0
    delay_ms: Milliseconds | None = None
    bandwidth_mbit_s: MbitS | None = None


@dataclass(frozen=True)
class Partition(Settings):
    """For a while, nothing passes between these members and the others."""

    members: Nodes
    at_s: Seconds
    until_s: Seconds
    # Only what these members send is lost; they still hear the others.
    one_way: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.until_s <= self.at_s:
            raise ConfigError(f"until_s is {self.until_s:g}; it must be after at_s {self.at_s:g}")


@dataclass(frozen=True)
class Faults(Settings):
    """What goes wrong on the way, until the traffic ends; shares are of copies of datagrams."""

    loss: Share = 0.0
    burst_begin: Share = 0.0
    burst_end: Share = 0.25
    burst_loss: Share = 1.0
    delay_ms: Milliseconds = 0.0
    jitter_ms: Milliseconds = 0.0
    reorder: Share = 0.0
    reorder_ms: Milliseconds = 1.0
    duplicate: Share = 0.0
    duplicate_ms: Milliseconds = 1.0
    corrupt: Share = 0.0
    # Datagrams to one process that is not there, or is, after which the sender is told that nobody
    # listens there.
    closed_ports: Share = 0.0
    false_ports: Share = 0.0
    # Only datagrams to these members are affected; if none is named, those to everybody.
    to_members: Nodes = ()
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True)
class NoCost(Settings):
    """Processors are infinitely fast."""

    kind: Literal["none"] = "none"


@dataclass(frozen=True)
class Costs(Settings):
    """One processor a member, busy for so long with every datagram (as in STAB §5.1)."""

    kind: Literal["costs"] = "costs"
    send_us: Microseconds = 0.0
    send_us_per_byte: Annotated[float, Between(0, 1e6)] = 0.0
    receive_us: Microseconds = 0.0
    receive_us_per_byte: Annotated[float, Between(0, 1e6)] = 0.0


@dataclass(frozen=True)
class Measured(Settings):
    """Members are timed as they run, and pay that much virtual time: not repeatable (SRM §5.4)."""

    kind: Literal["measured"] = "measured"
    # Virtual time for each unit of measured time.
    scale: Annotated[float, Between(0, 1e6)] = 1.0
    # The scheduling latency of the operating system (SRM §6.1).
    wake_us: Microseconds = 0.0


Host: TypeAlias = NoCost | Costs | Measured


# -- processes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Consumer(Settings):
    """Members whose application is busy for so long with each message that it takes."""

    members: Nodes
    delay_ms: Milliseconds


@dataclass(frozen=True)
class Crash(Settings):
    """A process is gone, with all it held."""

    member: Node
    at_s: Seconds
    kind: Literal["crash"] = "crash"


@dataclass(frozen=True)
class Restart(Settings):
    """A crashed process comes back, as a new incarnation without memory."""

    member: Node
    at_s: Seconds
    kind: Literal["restart"] = "restart"


@dataclass(frozen=True)
class Pause(Settings):
    """A process stands still for a while; what arrives waits in its socket, or is lost."""

    member: Node
    at_s: Seconds
    for_s: Seconds
    kind: Literal["pause"] = "pause"


@dataclass(frozen=True)
class Slow(Settings):
    """From now on the application of a member is busy for so long with each message."""

    member: Node
    at_s: Seconds
    delay_ms: Milliseconds
    kind: Literal["slow"] = "slow"


@dataclass(frozen=True)
class Leave(Settings):
    """A member leaves for good: as soon as it may, or after so long. It sends nothing more."""

    member: Node
    at_s: Seconds
    within_s: Seconds = 60.0
    kind: Literal["leave"] = "leave"


@dataclass(frozen=True)
class Join(Settings):
    """In an open group: a process starts at this time and not with the run; or `count` processes,
    from this one on, one after the other within so long.
    """

    member: Node
    at_s: Seconds
    count: Annotated[int, Between(1, SCENARIO_MEMBERS_MAX)] = 1
    within_s: Seconds = 0.0
    kind: Literal["join"] = "join"

    def each(self) -> "tuple[Join, ...]":
        """Each start by itself."""
        gap_s = self.within_s / self.count
        return tuple(
            Join(self.member + number, self.at_s + number * gap_s) for number in range(self.count)
        )


@dataclass(frozen=True)
class Restarts(Settings):
    """A process crashes and comes back `times` times: at `at_s`, and then every `every_s`."""

    member: Node
    at_s: Seconds
    every_s: Annotated[float, Between(1e-6, 1e7)]
    down_s: Annotated[float, Between(1e-6, 1e7)]
    times: Annotated[int, Between(1, 10_000)]
    kind: Literal["restarts"] = "restarts"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.down_s >= self.every_s:
            raise ConfigError(
                f"down_s is {self.down_s:g} and every_s {self.every_s:g}; "
                "a process must be back before it crashes again"
            )

    def each(self) -> tuple[Crash | Restart, ...]:
        """Each crash and restart by itself."""
        found: list[Crash | Restart] = []
        for time in range(self.times):
            at_s = self.at_s + time * self.every_s
            found += [Crash(self.member, at_s), Restart(self.member, at_s + self.down_s)]
        return tuple(found)


ProcessFault: TypeAlias = Crash | Restart | Pause | Slow | Leave | Join
