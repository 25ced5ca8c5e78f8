"""A small world for overlays: thousands of them on one heap of events, seeded.

Frames travel as objects, each with a delay of its own, and may be lost. Members crash, come, are
cut off from each other, and flood messages over their links. Tests and `bench.overlay` drive it.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from semcast.ids import EVERYBODY, Source
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.wire.families.overlay import Entry
from semcast.wire.frames import ControlFrame

MS_NS = 1_000_000
SECOND_NS = 1_000 * MS_NS
DELAY_MIN_NS = 1 * MS_NS
DELAY_MAX_NS = 20 * MS_NS


@dataclass
class Flood:
    """A message that goes over all links, and whom it has reached."""

    number: int
    sent_ns: int
    # Member to the number of links that the message took.
    hops: dict[int, int] = field(default_factory=dict)
    copies: int = 0
    last_ns: int = 0


class OverlayWorld:
    """Members by number, from 1 on; the number is the sender id, and its address as bytes."""

    def __init__(
        self, seed: int, config: OverlayConfig | None = None, loss: float = 0.0, fanout: int = 64
    ) -> None:
        self.config = config or OverlayConfig()
        self.now_ns = 0
        self.members: dict[int, Overlay] = {}
        self.floods: list[Flood] = []
        # Which side of a cut a member is on; frames between sides are lost.
        self.sides: dict[int, int] = {}
        self.frames_sent = 0
        self.bytes_sent = 0
        self._seed = seed
        self._loss = loss
        self._fanout = fanout
        self._random = Random(f"{seed}/network")
        self._lives: dict[int, int] = {}
        # Time, order, whom it is for, from whom, and a frame or a flood; None is a timer.
        self._events: list[tuple[int, int, int, Source | None, ControlFrame | Flood | None]] = []
        self._order = 0
        self._woken_ns: dict[int, int] = {}
        # What becomes of a frame from one member to another: a test breaks the protocol here.
        self.tamper: Callable[[int, int, ControlFrame], ControlFrame | None] | None = None

    # -- what happens ------------------------------------------------------------------------------

    def add(self, number: int, contact: int | None = None) -> Overlay:
        """A member comes, perhaps in another life, and enters through another one."""
        self._lives[number] = self._lives.get(number, 0) + 1
        random = Random(f"{self._seed}/{number}/{self._lives[number]}")
        overlay = Overlay(self.entry(number), self.config, random, self.now_ns)
        self.members[number] = overlay
        if contact is not None:
            overlay.enter(self.entry(contact), self.now_ns)
        self._after(number, overlay)
        return overlay

    def add_all(self, numbers: Iterable[int], contact: int, over_ns: int) -> None:
        """These come through one contact, spread over a time."""
        coming = list(numbers)
        if contact not in self.members:
            self.add(contact)
        start_ns = self.now_ns
        for at, number in enumerate(coming):
            if number != contact:
                self.run_until(start_ns + at * over_ns // len(coming))
                self.add(number, contact)

    def entry(self, number: int) -> Entry:
        """A member as others know it."""
        return Entry(Source(number, self._lives.get(number, 1)), number.to_bytes(6, "little"))

    def crash(self, numbers: Iterable[int]) -> None:
        """These are gone, without a word."""
        for number in numbers:
            del self.members[number]

    def flood(self, number: int) -> Flood:
        """That member sends a message to all."""
        flood = Flood(len(self.floods), self.now_ns, {number: 0}, 0, self.now_ns)
        self.floods.append(flood)
        self._spread(number, flood, EVERYBODY)
        return flood

    def run(self, for_ns: int) -> None:
        """Let so much time pass."""
        self.run_until(self.now_ns + for_ns)

    def run_until(self, until_ns: int) -> None:
        """Let time pass until then."""
        events = self._events
        while events and events[0][0] <= until_ns:
            self.now_ns, _, number, source, what = heapq.heappop(events)
            overlay = self.members.get(number)
            if overlay is None:
                continue
            if isinstance(what, Flood):
                assert source is not None
                self._receive(number, overlay, what, source)
                continue
            if what is None:
                if self._woken_ns.get(number) == self.now_ns:
                    overlay.on_timer(self.now_ns)
                    self._after(number, overlay)
                continue
            assert source is not None
            overlay.on_frame(what, source, self.now_ns)
            self._after(number, overlay)
        self.now_ns = max(self.now_ns, until_ns)

    def inject(self, number: int, frame: ControlFrame, source: Source) -> None:
        """A frame reaches a member that nobody in this world sent."""
        overlay = self.members[number]
        overlay.on_frame(frame, source, self.now_ns)
        self._after(number, overlay)

    # -- the network -------------------------------------------------------------------------------

    def _after(self, number: int, overlay: Overlay) -> None:
        """Send what a member has to say, and wake it when it wants."""
        for to, frame in overlay.take():
            assert overlay.address_of(to) in (None, to.to_bytes(6, "little")), "an address got lost"
            self.frames_sent += 1
            self.bytes_sent += 4 + int(frame.size_bytes())
            sent = frame if self.tamper is None else self.tamper(number, to, frame)
            if sent is not None:
                self._carry(number, to, overlay.me.source, sent)
        due_ns = max(int(overlay.next_deadline_ns()), self.now_ns + 1)
        if self._woken_ns.get(number) != due_ns:
            self._woken_ns[number] = due_ns
            self._push(due_ns, number, None, None)

    def _carry(self, number: int, to: int, source: Source, what: ControlFrame | Flood) -> None:
        if self._loss and self._random.random() < self._loss:
            return
        if self.sides and self.sides.get(number) != self.sides.get(to):
            return
        spread_ns = DELAY_MAX_NS - DELAY_MIN_NS
        delay_ns = DELAY_MIN_NS + int(self._random.random() * spread_ns)
        self._push(self.now_ns + delay_ns, to, source, what)

    def _push(
        self, at_ns: int, to: int, source: Source | None, what: ControlFrame | Flood | None
    ) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ns, self._order, to, source, what))

    # -- floods ------------------------------------------------------------------------------------

    def _receive(self, number: int, overlay: Overlay, flood: Flood, source: Source) -> None:
        overlay.heard(source, self.now_ns)
        flood.copies += 1
        if number not in flood.hops:
            flood.hops[number] = flood.hops.get(source.sender, 0) + 1
            flood.last_ns = self.now_ns
            self._spread(number, flood, source.sender)

    def _spread(self, number: int, flood: Flood, came_from: int) -> None:
        overlay = self.members[number]
        for to in overlay.draw(self._fanout, came_from):
            self._carry(number, to, overlay.me.source, flood)
