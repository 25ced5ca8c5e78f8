"""What a simulated stability round is made of: tree, links, hosts, messages, protocol.

Frozen settings with their ranges, as `sim.scenario` reads them; `docs/design/scenarios.md` explains
each. The defaults are the literal reading of STAB §5.1. Knows nothing of how a round is run.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from semcast.errors import ConfigError
from semcast.sim.ranges import Between, Settings, hints_of

ROUND_MEMBERS_MAX: Final = 1_000_000
ProtocolName: TypeAlias = Literal["coordp", "fulldist", "train", "s_coordp", "s_train", "gossip"]
PROTOCOLS: Final[tuple[ProtocolName, ...]] = get_args(ProtocolName)
Branching: TypeAlias = Annotated[int, Between(1, 1000)]
Height: TypeAlias = Annotated[int, Between(1, 20)]
Milliseconds: TypeAlias = Annotated[float, Between(0, 3_600_000)]


@dataclass(frozen=True)
class CompleteTree(Settings):
    """Complete down to the last level but one, whose nodes have `leaf_degree` leaves each."""

    kind: Literal["complete"] = "complete"
    branching: Branching = 4
    height: Height = 5
    # None: as the branching.
    leaf_degree: Annotated[int, Between(1, 1000)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leaf_degree is not None and self.leaf_degree > self.branching:
            raise ConfigError(
                f"leaf_degree is {self.leaf_degree}; it goes up to the branching, {self.branching}"
            )
        if self.size > ROUND_MEMBERS_MAX:
            raise ConfigError(
                f"a tree of branching {self.branching} and height {self.height} has {self.size} "
                f"members; a simulated round has at most {ROUND_MEMBERS_MAX}"
            )

    @property
    def leaves_each(self) -> int:
        return self.branching if self.leaf_degree is None else self.leaf_degree

    @property
    def size(self) -> int:
        inner = sum(int(self.branching**depth) for depth in range(self.height))
        return inner + self.leaves_each * int(self.branching ** (self.height - 1))


@dataclass(frozen=True)
class RandomTree(Settings):
    """A random tree of a mean degree and a height (STAB §5.4.2), drawn with the run's seed."""

    members: Annotated[int, Between(2, ROUND_MEMBERS_MAX)]
    kind: Literal["random"] = "random"
    branching: Branching = 4
    height: Height = 5


@dataclass(frozen=True)
class FilledTree(Settings):
    """Any number of members, level by level, the last level filled from the left."""

    members: Annotated[int, Between(1, ROUND_MEMBERS_MAX)]
    kind: Literal["filled"] = "filled"
    branching: Branching = 4


Tree: TypeAlias = CompleteTree | RandomTree | FilledTree


@dataclass(frozen=True)
class Links(Settings):
    """The links between nodes and their parents."""

    bandwidth_mbit_s: Annotated[float, Between(1e-3, 1e6)] = 100.0
    # How long a message is under way on the links below the root, those below these, and so on;
    # the last counts for all further levels. Nothing: 0, as on the paper's LAN.
    delays_ms: Annotated[tuple[float, ...], Between(0, 10_000)] = ()
    # The share of messages that each hop loses.
    loss: Annotated[float, Between(0, 0.9)] = 0.0


@dataclass(frozen=True)
class Hosts(Settings):
    """t_s(u) = 338 + 47u/400 µs to send u bytes, 1.1 times that to receive them (STAB §5.1)."""

    send_us: Annotated[float, Between(0, 1e6)] = 338.0
    send_us_per_byte: Annotated[float, Between(0, 1e3)] = 0.1175
    receive_factor: Annotated[float, Between(0, 1000)] = 1.1
    # 2: one for sends, one for receptions.
    processors: Annotated[int, Between(1, 2)] = 1
    # Whether what a node routes for others uses its processor too.
    routes: bool = False


@dataclass(frozen=True)
class Routers(Settings):
    """What a message spends in the nodes that it passes through."""

    latency_us: Annotated[float, Between(0, 1e6)] = 1000.0
    # A router handles one message at a time, instead of any number.
    serial: bool = False
    # The time is paid at the source and the destination too.
    at_ends: bool = False


@dataclass(frozen=True)
class Sizes(Settings):
    """A message has a header and, unless it is a START, a sequence number for each sender."""

    header_bytes: Annotated[int, Between(0, 65_535)] = 32
    seq_bytes: Annotated[int, Between(1, 8)] = 4


@dataclass(frozen=True)
class Gossip(Settings):
    """Each member sends what it knows to a few others, once in a period (SRM §5.3)."""

    # 0: 30 ms, or as much longer as the links near the root and the processors need to keep up.
    period_ms: Milliseconds = 0.0
    fanout: Annotated[int, Between(1, 1000)] = 3


