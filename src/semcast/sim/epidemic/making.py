"""The members of a simulated gossip group: settings in, a member as the live world makes it out.

With full views a member knows everybody, and the world says who that is. With partial views it has
an overlay and enters through one contact; it finds out the rest by itself.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from semcast.ids import Source
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.optimistic import OptimisticMulticast
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull, PullConfig
from semcast.protocol.epidemic.overlay.tree import Tree, TreeConfig
from semcast.protocol.epidemic.targets import FullMembership, Targets
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.part import Part
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.wire.families.overlay import Entry

# Addresses mean nothing here: the network knows members by their numbers.
_SOMEWHERE: Final = b"here"


@dataclass(frozen=True)
class Life:
    """One life of a process that begins."""

    me: Source
    # Who is there, if this is to be known; and if not, through whom it enters.
    view: View
    contact: Source | None
    # Whether the group runs already.
    joining: bool
    now_ns: int
    stream: random.Random
    observer: Observer | None


@dataclass(frozen=True)
class Made:
    """A member, and its overlay if it has one."""

    member: Machine
    overlay: Overlay | None = None


# Makes a member; tests make others than the real ones.
MemberMaker = Callable[[GossipScenario, Life], Made]


def make_member(scenario: GossipScenario, life: Life) -> Made:
    """A real member."""
    settings, parts = scenario.gossip, list[Part]()
    overlay = None
    targets: Targets | None = None
    if settings.partial:
        entry = Entry(life.me, _SOMEWHERE)
        targets = overlay = Overlay(entry, OverlayConfig(), life.stream, life.now_ns)
        if life.contact is not None:
            overlay.enter(Entry(life.contact, _SOMEWHERE), life.now_ns)
    if settings.repair == "pull":
        if targets is None:
            targets = FullMembership(life.me, life.view, life.stream)
        pull = Pull(life.me, PullConfig(), targets, life.stream, life.now_ns)
        if settings.tree:
            assert overlay is not None, "settings with a tree and full views are refused"
            targets = Tree(TreeConfig(), overlay, pull)
        else:
            parts.append(pull)
        if settings.optimistic:
            targets = OptimisticMulticast(targets)
    member = EpidemicMember(
        scenario.member_config(),
        life.me,
        life.view,
        life.stream,
        life.observer,
        life.joining,
        scenario.config(),
        targets,
        tuple(parts),
    )
    return Made(member, overlay)
