"""Stability and safety detection: who has which messages? One interface, several protocols."""

from semcast.protocol.stability.gossip import GossipTracker
from semcast.protocol.stability.tracker import StabilityTracker

__all__ = ["GossipTracker", "StabilityTracker"]
