"""How a member is set up: one frozen configuration, checked, with units in the names."""

from dataclasses import dataclass, field
from typing import Final

from semcast.errors import ConfigError
from semcast.obsolescence.bitmap import K_DEFAULT, check_k
from semcast.protocol.queue.policy import BufferConfig, Overflow, Purging
from semcast.wire.limits import Limits
from semcast.wire.trees import tree_fault

MEMBERS_MAX: Final = 65_536
# Lives of one member that others may still keep messages of: it restarted, and soon again. Later
# ones have to wait until one of these has ended.
LIVES_MAX: Final = 2
MS: Final = 1_000_000
# What a given tree has for its root.
NO_PARENT: Final = -1
STABILITY_PROTOCOLS: Final = ("gossip", "coordp", "fulldist", "train", "s_coordp", "s_train")
# Those whose votes go along a ring or up a tree.
SHAPED_PROTOCOLS: Final = ("train", "s_coordp", "s_train")


@dataclass(frozen=True)
class MemberConfig:
    """What a member of a group promises and how much it may hold."""

    # "sender": S-SM, messages of correct senders arrive (SRM Figure 2). "group": S-RM, all correct
    # members agree even when senders crash (SRM Figure 3).
    reliability: str = "group"
    # Off: the plain reliable protocol that the papers compare with.
    purging: bool = True
    # "fifo": messages of a source are delivered in the order of their numbers. "key": only those of
    # one key are, and the unmarked ones among themselves; so a new value takes the place of the
    # one that it replaces. Without purging nothing is replaced, and both are the same.
    order: str = "fifo"
    k: int = K_DEFAULT
    # How many crashes the guarantees of "group" survive.
    f: int = 1
    # Whether this member's application gets its own messages too.
    deliver_own: bool = True
    # Whether `Member.cover_of` knows of messages purged while they waited for the application, and
    # goes on knowing covers when they are stable: a log of the last few thousand.
    track_covers: bool = False
    # Messages that wait for the application.
    delivery_messages: int = 1024
    delivery_bytes: int = 64 << 20
    # Messages of each source that are kept until everybody has them; the sender's window.
    window_messages: int = 1024
    window_bytes: int = 64 << 20
    # Stability and safety detection (the papers' presets: 30 ms and 3, SRM §6.1).
    gossip_period_ns: int = 30 * MS
    gossip_fanout: int = 3
    # Others are told at once when so many messages came since they were last told; 0: only every
    # period. For rates at which a window lasts for less than a period.
    gossip_messages: int = 0
    # While messages keep coming, others are told only after so many periods; `Telling` says why.
    gossip_stretch: int = 1
    # How a group learns what it may forget: by gossip, or by one of the protocols of STAB, in which
    # a coordinator begins rounds; see docs/design/stability.md. All members must say the same.
    stability: str = "gossip"
    # The tree of "s_coordp" and "s_train": children of each member.
    stability_branching: int = 4
    # "filled": complete, members in order. "measured": made of round-trip times that the members
    # measure, and made again when these change. Or given: by index the parent of each member, -1
    # for the root.
    stability_tree: str | tuple[int, ...] = "filled"
    # The ring of "train", all members by index; (): the way that the tree gives.
    stability_ring: tuple[int, ...] = ()
    # Rounds begin when enough messages wait, or anything has waited for `gossip_period_ns` (STAB
    # §6); with a period they begin at that pace instead.
    stability_period_ns: int = 0
    # Votes leave out what was agreed before (STAB §7).
    stability_delta: bool = False
    # Votes wait so long for a datagram of messages to ride on (STAB §7).
    stability_ride_ns: int = 0
    # Safety detection rests while fewer messages than this are kept (SRM §6.4).
    safety_rest_messages: int = 0
    # Random back-off before a missing message is asked for, so that one request silences others.
    nak_delay_ns: int = 2 * MS
    # Upper bound of what is multicast, 0 for none.
    bandwidth_bytes_s: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        check_k(self.k)
        if self.reliability not in ("sender", "group"):
            raise ConfigError(f"reliability {self.reliability!r}; choose 'sender' or 'group'")
        if self.order not in ("fifo", "key"):
            raise ConfigError(f"order {self.order!r}; choose 'fifo' or 'key'")
        if self.stability not in STABILITY_PROTOCOLS:
            raise ConfigError(
                f"stability {self.stability!r}; choose one of {', '.join(STABILITY_PROTOCOLS)}"
            )
        for name, low in _AT_LEAST.items():
            value = getattr(self, name)
            if value < low:
                raise ConfigError(f"{name} is {value}; it must be at least {low}")
        self._check_tree()
        if self.window_bytes < self.limits.message_bytes_max + 255:
            raise ConfigError(
                f"window_bytes is {self.window_bytes}: too small for one message of "
                f"{self.limits.message_bytes_max} bytes and its key"
            )
        if self.delivery_bytes < self.limits.message_bytes_max + 255:
            raise ConfigError(
                f"delivery_bytes is {self.delivery_bytes}: too small for one message of "
                f"{self.limits.message_bytes_max} bytes and its key"
            )

    def _check_tree(self) -> None:
        tree = self.stability_tree
        if isinstance(tree, str) and tree not in ("filled", "measured"):
            raise ConfigError(
                f"stability_tree {tree!r}; choose 'filled' or 'measured', or say who hangs on whom"
            )
        if (tree != "filled" or self.stability_ring) and self.stability not in SHAPED_PROTOCOLS:
            raise ConfigError(
                f"a tree or ring for stability {self.stability!r}, which has none; leave out "
                f"stability_tree and stability_ring, or choose one of {', '.join(SHAPED_PROTOCOLS)}"
            )
        if tree == "measured" and self.stability_ring:
            raise ConfigError("both a stability_ring and a measured stability_tree; choose one")
        if not isinstance(tree, str):
            roots = [member for member, parent in enumerate(tree) if parent == NO_PARENT]
            if len(roots) != 1:
                raise ConfigError(f"stability_tree has {len(roots)} roots; it must have one")
            parents = [member if up == NO_PARENT else up for member, up in enumerate(tree)]
            rest = [member for member in range(len(tree)) if member != roots[0]]
            fault = tree_fault(parents, roots + rest)
            if fault:
                raise ConfigError(f"stability_tree: {fault}")

    @property
    def measures(self) -> bool:
        """Whether the group finds its tree by measuring."""
        return self.stability_tree == "measured"

    @property
    def group_reliable(self) -> bool:
        """Whether every member keeps every message for the others (S-RM)."""
        return self.reliability == "group"

    def delivery_config(self) -> BufferConfig:
        """Messages in order that wait for the application: purged at once (SRM §4.3)."""
        return BufferConfig(
            self.delivery_messages,
            self.delivery_bytes,
            self._purging(),
            in_place=self.purging and self.order == "key",
        )

    def early_config(self) -> BufferConfig:
        """Messages of one source that wait for room or for an earlier one."""
        return BufferConfig(self.window_messages, self.window_bytes, self._purging())

    def retained_config(self, members: int) -> BufferConfig:
        """Messages that others may ask for: the same bounds for every source.

        A source that could take the room of another would let two full members wait for each
        other for ever. So there is room for all, also for the former life of every member.
        """
        sources = LIVES_MAX * members if self.group_reliable else 1
        return BufferConfig(
            self.window_messages * sources,
            self.window_bytes * sources,
            self._purging(),
            Overflow.REFUSE,
            source_messages_max=self.window_messages,
            source_bytes_max=self.window_bytes,
        )

    def _purging(self) -> Purging:
        return Purging.EAGER if self.purging else Purging.OFF


_AT_LEAST: Final = {
    "f": 0,
    "delivery_messages": 1,
    "window_messages": 1,
    "gossip_period_ns": 1,
    "gossip_fanout": 1,
    "gossip_messages": 0,
    "gossip_stretch": 1,
    "stability_branching": 1,
    "stability_period_ns": 0,
    "stability_ride_ns": 0,
    "safety_rest_messages": 0,
    "nak_delay_ns": 1,
    "bandwidth_bytes_s": 0,
}
