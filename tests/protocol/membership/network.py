"""A network in virtual time for members that come and go: loss, delay, stops, crashes, splits.

Every application notes what it takes, and every beginning that its member reports. `Node.check`
says that what it took of a stream is complete from each beginning on, and that nothing came twice.
"""

import heapq
import random
from collections.abc import Callable

from semcast.errors import WindowFullError
from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing

MS = 1_000_000
S = 1_000 * MS
ORIGIN = 77


class Beginnings(Observer):
    """Where the streams of one member begin, in the order in which it says so."""

    def __init__(self) -> None:
        self.joined: list[tuple[Source, int]] = []

    def progress(
        self, event: str, source: Source, seq: int, _by_source: Source | None, _by_seq: int
    ) -> None:
        if event == "join":
            self.joined.append((source, seq))


class Node:
    """A process: its member, its application, and what the application took."""

    def __init__(self, net: "Network", sender: int, config: MemberConfig, life: int) -> None:
        self.net = net
        self.me = Source(sender, life)
        self.told = Beginnings()
        view = View.alone(self.me, f"p{sender}", ORIGIN)
        stream = random.Random(f"{net.seed}/{sender}/{life}")
        self.member = self.make(config, view, stream)
        self.taken: list[tuple[Source, int]] = []
        # For each stream, where the application's run of it began, as (beginning, last taken).
        self.runs: dict[Source, list[list[int]]] = {}
        self.seen = 0
        self.down = False
        self.stopped = False
        self.takes = True
        self.queued: list[tuple[bytes, Source]] = []

    def make(self, config: MemberConfig, view: View, stream: random.Random) -> Member:
        return Member(config, self.me, view, stream, self.told)

    def take(self) -> None:
        if not self.takes:
            return
        while self.member.deliverable():
            for message in self.member.take(1 << 20, self.net.now):
                self.taken += [(message.source, int(seq)) for seq in message.skipped or ()]
                self.taken.append((message.source, int(message.seq)))

    def got(self, source: Source) -> list[int]:
        return [seq for one, seq in self.taken if one == source]

    def check(self) -> None:
        """Nothing twice; and from each beginning on, without a gap up to the next one."""
        for source in {one for one, _ in self.taken}:
            if source == self.me:
                continue
            seqs = self.got(source)
            assert len(seqs) == len(set(seqs)), f"{self.me} got something of {source} twice"
            begins = {seq for one, seq in self.told.joined if one == source}
            assert begins, f"{self.me} was never told where {source} begins"
            have = set(seqs)
            for seq in seqs:
                assert seq in begins or seq - 1 in have, f"{self.me} lacks {seq - 1} of {source}"


class Network:
    """Everybody, and what is under way."""

    def __init__(self, seed: int = 1, loss: float = 0.0, delay_ns: int = MS) -> None:
        self.seed = seed
        self.now = 0
        self.loss = loss
        self.delay_ns = delay_ns
        self.random = random.Random(f"net/{seed}")
        self.nodes: dict[int, Node] = {}
        self.heap: list[tuple[int, int, int, bytes, Source]] = []
        self.count = 0
        self.datagrams = 0
        # Whether senders are told that nobody listens where a process was that has crashed.
        self.refuses = False
        # Pairs between which nothing passes, in this direction.
        self.cut: set[tuple[int, int]] = set()

    # -- who is there ------------------------------------------------------------------------------

    def add(self, sender: int, config: MemberConfig, life: int = 1) -> Node:
        node = self.nodes[sender] = Node(self, sender, config, life)
        self.send(node)
        return node

    def crash(self, node: Node) -> None:
        node.down = True
        if self.nodes.get(int(node.me.sender)) is node:
            del self.nodes[int(node.me.sender)]

    def leave(self, node: Node, within_ns: int = 30 * S) -> None:
        """Leave as worlds do: begin, wait until it may, let it say so."""
        node.member.begin_leaving(self.now)
        end = self.now + within_ns
        while not node.member.may_leave([], self.now):
            assert self.now < end, f"{node.me} could not leave"
            self.run(10 * MS)
        self.send(node)
        self.crash(node)

    def stop(self, node: Node) -> None:
        node.stopped = True

    def resume(self, node: Node) -> None:
        node.stopped = False
        queued, node.queued = node.queued, []
        for frames, source in queued:
            node.member.receive(frames, source, self.now)
            self.send(node)

    def split(self, ones: list[Node], others: list[Node]) -> None:
        for one in ones:
            for other in others:
                self.cut.add((int(one.me.sender), int(other.me.sender)))
                self.cut.add((int(other.me.sender), int(one.me.sender)))

    # -- datagrams ---------------------------------------------------------------------------------

    def send(self, node: Node) -> None:
        while True:
            for outgoing in node.member.datagrams(self.now):
                self.put(node, outgoing)
            if not node.member.unsent:
                return

    def put(self, node: Node, outgoing: Outgoing) -> None:
        """A datagram goes to whom it is for."""
        self.datagrams += 1
        for sender in list(self.nodes) if outgoing.to == EVERYBODY else [outgoing.to]:
            self._put(node, sender, outgoing.frames)

    def _put(self, node: Node, to: int, frames: bytes) -> None:
        if to == node.me.sender or (int(node.me.sender), to) in self.cut:
            return
        if self.random.random() < self.loss:
            return
        if to not in self.nodes and self.refuses:
            to, frames, source = int(node.me.sender), b"", Source(to, 0)
        else:
            source = node.me
        at = self.now + self.delay_ns // 2 + self.random.randrange(self.delay_ns)
        self.count += 1
        heapq.heappush(self.heap, (at, self.count, to, frames, source))

    def multicast(self, node: Node, payload: bytes = b"m", key: str | None = None) -> bool:
        """Send a message; says whether there was room."""
        try:
            node.member.multicast(payload, key, self.now)
        except WindowFullError:
            return False
        finally:
            self.send(node)
        return True

    # -- time --------------------------------------------------------------------------------------

    def run(self, ns: int) -> None:
        end = self.now + ns
        while True:
            due = self._soonest()
            if due > end:
                break
            self.now = max(self.now, due)
            self._deliver()
            for node in list(self.nodes.values()):
                if not node.stopped and node.member.next_deadline_ns() <= self.now:
                    node.member.on_timer(self.now)
                    self.send(node)
        self.now = end

    def until(self, done: Callable[[], bool], within_ns: int = 30 * S) -> int:
        """Run until something is so; says how long it took."""
        began = self.now
        while not done():
            assert self.now - began < within_ns, "it did not come to that"
            self.run(MS)
        return self.now - began

    def _soonest(self) -> int:
        soonest = self.heap[0][0] if self.heap else 1 << 62
        for node in self.nodes.values():
            if not node.stopped:
                soonest = min(soonest, node.member.next_deadline_ns())
        return soonest

    def _deliver(self) -> None:
        while self.heap and self.heap[0][0] <= self.now:
            _, _, to, frames, source = heapq.heappop(self.heap)
            node = self.nodes.get(to)
            if node is None:
                continue
            if node.stopped:
                node.queued.append((frames, source))
                continue
            if frames:
                node.member.receive(frames, source, self.now)
            else:
                node.member.refused(int(source.sender), self.now)
            node.take()
            self.send(node)
