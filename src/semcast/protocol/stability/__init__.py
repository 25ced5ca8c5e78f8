"""Stability and safety detection: who has which messages? One interface, several protocols."""

from semcast.ids import Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.stability.detection import Detection
from semcast.protocol.stability.gossip.detection import GossipDetection

__all__ = ["Detection", "make_detection"]


def make_detection(
    config: MemberConfig,
    me: Source,
    view: View,
    random: Randomness,
    guarded: bool,
    joining: bool,
) -> Detection:
    """The detection that the configuration names. Rounds need numpy, so they are imported late."""
    if config.stability == "gossip":
        return GossipDetection(config, me, view, random, guarded, joining)
    from semcast.protocol.stability.rounds.detection import RoundDetection

    return RoundDetection(config, me, view, guarded, joining)
