"""Network models: when does a copy of a packet reach a node?

All of them are a `Network`: nodes are numbered from 0, `send` takes a packet for one of them or for
EVERYBODY, and it arrives at the `Receiver` that was attached to the node.
"""

from semcast.sim.network.base import PACKET_BYTES_MAX, Layer, Network, Receiver, Stage
from semcast.sim.network.lan import SwitchedLan
from semcast.sim.network.medium import Medium
from semcast.sim.network.mesh import Ideal, SharedPointToPoint
from semcast.sim.network.tree import NO_PARENT, RouterTree, tree_parents

__all__ = [
    "NO_PARENT",
    "PACKET_BYTES_MAX",
    "Ideal",
    "Layer",
    "Medium",
    "Network",
    "Receiver",
    "RouterTree",
    "SharedPointToPoint",
    "Stage",
    "SwitchedLan",
    "tree_parents",
]
