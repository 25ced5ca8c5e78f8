"""Whole gossip members with overlays, in virtual time, as bytes over a network that may lose some.

Used by the tests beside it; holds none itself.
"""

import heapq
from collections.abc import Callable
from random import Random

from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.membership.view import View
from semcast.protocol.part import Part
from semcast.wire.families.overlay import Entry
from semcast.wire.message import Message

SECOND_NS = 1_000_000_000
# From an overlay and randomness to the targets of a member and its other parts.
Dress = Callable[[Overlay, Random], tuple[Targets, tuple[Part, ...]]]


def plainly(overlay: Overlay, random: Random) -> tuple[Targets, tuple[Part, ...]]:  # noqa: ARG001
    """Messages go to all neighbours."""
    return overlay, ()


class MemberWorld:
    """Members by number, from 1 on, which all enter through the first."""

    def __init__(self, members: int, dress: Dress = plainly, seed: int = 1) -> None:
        self.now_ns = 0
        self.loss = 0.0
        # Whether a datagram with these frames, from and to these, is lost.
        self.lose: Callable[[int, int, bytes], bool] = lambda number, to, frames: False  # noqa: ARG005
        self.members: dict[int, EpidemicMember] = {}
        self.overlays: dict[int, Overlay] = {}
        self.dressed: dict[int, Targets] = {}
        self.parts: dict[int, tuple[Part, ...]] = {}
        self.taken: dict[int, list[Message]] = {}
        self._random = Random(f"{seed}/network")
        self._events: list[tuple[int, int, int, Source | None, bytes]] = []
        self._order = 0
        self._woken_ns: dict[int, int] = {}
        gossip = GossipConfig(fanout=64, rounds=60)
        for number in range(1, members + 1):
            self._add(number, dress, Random(f"{seed}/{number}"), gossip)

    def _add(self, number: int, dress: Dress, random: Random, gossip: GossipConfig) -> None:
        me = Source(number, 1)
        overlay = Overlay(Entry(me, b"there"), OverlayConfig(), random, self.now_ns)
        targets, parts = dress(overlay, random)
        view = View.first([number], 0)
        config = MemberConfig(delivery_messages=10_000)
        self.members[number] = EpidemicMember(
            config, me, view, random, gossip=gossip, targets=targets, parts=parts
        )
        self.overlays[number], self.dressed[number] = overlay, targets
        self.parts[number], self.taken[number] = parts, []
        if number > 1:
            overlay.enter(Entry(Source(1, 1), b"there"), self.now_ns)
        self._after(number)

    def multicast(self, number: int, payload: bytes, key: str | None = None) -> None:
        self.members[number].multicast(payload, key, self.now_ns)
        self._after(number)

    def run(self, for_ns: int) -> None:
        until_ns = self.now_ns + for_ns
        while self._events and self._events[0][0] <= until_ns:
            self.now_ns, _, number, source, frames = heapq.heappop(self._events)
            member = self.members.get(number)
            if member is None:
                continue
            if source is not None:
                member.receive(frames, source, self.now_ns)
            elif self._woken_ns[number] == self.now_ns:
                member.on_timer(self.now_ns)
            else:
                continue
            self._after(number)
        self.now_ns = until_ns

    def got(self, number: int) -> list[bytes]:
        """The payloads that a member's application took."""
        return [message.payload for message in self.taken[number]]

    def _after(self, number: int) -> None:
        member = self.members[number]
        self.taken[number].extend(member.take(1_000, self.now_ns))
        for one in member.datagrams(self.now_ns):
            others = [to for to in self.members if to != number]
            for to in others if one.to == EVERYBODY else [one.to]:
                if self._random.random() < self.loss or self.lose(number, to, one.frames):
                    continue
                delay_ns = 1_000_000 + self._random.randrange(19_000_000)
                self._push(self.now_ns + delay_ns, to, member.me, one.frames)
        due_ns = max(int(member.next_deadline_ns()), self.now_ns + 1)
        if self._woken_ns.get(number) != due_ns:
            self._woken_ns[number] = due_ns
            self._push(due_ns, number, None, b"")

    def _push(self, at_ns: int, to: int, source: Source | None, frames: bytes) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ns, self._order, to, source, frames))
