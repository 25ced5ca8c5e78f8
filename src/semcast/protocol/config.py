"""How a member is set up: one frozen configuration, checked, with units in the names."""

from dataclasses import dataclass, field
from typing import Final

from semcast.errors import ConfigError
from semcast.ids import SEQ_MAX
from semcast.protocol.interest import Interest
from semcast.protocol.queue.policy import BufferConfig, Overflow, Purging
from semcast.settings import Place, check
from semcast.wire.limits import Limits
from semcast.wire.trees import tree_fault

# How many lives of one member others keep messages of, if it restarts again and again. Later lives
# have to wait until one of these has ended.
LIVES_MAX: Final = 2
# The parent of the root in a given tree.
NO_PARENT: Final = -1
# Protocols whose votes go along a ring or up a tree.
SHAPED_PROTOCOLS: Final = ("train", "s_coordp", "s_train")


@dataclass(frozen=True)
class MemberConfig:
    """What a member of a group promises and how much it may hold."""

    # settings: member (from semcast.settings.table, written by `make settings`)
    role: str = "member"
    quorum: str = "majority"
    bandwidth_bytes_s: int = 0
    reliability: str = "group"
    order: str = "fifo"
    purging: bool = True
    purge_policy: str = "eager"
    replacement: str = "key"
    k: int = 64
    f: int = 1
    deliver_own: bool = True
    track_covers: bool = False
    delivery_messages: int = 1_024
    delivery_bytes: int = 67_108_864
    window_messages: int = 1_024
    window_bytes: int = 67_108_864
    total_messages: int = 0
    state: str = "keys"
    standing_keys_max: int = 131_072
    standing_bytes_max: int = 67_108_864
    gossip_period_ns: int = 30_000_000
    gossip_fanout: int = 3
    gossip_messages: int = 0
    gossip_stretch: int = 1
    stability: str = "gossip"
    stability_branching: int = 4
    stability_tree: str | tuple[int, ...] = "filled"
    stability_ring: tuple[int, ...] = ()
    stability_period_ns: int = 0
    stability_delta: bool = False
    stability_ride_ns: int = 0
    safety_rest_messages: int = 0
    nak_delay_ns: int = 2_000_000
    # end of settings
    limits: Limits = field(default_factory=Limits)
    # Which messages this application wants; None: all. Others need not know.
    only: Interest | None = None

    def __post_init__(self) -> None:
        check(self, Place.MEMBER)
        self._check_tree()
        if self.order == "key" and self.purging and self.purge_policy != "eager":
            raise ConfigError(
                f"purge_policy {self.purge_policy!r} with order 'key', in which a message takes "
                "the place of the one that it replaces; leave out purge_policy, or choose 'fifo'"
            )
        for name, held in (("window", self.window_bytes), ("delivery", self.delivery_bytes)):
            if held < self.limits.message_bytes_max + 255:
                raise ConfigError(
                    f"{name}_bytes is {held}: too small for one message of "
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
    def by_key(self) -> bool:
        """Whether a key replaces all that came before it, or what a bitmap reaches."""
        return self.replacement == "key"

    @property
    def measures(self) -> bool:
        """Whether the group finds its tree by measuring."""
        return self.stability_tree == "measured"

    @property
    def group_reliable(self) -> bool:
        """Whether every member keeps every message for the others (S-RM)."""
        return self.reliability == "group"

    @property
    def keeps(self) -> bool:
        """Whether this one keeps every message for others: as a member in S-RM does."""
        return self.group_reliable and self.role == "member"

    def delivery_config(self) -> BufferConfig:
        """Messages in order that wait for the application: purged at once (SRM §4.3)."""
        return BufferConfig(
            self.delivery_messages,
            self.delivery_bytes,
            self._purging(),
            in_place=self.purging and self.order == "key",
        )

    def early_config(self, members: int) -> BufferConfig:
        """Messages of one source that wait for room or for an earlier one."""
        return BufferConfig(self.window(members), self.window_bytes, self._purging())

    def check_open(self) -> None:
        """Raise ConfigError if this is not for a group whose members come and go."""
        if self.total_messages:
            raise ConfigError(
                f"total_messages is {self.total_messages}, but shares of it are for members that "
                "are counted beforehand; leave it out and choose delivery_messages and "
                "window_messages, or say who the members are (members= or size=)"
            )

    def retained_config(self, members: int, open_group: bool = False) -> BufferConfig:
        """Messages that others may ask for: the same bounds for every source.

        A source that could take the room of another would let two full members wait for each
        other for ever. So there is room for all, also for the former life of every member. In an
        open group any number of members may come, so only what is kept of each source is bounded.
        """
        sources = LIVES_MAX * members if self.keeps else 1
        window = self.window(members)
        messages_max, bytes_max = window * sources, self.window_bytes * sources
        purging = self._purging()
        high: int | None = None
        low: int | None = None
        if open_group and self.keeps:
            messages_max = bytes_max = SEQ_MAX
            if purging is Purging.WATERMARK:
                high, low = window * 3 // 4, window // 2
        return BufferConfig(
            messages_max,
            bytes_max,
            purging,
            Overflow.REFUSE,
            high_messages=high,
            low_messages=low,
            source_messages_max=window,
            source_bytes_max=self.window_bytes,
        )

    def window(self, members: int) -> int:
        """How many messages of one source are kept for others, and may wait for earlier ones."""
        return source_window(self.window_messages, self.total_messages, members)

    def _purging(self) -> Purging:
        return Purging(self.purge_policy) if self.purging else Purging.OFF


def source_window(window_messages: int, total_messages: int, members: int) -> int:
    """The window of each source in a group of so many, if a member may hold so many messages in
    all; 0: any number.

    All sources together get half of the total, for what is kept and for what waits: whatever an
    application has taken leaves room for everybody, so that members never wait for each other's.
    """
    if total_messages == 0:
        return window_messages
    least = 4 * LIVES_MAX * members
    if total_messages < least:
        raise ConfigError(
            f"total_messages is {total_messages}, too few for {members} members; {least} is the "
            "least, 0 is no such bound"
        )
    return min(window_messages, total_messages // least)
