"""What a simulated gossip group is made of: members, traffic, network, and how they gossip.

Frozen settings with their ranges, as `sim.scenario` reads them; `docs/design/scenarios.md` explains
each. The defaults are the setting of PSRM §4.2. Knows nothing of how it is run.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from semcast.errors import ConfigError
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.config import (
    Composition,
    GossipConfig,
    Late,
    Policy,
    Room,
    Scope,
)
from semcast.sim.ranges import Between, Settings
from semcast.sim.surroundings import (
    Crash,
    Faults,
    Join,
    Leave,
    Network,
    Restart,
    Seconds,
    Shared,
)
from semcast.sim.traffic import Chains, RateMsgS, Replay, Share
from semcast.wire.families.epidemic import ROUND_MAX

GOSSIP_MEMBERS_MAX: Final = 100_000
# What may happen to a process here.
GossipProcess: TypeAlias = Crash | Restart | Leave | Join
PolicyName: TypeAlias = Literal["eager", "lazy", "random", "drop-new", "age", "priority"]


@dataclass(frozen=True)
class GossipSettings(Settings):
    """How members gossip, and what they may hold."""

    policy: PolicyName = "eager"
    scope: Literal["node", "link"] = "node"
    # Scope "node": whether all links share the room, or each has its own.
    room: Literal["shared", "each"] = "shared"
    # Whether a message that something which waits replaces is kept out, is kept out where that
    # waits for the same link, or waits as any other.
    late: Literal["refuse", "link", "relay"] = "refuse"
    composition: Literal["layered", "naive"] = "layered"
    # Naive: how long messages wait in the gossip protocol's own buffer.
    period_s: Seconds = 0.0
    # Copies that wait for each link; if the room is shared, all links of a member have the sum.
    buffer_messages: Annotated[int, Between(1, 1 << 20)] = 10
    fanout: Annotated[int, Between(1, 1000)] = 5
    rounds: Annotated[int, Between(0, ROUND_MAX)] = 4
    # What a copy takes on its link; 0: what it takes on the wire. PSRM's messages are of 100 bytes.
    copy_bytes: Annotated[int, Between(0, 65_535)] = 100
    # What a member gives to each link at most. 0: on a shared network the share of the link, which
    # is a window on others.
    link_kbit_s: Annotated[float, Between(0, 1e9)] = 0.0
    # How long a number may be missing before the application is told.
    patience_s: Seconds = 10.0
    # Whom a member knows: everybody, or a few neighbours and some more (the overlay).
    views: Literal["full", "partial"] = "full"
    # Partial views: through how many members the others enter, and within how long they come. The
    # traffic begins then.
    contacts: Annotated[int, Between(1, 1000)] = 1
    form_s: Seconds = 1.0
    # Whether members ask each other for what they missed.
    repair: Literal["none", "pull"] = "none"
    # Whether messages go along a spanning tree of the overlay, and are only told of else.
    tree: bool = False
    # Whether a member's own messages go to everybody by one multicast of the network, and nobody
    # relays them: repair brings what was lost.
    optimistic: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimistic and (self.tree or self.repair != "pull"):
            raise ConfigError(
                f"optimistic is true with tree {self.tree} and repair {self.repair!r}; what the "
                "first multicast misses comes by repair 'pull', and no tree carries anything"
            )
        if self.tree and (self.views != "partial" or self.repair != "pull"):
            raise ConfigError(
                f"tree is true with views {self.views!r} and repair {self.repair!r}; a tree needs "
                "views 'partial', whose links it takes, and repair 'pull', for its store"
            )

    @property
    def partial(self) -> bool:
        """Whether nobody knows everybody."""
        return self.views == "partial"


@dataclass(frozen=True)
class Search(Settings):
    """The largest rate at which atomicity is kept, found by halving an interval (PSRM §4.2)."""

    low_msg_s: RateMsgS = 10.0
    high_msg_s: RateMsgS = 800.0
    # Where to stop. The paper stops at 10.
    within_msg_s: RateMsgS = 4.0
    # Atomicity is kept if this share of the messages that never become obsolete is atomic.
    kept_share: Share = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high_msg_s <= self.low_msg_s:
            raise ConfigError(
                f"search.high_msg_s is {self.high_msg_s:g}; it must be more than low_msg_s, "
                f"{self.low_msg_s:g}"
            )


@dataclass(frozen=True)
class GossipScenario(Settings):
    """A group whose members gossip."""

    members: Annotated[int, Between(2, GOSSIP_MEMBERS_MAX)] = 50
    model: Literal["gossip"] = "gossip"
    title: str = ""
    seed: int = 1
    duration_s: Annotated[float, Between(1e-3, 1e7)] = 40.0
    # Messages that are multicast in the first and in the last seconds are not measured.
    warm_up_s: Seconds = 10.0
    cool_down_s: Seconds = 10.0
    traffic: Chains | Replay = field(default_factory=Chains)
    network: Network = field(default_factory=Shared)
    faults: Faults = field(default_factory=lambda: Faults(loss=0.05))
    gossip: GossipSettings = field(default_factory=GossipSettings)
    # Who comes late, leaves, crashes and comes back, and when.
    processes: tuple[GossipProcess, ...] = ()
    # If it is there, a run searches for the largest rate instead.
    search: Search | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_up_s + self.cool_down_s >= self.duration_s:
            raise ConfigError(
                f"warm_up_s is {self.warm_up_s:g}, cool_down_s {self.cool_down_s:g} and "
                f"duration_s {self.duration_s:g}; nothing would be left to measure"
            )
        for at, partition in enumerate(self.faults.partitions):
            for member in partition.members:
                if member >= self.members:
                    raise ConfigError(
                        f"faults.partitions[{at}].members names member {member}; "
                        f"members go from 0 to {self.members - 1}"
                    )
        for at, fault in enumerate(self.processes):
            last = fault.member + (fault.count - 1 if isinstance(fault, Join) else 0)
            if last >= self.members:
                raise ConfigError(
                    f"processes[{at}] names member {last}; members go from 0 to {self.members - 1}"
                )
        if self.search is not None and isinstance(self.traffic, Replay):
            raise ConfigError("a search needs traffic whose rate can be set, and this is a replay")
        self.config()

    def config(self) -> GossipConfig:
        """How each member gossips."""
        settings = self.gossip
        return GossipConfig(
            fanout=settings.fanout,
            rounds=settings.rounds,
            policy=Policy(settings.policy),
            scope=Scope(settings.scope),
            room=Room(settings.room),
            late=Late(settings.late),
            composition=Composition(settings.composition),
            period_ns=round(settings.period_s * 1e9),
            buffer_messages=settings.buffer_messages,
            link_bytes_s=self.link_bytes_s,
            # Partial views have frames of their own, so that all count as they are.
            copy_bytes=settings.copy_bytes if self.link_bytes_s and not settings.partial else 0,
            patience_ns=round(settings.patience_s * 1e9),
        )

    @property
    def link_bytes_s(self) -> float:
        """What a member gives to each link; 0: a window decides."""
        if self.gossip.link_kbit_s:
            return self.gossip.link_kbit_s * 125
        if isinstance(self.network, Shared):
            pairs = self.members * (self.members - 1)
            return self.network.bandwidth_mbit_s * 125_000 / pairs
        return 0.0

    def member_config(self) -> MemberConfig:
        """The rest, as every member has it."""
        return MemberConfig()