@dataclass(frozen=True)
class Traffic(Settings):
    """Messages of all senders, so that there is something to forget, and when rounds begin."""

    rate_msg_s: Annotated[float, Between(0.001, 1e6)] = 100.0
    duration_s: Annotated[float, Between(0.001, 1e5)] = 20.0
    # So many messages of a sender wait to become stable at most; then all senders stop.
    window_messages: Annotated[int, Between(1, 1_000_000)] = 100
    # How long a message takes to a member; the share `loss` is missed and comes `repair_ms` later.
    latency_ms: Milliseconds = 5.0
    loss: Annotated[float, Between(0, 0.9)] = 0.0
    repair_ms: Milliseconds = 50.0
    # Rounds begin at a fixed pace. 0: when as many messages wait as the trigger says (STAB §6).
    period_ms: Milliseconds = 0.0
    # With the trigger, nothing waits longer than this for a round to begin.
    bound_ms: Annotated[float, Between(0.001, 3_600_000)] = 1000.0


@dataclass(frozen=True)
class Variant(Settings):
    """One of several variants to compare; keys that it does not name are as in the scenario."""

    title: str
    tree: Tree | None = None
    links: Links | None = None
    senders: Annotated[int, Between(0, ROUND_MEMBERS_MAX)] | None = None
    senders_per_sequence: Annotated[int, Between(1, ROUND_MEMBERS_MAX)] | None = None
    placement: Literal["aligned", "random"] | None = None
    timeout_ms: Milliseconds | None = None
    traffic: Traffic | None = None


@dataclass(frozen=True)
class StabilityScenario(Settings):
    """One round of a stability protocol in a group of any size (STAB §5)."""

    model: Literal["stability"] = "stability"
    title: str = ""
    seed: int = 1
    protocol: ProtocolName = "s_coordp"
    tree: Tree = field(default_factory=CompleteTree)
    # Whose messages are tracked: the first so many members. 0: all, as in the paper.
    senders: Annotated[int, Between(0, ROUND_MEMBERS_MAX)] = 0
    # The messages of so many senders are numbered in one series, so that they need one number
    # together in every message (STAB §7).
    senders_per_sequence: Annotated[int, Between(1, ROUND_MEMBERS_MAX)] = 1
    # Whether the members of the protocol's tree sit on the nodes of the network's, as the paper
    # has it, or anywhere.
    placement: Literal["aligned", "random"] = "aligned"
    links: Links = field(default_factory=Links)
    hosts: Hosts = field(default_factory=Hosts)
    routers: Routers = field(default_factory=Routers)
    sizes: Sizes = field(default_factory=Sizes)
    # A multicast is copied by the routers; False: it is a message to each member.
    multicast: bool = True
    # The sender of a multicast receives it too (STAB §2.1).
    loopback: bool = True
    gossip: Gossip = field(default_factory=Gossip)
    # After so long without an answer a member tries again: a guess, as if measured in earlier
    # rounds. 0: twice what a round takes where nothing is lost; and there, never.
    timeout_ms: Milliseconds = 0.0
    # A round that takes longer is given up, and reported as such.
    deadline_s: Annotated[float, Between(1e-3, 1e6)] = 36_000.0
    # With traffic there is round after round; None: one round, on messages that are already there.
    traffic: Traffic | None = None
    # Each of these protocols in each of these variants, with so many seeds from the first on.
    compare: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    repeat: Annotated[int, Between(1, 1000)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.compare:
            if name not in PROTOCOLS:
                raise ConfigError(f"compare names {name!r}; choose from {', '.join(PROTOCOLS)}")
        if self.traffic is not None and "gossip" in (self.compare or (self.protocol,)):
            raise ConfigError("gossip has no rounds to begin; leave out traffic, or gossip")
        if self.traffic is not None and self.senders_per_sequence > 1:
            raise ConfigError(
                f"senders_per_sequence is {self.senders_per_sequence}, but in traffic every sender "
                "has a sequence of its own; leave out one of the two"
            )

    @property
    def drawn(self) -> bool:
        """Whether anything is drawn at random, so that another seed gives another outcome."""
        lossy = self.links.loss > 0 or self.protocol == "gossip"
        return lossy or isinstance(self.tree, RandomTree) or self.placement == "random"

    def cases(self) -> "list[tuple[str, StabilityScenario]]":
        """What is to be run, each with the title of its variant, if there is more than one run."""
        protocols = [literal for literal in PROTOCOLS if literal in self.compare]
        found = []
        for variant in self.variants or (None,):
            changes: dict[str, Any] = {"compare": (), "variants": (), "repeat": 1}
            if variant is not None:
                given = {
                    name: getattr(variant, name) for name in hints_of(Variant) if name != "title"
                }
                changes |= {name: value for name, value in given.items() if value is not None}
            for protocol in protocols or [self.protocol]:
                case = replace(self, protocol=protocol, **changes)
                found.append(("" if variant is None else variant.title, case))
        return found
