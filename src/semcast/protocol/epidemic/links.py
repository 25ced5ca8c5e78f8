"""The lower tier of PSRM Figure 1: all links of a member. Which are idle, and which are due, out.

A link is made when it is first used. If messages wait for it, it is *awaited*, and `due` names it
when it may carry the next. As a part of the member it answers stamps, which windows need.
"""

import heapq
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.link import AdaptiveWindow, Link, StaticShare
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.wire.families.epidemic import HEARD, STAMP, Heard, Stamp
from semcast.wire.frames import ControlFrame

# Stamps are answered when so many came, or so long after the first of them.
_ANSWER_EVERY: Final = 8
_ANSWER_NS: Final = 5_000_000
# What goes to everybody at once, where no share is set: nobody's answer could adapt a window.
_EVERYBODY_BYTES_S: Final = 1e6
# How many numbers stamps have.
_NUMBERS: Final = 1 << 32
# Members whose stamps are counted; of more, the one whose stamps began first is forgotten.
_STAMPED_MAX: Final = 1 << 12


@final
class _Stamps:
    """What came of one other member."""

    def __init__(self, source: Source) -> None:
        self.source: Final = source
        self.newest: i64 = 0
        self.count: i64 = 0
        self.unanswered: i64 = 0
        self.answer_ns: i64 = NEVER


@final
class Links(Part):
    """The links to all others that this member sends to."""

    def __init__(self, config: GossipConfig) -> None:
        self._bytes_s: Final = config.link_bytes_s
        self._links: Final[dict[int, Link]] = {}
        # INV-AWAITED: every awaited link has an entry no later than it is free. Of its entries only
        # the one at its `look_ns` counts; the others are thrown away when their time comes.
        self._heap: Final[list[tuple[int, int]]] = []
        self._stamps: Final[dict[int, _Stamps]] = {}
        # Those whose stamps were not answered yet, in order.
        self._unanswered: Final[dict[int, None]] = {}

    # -- when to send ------------------------------------------------------------------------------

    def link(self, to: int) -> Link:
        """The link to a member."""
        link = self._links.get(to)
        if link is None:
            if self._bytes_s > 0:
                link = StaticShare(self._bytes_s)
            elif to == EVERYBODY:
                link = StaticShare(_EVERYBODY_BYTES_S)
            else:
                link = AdaptiveWindow()
            link.to = to
            self._links[to] = link
        return link

    def awaits(self, link: Link) -> None:
        """A message waits for this link."""
        if not link.awaited:
            link.awaited = True
            self._look(link)

    def _look(self, link: Link) -> None:
        """An awaited link is to be looked at when it is free."""
        link.look_ns = link.free_ns
        heapq.heappush(self._heap, (int(link.free_ns), link.to))

    def due(self, now_ns: i64) -> list[Link]:
        """Awaited links that take a datagram now; they are no longer awaited."""
        found: list[Link] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            at_ns, to = heapq.heappop(heap)
            link = self._links.get(to)
            if link is None or not link.awaited or link.look_ns != at_ns:
                continue
            if link.free_ns <= now_ns:
                link.awaited = False
                found.append(link)
            else:
                self._look(link)
        return found

    def free_ns(self) -> i64:
        """When the next awaited link may be due."""
        return self._heap[0][0] if self._heap else NEVER

    def forget(self, to: int) -> None:
        """That member is gone."""
        self._links.pop(to, None)
        self._stamps.pop(to, None)
        self._unanswered.pop(to, None)

    def count(self) -> int:
        """How many links are known."""
        return len(self._links)

    # -- stamps and what is heard of them ----------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (STAMP, HEARD)

    def install(self, view: View, now_ns: i64) -> None:
        """Who is gone is said by `forget`."""

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        if isinstance(frame, Stamp):
            self._on_stamp(frame, source, now_ns)
        elif isinstance(frame, Heard) and sender in self._links:
            link = self._links[sender]
            link.heard(frame.number, frame.count, now_ns)
            if link.awaited and link.free_ns < link.look_ns:
                self._look(link)

    def _on_stamp(self, frame: Stamp, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        stamps = self._stamps.get(sender)
        if stamps is None or stamps.source != source:
            # Another life of the sender counts anew.
            if stamps is None and len(self._stamps) >= _STAMPED_MAX:
                first = next(iter(self._stamps))
                del self._stamps[first]
                self._unanswered.pop(first, None)
            stamps = self._stamps[sender] = _Stamps(source)
        # Numbers go around, so the newer one is that which is ahead by less than half of them.
        if (frame.number - stamps.newest) % _NUMBERS < _NUMBERS // 2:
            stamps.newest = frame.number
        stamps.count += 1
        stamps.unanswered += 1
        if stamps.unanswered == 1:
            stamps.answer_ns = now_ns + _ANSWER_NS
            self._unanswered[sender] = None
        if stamps.unanswered >= _ANSWER_EVERY:
            stamps.answer_ns = now_ns

    def next_deadline_ns(self) -> i64:
        soonest = self.free_ns()
        for sender in self._unanswered:
            soonest = min(soonest, self._stamps[sender].answer_ns)
        return soonest

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        if not self._unanswered:
            return
        for sender in list(self._unanswered):
            stamps = self._stamps[sender]
            if stamps.answer_ns <= now_ns:
                outbox.frame(sender, Heard(stamps.newest, stamps.count))
                stamps.unanswered = 0
                stamps.answer_ns = NEVER
                del self._unanswered[sender]
