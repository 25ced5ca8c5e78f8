"""How a gossip member is set up, beside what every member is (`MemberConfig`)."""

import enum
from dataclasses import dataclass
from typing import Final

from semcast.errors import ConfigError
from semcast.wire.families.epidemic import ROUND_MAX

_SECOND_NS: Final = 1_000_000_000


class Policy(enum.StrEnum):
    """What goes when copies of messages wait for links and there is no room for more."""

    EAGER = "eager"  # what is obsolete goes at once; then as RANDOM (PSRM §3.1)
    LAZY = "lazy"  # what is obsolete goes when there is no room; then as RANDOM
    RANDOM = "random"  # a random copy makes room
    DROP_NEW = "drop-new"  # the new copy is dropped
    AGE = "age"  # a copy that was relayed most often, as in lpbcast
    PRIORITY = "priority"  # a copy of a message that may be replaced, before any other

    @property
    def semantic(self) -> bool:
        """Whether it looks at what replaces what."""
        return self in (Policy.EAGER, Policy.LAZY)


class Scope(enum.StrEnum):
    """Where copies meet that may replace each other, and share room."""

    NODE = "node"  # one buffer for all links of a member
    LINK = "link"  # a buffer for each link


class Room(enum.StrEnum):
    """Of scope NODE: who may take the room that a member has for copies."""

    SHARED = "shared"  # all links share the sum, so that a busy one may take what others leave
    EACH = "each"  # each link has its own places; what is obsolete still goes on all links


class Late(enum.StrEnum):
    """What becomes of a message that comes when something that waits replaces it already."""

    REFUSE = "refuse"  # it does not enter: purging looks at all that waits
    LINK = "link"  # a copy does not enter if what replaces it waits for the same link
    RELAY = "relay"  # it waits as any other: a message purges only what it replaces itself


class Composition(enum.StrEnum):
    """Where what is obsolete is purged."""

    LAYERED = "layered"  # between gossip and network (PSRM §3)
    NAIVE = "naive"  # in the buffer of the gossip protocol itself, once a period (PSRM §2.3)


@dataclass(frozen=True)
class GossipConfig:
    """Fan-out, rounds, and what a member may hold."""

    fanout: int = 5
    # How often a message is relayed at most, after its source has sent it.
    rounds: int = 4
    policy: Policy = Policy.EAGER
    scope: Scope = Scope.NODE
    room: Room = Room.SHARED
    late: Late = Late.REFUSE
    composition: Composition = Composition.LAYERED
    # NAIVE: how long messages wait in the gossip protocol's own buffer; 0: not at all.
    period_ns: int = 0
    # Copies that may wait for each link; if the room is shared, all links together have the sum.
    buffer_messages: int = 10
    # What each link carries. 0: each has a window that adapts to what arrives.
    link_bytes_s: float = 0.0
    # What a copy takes on its link, whatever its size; 0: what it takes on the wire.
    copy_bytes: int = 0
    # Of each source: numbers that are remembered one by one. Older ones count as seen.
    seen_messages: int = 1024
    # Sources that are remembered; the one that was not heard of for longest goes first.
    sources_max: int = 16_384
    # How long a number may be missing before the application is told so.
    patience_ns: int = 10 * _SECOND_NS

    def __post_init__(self) -> None:
        for name, low, high in (
            ("fanout", 1, 1 << 16),
            ("rounds", 0, ROUND_MAX),
            ("period_ns", 0, 1 << 50),
            ("buffer_messages", 1, 1 << 30),
            ("link_bytes_s", 0, 1 << 50),
            ("copy_bytes", 0, 1 << 20),
            ("seen_messages", 1, 1 << 30),
            ("sources_max", 1, 1 << 30),
            ("patience_ns", 0, 1 << 60),
        ):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(
                    f"gossip {name} is {getattr(self, name)}; it goes from {low} to {high}"
                )
        if self.composition is Composition.LAYERED and self.period_ns:
            raise ConfigError(
                f"gossip period_ns is {self.period_ns} with composition 'layered', in which "
                "nothing waits for a period; leave it out, or choose 'naive'"
            )
        if self.copy_bytes and not self.link_bytes_s:
            raise ConfigError("gossip copy_bytes without link_bytes_s: only shares count bytes")
