"""Detection by gossip: stability and safety of one member, and when to tell others."""

from typing import Final, final

from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.gossip.telling import Telling
from semcast.protocol.stability.gossip.tracker import GossipTracker


@final
class Gossiping:
    """What a member needs of gossip."""

    def __init__(self, config: MemberConfig, members: list[int], index: int) -> None:
        self.stability: Final = GossipTracker(members, index, False, 0)
        self.safety: Final = GossipTracker(members, index, True, config.f + 1)
        self.telling: Final = Telling(config)
