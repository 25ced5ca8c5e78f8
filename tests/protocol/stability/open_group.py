"""Detections of an open group, whose views somebody else decides; every word of them is checked.

Members come, crash, come back and are dropped; views reach members late, and some never reach some.
Frames and messages get lost, and what is missing is fetched from whoever still keeps it. Whenever
somebody says that something is stable, all who need it have it, and nobody keeps it any more; a
member that begins with a source begins after what others have let go of.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from semcast.ids import EVERYBODY, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import Change, View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability import make_detection
from semcast.protocol.stability.detection import Agreed
from semcast.protocol.stability.followed import ENDED
from semcast.wire.decode import Decoder

MS: Final = 1_000_000
REPAIR_NS: Final = 5 * MS


class Node:
    """One life of a member: what it has, and its detection."""

    def __init__(self, group: "OpenGroup", me: Source, view: View, joining: bool) -> None:
        self.me: Final = me
        self.since: Final = view.since[view.position(me.sender)]
        self.first: Final = view
        # Lives that it has seen in views, if it is new.
        self.seen: Final[set[Source]] = set()
        self.joining: Final = joining
        self.see(view)
        self.view = view
        stream = random.Random(f"{group.seed}/{me.sender}.{me.incarnation}")
        self.detection: Final = make_detection(group.config, me, view, stream, True, joining)
        self.outbox: Final = Outbox(me, group.config.limits)
        # By source, what it has; from where on it has it; what it keeps no more; of what it heard.
        self.has: Final[dict[Source, int]] = {me: 0}
        self.released: Final[dict[Source, int]] = defaultdict(int)
        self.newest: Final[dict[Source, int]] = defaultdict(int)
        self.floors: Final[dict[Source, int]] = {}
        self.ended: Final[set[Source]] = set()
        self.repair_ns = 0

    def see(self, view: View) -> None:
        """Another view counts."""
        self.view = view
        lives = zip(view.members, view.lives, strict=True)
        self.seen.update(Source(sender, life) for sender, life in lives)

    def keeps(self, source: Source, seq: int) -> bool:
        return self.released[source] < seq <= self.has.get(source, 0)


class OpenGroup:
    """Nodes, the views that they go through, and what is on its way between them."""

    def __init__(self, config: MemberConfig, seed: str) -> None:
        self.config: Final = config
        self.seed: Final = seed
        self.stream: Final = random.Random(seed)
        self.now_ns = 0
        self.loss = self.repeat = 0.0
        self.late_ms = 0.0
        self.nodes: Final[dict[int, Node]] = {}
        # In which view each source came in; what it sent; the most of it that was said to be safe.
        self.came: Final[dict[Source, int]] = {}
        self.sent: Final[dict[Source, int]] = defaultdict(int)
        self.safe: Final[dict[Source, int]] = defaultdict(int)
        self.had: Final[dict[Source, dict[Source, int]]] = defaultdict(dict)
        self._lives: Final[dict[int, int]] = defaultdict(int)
        self._number: Final = count()
        self._queue: Final[list[tuple[int, int, Callable[[], None]]]] = []
        first = Source(500, 1)
        self._lives[500] = 1
        self.view = View.alone(first, "", 7)
        self.came[first] = 1
        self.nodes[500] = Node(self, first, self.view, False)

    # -- views -------------------------------------------------------------------------------------

    def change(
        self,
        joins: tuple[int, ...] = (),
        gone: tuple[int, ...] = (),
        skip: float = 0.0,
    ) -> View:
        """The next view: these come in or come back, these are gone, and all who may be dropped
        are, if the dice say so. Everybody installs it sooner or later, or one after it.
        """
        for sender in (*gone, *joins):
            self.nodes.pop(sender, None)
        rows = []
        for sender in sorted(joins):
            self._lives[sender] += 1
            rows.append((sender, self._lives[sender], ""))
        dropped = tuple(
            sender
            for sender in self.view.members
            if sender not in joins and self._may_drop(sender) and self.stream.random() < 0.7
        )
        there = tuple(sorted(sender for sender in gone if self.view.is_present(sender)))
        change = Change(tuple(rows), there, dropped)
        self.view = view = self.view.changed(change, self.config.f)
        for sender in joins:
            source = Source(sender, view.life(sender))
            self.came[source] = view.number
            self._later(partial(self._begin, source))
        for node in self.nodes.values():
            if self.stream.random() >= skip:
                self._later(partial(self.install, node, view))
        return view

    def _may_drop(self, sender: int) -> bool:
        """INV-DROPPED: it is gone, and somebody has found that its last life has ended."""
        source = Source(sender, self.view.life(sender))
        return not self.view.is_present(sender) and any(
            source in node.ended for node in self.nodes.values()
        )

    def _begin(self, me: Source) -> None:
        if self.view.holds(me) and int(me.sender) not in self.nodes:
            node = self.nodes[int(me.sender)] = Node(self, me, self.view, True)
            self._settle(node)

    def install(self, node: Node, view: View) -> None:
        if self.nodes.get(int(node.me.sender)) is node and view.number > node.view.number:
            node.see(view)
            node.detection.install(view, self.now_ns)
            self._settle(node)

    def _later(self, what: Callable[[], None]) -> None:
        delay_ms = self.stream.random() * self.stream.choice((0.0, 1.0, self.late_ms))
        when_ns = self.now_ns + round(delay_ms * MS)
        heapq.heappush(self._queue, (when_ns, next(self._number), what))

    # -- messages ----------------------------------------------------------------------------------

    def send(self, sender: int) -> None:
        node = self.nodes[sender]
        if node.has[node.me] - node.released[node.me] > 30:
            return
        self.sent[node.me] += 1
        self._got(node, node.me, self.sent[node.me])
        self._settle(node)
        for other in list(self.nodes.values()):
            if other is not node:
                self._carry(node.me, other, self._data(node.me, self.sent[node.me]))

    def _data(self, source: Source, seq: int) -> Callable[[Node], None]:
        return lambda node: self._arrived(node, source, seq)

    def _arrived(self, node: Node, source: Source, seq: int) -> None:
        if source in node.ended or not node.detection.follows(source):
            return
        node.newest[source] = max(node.newest[source], seq)
        if seq == node.has.setdefault(source, 0) + 1:
            self._got(node, source, seq)

    def _got(self, node: Node, source: Source, seq: int) -> None:
        node.has[source] = seq
        self.had[source][node.me] = seq
        node.detection.has(source, seq, self.now_ns)

    def hold_back(self, node: Node) -> None:
        """The member serves somebody that has no more than it has itself by now."""
        for source, has in node.has.items():
            if source not in node.ended and source not in node.floors:
                node.floors[source] = has
                node.detection.hold_back(source, has, self.now_ns)
        self._settle(node)

    def raise_floors(self, node: Node, lift: bool) -> None:
        for source in list(node.floors):
            node.floors[source] = floor = SEQ_MAX if lift else node.has[source]
            node.detection.hold_back(source, floor, self.now_ns)
            if lift:
                del node.floors[source]
        self._settle(node)

    def _carry(self, source: Source, to: Node, what: Callable[[Node], None]) -> None:
        for _ in range(2 if self.stream.random() < self.repeat else 1):
            if self.stream.random() < self.loss:
                continue
            delay_ms = 0.1 + 0.4 * self.stream.random()
            if self.stream.random() < self.repeat:
                delay_ms += self.late_ms * self.stream.random()
            when_ns = self.now_ns + round(delay_ms * MS)
            arrive = lambda: self._arrive(source, to, what)  # noqa: E731
            heapq.heappush(self._queue, (when_ns, next(self._number), arrive))

    def _arrive(self, source: Source, to: Node, what: Callable[[Node], None]) -> None:
        if self.nodes.get(int(to.me.sender)) is to and to.view.holds(source):
            what(to)
            self._settle(to)

    def _frames(self, source: Source, frames: bytes) -> Callable[[Node], None]:
        def take(node: Node) -> None:
            for frame in Decoder().decode(frames, source).control:
                if frame.view_digest() in (-1, node.view.digest):
                    node.detection.on_frame(frame, source, self.now_ns)

        return take

    def _settle(self, node: Node) -> None:
        """Take what a detection has found, and send what it has to say."""
        while (agreed := node.detection.poll(self.now_ns)) is not None:
            self._learn(node, agreed)
        node.detection.pack(node.outbox, self.now_ns)
        for outgoing in node.outbox.take():
            what = self._frames(node.me, outgoing.frames)
            for other in list(self.nodes.values()):
                if other is not node and outgoing.to in (EVERYBODY, int(other.me.sender)):
                    self._carry(node.me, other, what)

    def _repair(self, node: Node) -> None:
        """Fetch what is missing from somebody who keeps it."""
        node.repair_ns = self.now_ns + REPAIR_NS
        for source, newest in list(node.newest.items()):
            seq = node.has.get(source, 0) + 1
            if seq > newest or source in node.ended or not node.detection.follows(source):
                continue
            others = [one for one in self.nodes.values() if one is not node]
            keep = [one for one in others if one.keeps(source, seq)]
            if keep:
                holder = self.stream.choice(keep)
                for more in range(seq, min(newest, seq + 5) + 1):
                    if holder.keeps(source, more):
                        self._carry(holder.me, node, self._data(source, more))

    # -- what is checked ---------------------------------------------------------------------------

    def needs(self, node: Node, source: Source) -> bool:
        """Whether a node has begun with a source, or has to get all of it (INV-YOUNG)."""
        if node.joining and self.config.stability != "gossip" and source not in node.seen:
            # It jumped over the views of this life, and may not hear of it before it has ended.
            return source in node.has
        came = self.came[source]
        at_first = node.first.life(source.sender) == source.incarnation and came >= node.since
        return source in node.has or at_first or came > node.first.number

    def _learn(self, node: Node, agreed: Agreed) -> None:
        detection = node.detection
        for source in agreed.joined:
            begins = int(detection.stable(source))
            if not detection.follows(source):
                continue  # it has ended meanwhile
            assert not self.needs(node, source), f"{node.me} begins with young {source}"
            for other in self.nodes.values():
                let_go = other.released[source]
                said = f"{node.me} begins with {source} after {begins}, {other.me} let go {let_go}"
                assert begins >= let_go or source in other.ended, said
            node.has[source] = max(begins, node.has.get(source, 0))
            self.had[source][node.me] = node.has[source]
            node.released[source] = max(begins, node.released[source])
            detection.has(source, begins, self.now_ns)
        for heard in agreed.heard:
            if heard.source not in node.ended and detection.follows(heard.source):
                node.newest[heard.source] = max(node.newest[heard.source], heard.newest)
        for source in agreed.stable:
            self._on_stable(node, source, int(detection.stable(source)))
        for source in agreed.safe:
            if source not in agreed.ended:
                self._on_safe(node, source, int(detection.safe(source)))
        for source in agreed.ended:
            self._on_ended(node, source)
        for source in agreed.missed:
            assert not self.needs(node, source), f"{node.me} has missed {source}"

    def _on_stable(self, by: Node, source: Source, seq: int) -> None:
        for node in self.nodes.values():
            if self.needs(node, source) and source not in node.ended:
                has = node.has.get(source, 0)
                said = f"{by.me}: {source}#{seq} stable in {by.view}, {node.me} has {has}"
                assert has >= seq, said
                assert seq <= node.floors.get(source, SEQ_MAX), f"{said}, held back"
        by.released[source] = max(seq, by.released[source])

    def _on_safe(self, by: Node, source: Source, seq: int) -> None:
        have = {one for one, had in self.had[source].items() if had >= seq}
        # Who began after it has none of its own, but counts as having it.
        have |= {one.me for one in self.nodes.values() if one.has.get(source, 0) >= seq}
        # What was safe with a smaller f stays so.
        if seq > self.safe[source]:
            said = f"{source}#{seq} safe at {by.me} in {by.view}, f={by.view.f}: {have}"
            assert len(have) > by.view.f, said
            self.safe[source] = seq

    def _on_ended(self, by: Node, source: Source) -> None:
        by.ended.add(source)
        by.floors.pop(source, None)
        needing = [one for one in self.nodes.values() if self.needs(one, source)]
        most = max((one.has.get(source, 0) for one in needing), default=0)
        for node in needing:
            if source not in node.ended or node is by:
                has = node.has.get(source, 0)
                said = f"{by.me}: {source} ended in {by.view}, {node.me} has {has} of {most}"
                assert has == most, said
                assert most <= node.floors.get(source, SEQ_MAX), f"{said}, held back"
        assert not self.view.holds(source), f"{source} ended, but is there"

    # -- time --------------------------------------------------------------------------------------

    def run(self, for_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        end_ns = self.now_ns + round(for_ms * MS)
        while not until():
            timer_ns, who = min(
                (min(int(node.detection.next_deadline_ns()), node.repair_ns), sender)
                for sender, node in self.nodes.items()
            )
            event_ns = self._queue[0][0] if self._queue else timer_ns
            if min(timer_ns, event_ns) > end_ns:
                self.now_ns = end_ns
                return until()
            self.now_ns = max(self.now_ns, min(timer_ns, event_ns))
            if timer_ns <= event_ns:
                node = self.nodes[who]
                if node.repair_ns <= self.now_ns:
                    self._repair(node)
                node.detection.on_timer(self.now_ns)
                self._settle(node)
            else:
                heapq.heappop(self._queue)[2]()
        return True

    def at_rest(self) -> bool:
        """Whether all are in one view, have a vote on all that is there, and all is stable."""
        if any(node.view is not self.view for node in self.nodes.values()):
            return False
        if set(self.nodes) != set(self.view.present):
            return False
        here = [Source(sender, self.view.life(sender)) for sender in self.view.present]
        return not any(node.detection.joining() for node in self.nodes.values()) and all(
            int(node.detection.stable(source)) == self.sent[source]
            for node in self.nodes.values()
            for source in here
        )

    def all_ended(self) -> bool:
        """Whether nobody follows anything of a life that is over."""
        over = [Source(one, self.view.life(one)) for one in self.view.members]
        over = [source for source in over if self.view.is_over(source)]
        return all(
            node.detection.figures()["sources_followed"] <= len(self.view.present)
            and all(int(node.detection.stable(source)) == ENDED for source in over)
            for node in self.nodes.values()
        )

    def settle(self) -> None:
        """Nothing goes wrong any more, and there is time; then all who are gone are dropped."""
        self.loss = self.repeat = 0.0
        for node in self.nodes.values():
            self.raise_floors(node, True)
        self.run(self.late_ms + 100)
        for node in list(self.nodes.values()):
            self.install(node, self.view)
        assert self.run(60_000, lambda: self.at_rest() and self.all_ended()), self.story()
        while any(self._may_drop(sender) for sender in self.view.members):
            self.change()
            assert self.run(60_000, lambda: self.at_rest() and self.all_ended()), self.story()
        assert self.view.gone == 0, self.story()

    def story(self) -> str:
        rows = [f"{self.view} {self.view.members} gone {self.view.gone:b}"]
        for node in self.nodes.values():
            detection = node.detection
            stable = {one: int(detection.stable(one)) for one in node.has}
            rows.append(
                f"{node.me} since {node.since} in {node.view.number}: joining "
                f"{detection.joining()}, has {node.has}, stable {stable}, newest "
                f"{dict(node.newest)}, {detection.figures()}"
            )
        return "\n".join([*rows, f"sent {dict(self.sent)}"])
