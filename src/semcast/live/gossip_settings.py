"""What settings mean for a group that gossips: checked, and as the protocol has them."""

from typing import TYPE_CHECKING, Final

from semcast.errors import ConfigError
from semcast.live.kind_settings import Kind
from semcast.protocol.epidemic.config import GossipConfig, Policy, Scope
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull
from semcast.protocol.epidemic.overlay.tree import Tree, TreeConfig
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.part import Part

if TYPE_CHECKING:
    from semcast.live.config import GroupConfig

GOSSIP: Final = "gossip"
_OWN: Final = (
    "neighbours_max", "relay_fanout", "relay_rounds", "relay_policy", "relay_scope",
    "relay_messages", "relay_bytes_s", "relay_repair", "relay_tree",
)  # fmt: skip
_SENSELESS: Final = {
    "role": "there everybody relays, and nobody waits for anybody; leave it out",
    "quorum": "there nobody agrees on views; leave it out",
    "members": "there nobody knows everybody; leave it out",
    "size": "there nobody counts the others; leave it out",
    "order": "there messages come in any order, those that wait together in their sender's; leave "
    "it out, or choose reliability 'group'",
    "state": "there nobody keeps state for newcomers; leave it out, or choose reliability 'group'",
    "stability": "there nobody learns what others have; leave it out",
    "total_messages": "there little is kept for others; choose delivery_messages and "
    "relay_messages",
    "evict_after_s": "there nobody waits for others; leave it out",
}
GOSSIP_KIND: Final = Kind(
    GOSSIP, _OWN, _SENSELESS, "reliability 'gossip'", "with reliability 'gossip'"
)


def check_gossip(config: "GroupConfig") -> None:
    """Raises ConfigError if settings do not go together with the reliability."""
    if not GOSSIP_KIND.has(config):
        return
    if config.relay_tree and not config.relay_repair:
        raise ConfigError(
            "relay_tree=True with relay_repair=False: what the tree does not bring is asked for; "
            "leave out one of them"
        )
    if not config.purging and Policy(config.relay_policy).semantic:
        raise ConfigError(
            f"purging=False with relay_policy {config.relay_policy!r}, which drops what was "
            "replaced; choose relay_policy 'random', or leave out purging"
        )


def gossip_config(config: "GroupConfig") -> GossipConfig:
    """How messages are passed on."""
    return GossipConfig(
        fanout=config.relay_fanout,
        rounds=config.relay_rounds,
        policy=Policy(config.relay_policy),
        scope=Scope(config.relay_scope),
        buffer_messages=config.relay_messages,
        link_bytes_s=float(config.relay_bytes_s),
    )


def spreading(
    config: "GroupConfig", overlay: Overlay, pull: Pull
) -> tuple[Targets, tuple[Part, ...]]:
    """Whom messages go to, and what else a member has to do."""
    if config.relay_tree:
        return Tree(TreeConfig(), overlay, pull), ()
    return overlay, ((pull,) if config.relay_repair else ())


def overlay_config(config: "GroupConfig") -> OverlayConfig:
    """How many others a member knows."""
    most = config.neighbours_max
    return OverlayConfig(active_max=most, passive_max=6 * most, links_per_round=3 * most + 1)
