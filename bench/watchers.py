"""A network of watches in virtual time: members that are late, stopped, cut off or dead.

Each member has an inbox and wakes up for it and for its timers. A member that is stopped wakes up
when it goes on, finds what came meanwhile, reads it all, and then looks at its timers. Datagrams
are encoded and decoded as on a real network. Used by `bench.detection` and by the tests of `Watch`.
"""

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from semcast.ids import EVERYBODY, Source
from semcast.protocol.membership.view import View
from semcast.protocol.membership.waits import WatchConfig
from semcast.protocol.membership.watch import Watch
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.wire.decode import Decoder
from semcast.wire.families.probes import Ping
from semcast.wire.limits import Limits

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


class Detector(ABC):
    """Whatever finds out who is dead, for one member."""

    @abstractmethod
    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        """A datagram came."""

    def refused(self, sender: int, now_ns: int) -> None:  # noqa: B027
        """Nobody listens any more where this member was."""

    @abstractmethod
    def on_timer(self, now_ns: int) -> None: ...

    @abstractmethod
    def next_deadline_ns(self) -> int: ...

    @abstractmethod
    def datagrams(self, now_ns: int) -> list[Outgoing]: ...

    @abstractmethod
    def take_changes(self) -> list[tuple[int, bool]]: ...


class Watching(Detector):
    """A `Watch`, driven as a member drives it."""

    def __init__(self, me: Source, view: View, config: WatchConfig, seed: str) -> None:
        self.me = me
        self.view = view
        self.watch = Watch(me, view, config, random.Random(seed))
        self._decoder = Decoder()
        self._outbox = Outbox(me, Limits())

    def install(self, view: View, now_ns: int) -> None:
        self.view = view
        self.watch.install(view, now_ns)

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        held = self.view.holds(source)
        if held:
            self.watch.heard(int(source.sender), now_ns)
        kinds = self.watch.kinds() if held else self.watch.strangers_kinds()
        for frame in self._decoder.decode(frames, source).control:
            if int(frame.frame_kind()) in kinds:
                self.watch.on_frame(frame, source, now_ns)

    def on_timer(self, now_ns: int) -> None:
        self.watch.on_timer(now_ns)

    def next_deadline_ns(self) -> int:
        return self.watch.next_deadline_ns()

    def datagrams(self, now_ns: int) -> list[Outgoing]:
        self.watch.pack(self._outbox, now_ns)
        return self._outbox.take()

    def take_changes(self) -> list[tuple[int, bool]]:
        return self.watch.take_changes()

    def refused(self, sender: int, now_ns: int) -> None:
        self.watch.refused(sender, now_ns)


class FixedTimeout(Detector):
    """The same heartbeats to the same watchers; whoever is silent for too long is accused."""

    def __init__(self, me: Source, view: View, config: WatchConfig, timeout_ns: int) -> None:
        ring = view.present
        at, count = ring.index(int(me.sender)), min(config.watchers, len(ring) - 1)
        self._watchers = [ring[(at + step) % len(ring)] for step in range(1, count + 1)]
        self._watched = [ring[at - step] for step in range(1, count + 1)]
        self._heartbeat_ns = config.heartbeat_ns
        self._timeout_ns = timeout_ns
        self._outbox = Outbox(me, Limits())
        self._beat_ns = 0
        self._heard_ns: dict[int, int] = {}
        self._accused: set[int] = set()
        self._changes: list[tuple[int, bool]] = []

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:  # noqa: ARG002
        sender = int(source.sender)
        self._heard_ns[sender] = now_ns
        if sender in self._accused:
            self._accused.remove(sender)
            self._changes.append((sender, False))

    def on_timer(self, now_ns: int) -> None:
        for sender in self._watched:
            silence_ns = now_ns - self._heard_ns.setdefault(sender, now_ns)
            if silence_ns >= self._timeout_ns and sender not in self._accused:
                self._accused.add(sender)
                self._changes.append((sender, True))
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + self._heartbeat_ns
            for to in self._watchers:
                self._outbox.frame(to, Ping(0, 0, 0))

    def next_deadline_ns(self) -> int:
        waits = [heard for one, heard in self._heard_ns.items() if one not in self._accused]
        return min([self._beat_ns, *(heard + self._timeout_ns for heard in waits)])

    def datagrams(self, now_ns: int) -> list[Outgoing]:  # noqa: ARG002
        return self._outbox.take()

    def take_changes(self) -> list[tuple[int, bool]]:
        changes, self._changes = self._changes, []
        return changes


@dataclass
class Node:
    """One member and what has come for it."""

    detector: Detector
    source: Source
    # Datagrams; without bytes: one for that member came back.
    inbox: list[tuple[bytes | None, Source]] = field(default_factory=list)
    alive: bool = True
    # Until when it is stopped, and when it wakes up next, if it does.
    stopped_ns: int = 0
    wakes_ns: int = -1


class Network:
    """Everybody, and what happens when."""

    def __init__(self, seed: str) -> None:
        self.now_ns = 0
        self.random = random.Random(seed)
        self.nodes: dict[int, Node] = {}
        self.loss = 0.0
        self.delay_ns: Callable[[], int] = lambda: 100_000 + self.random.randrange(200_000)
        # How long a member waits for a processor when something is to be done.
        self.lateness_ns: Callable[[int], int] = lambda _: 0
        # Pairs of (from, to) between which nothing passes.
        self.cuts: set[tuple[int, int]] = set()
        # Whether a datagram for a process that is dead comes back, as where only the process died.
        self.refuses = False
        # By sender: how many datagrams it sent.
        self.sent: dict[int, int] = {}
        # (when, who, whom, accused or cleared)
        self.changes: list[tuple[int, int, int, bool]] = []
        # For each of them, whether that member ran at the time: alive, and not stopped.
        self.ran: list[bool] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def add(self, detector: Detector, source: Source) -> None:
        self.nodes[int(source.sender)] = Node(detector, source)
        self._wake(int(source.sender), self.now_ns)

    def at(self, time_ns: int, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_ns, self._count, do))

    def run_until(self, time_ns: int) -> None:
        while self._events and self._events[0][0] <= time_ns:
            self.now_ns, _, do = heapq.heappop(self._events)
            do()
        self.now_ns = time_ns

    def run_for(self, time_ns: int) -> None:
        self.run_until(self.now_ns + time_ns)

    # -- faults ------------------------------------------------------------------------------------

    def crash(self, sender: int) -> None:
        node = self.nodes[sender]
        node.alive = False
        node.inbox.clear()

    def stop(self, sender: int, for_ns: int) -> None:
        """Nothing of it happens meanwhile."""
        node = self.nodes[sender]
        node.stopped_ns = max(node.stopped_ns, self.now_ns + for_ns)

    def cut(self, source: int, to: int) -> None:
        self.cuts.add((source, to))

    # -- what happens ------------------------------------------------------------------------------

    def wake(self, sender: int) -> None:
        """Something was done to it from outside."""
        self._wake(sender, self.now_ns)

    def _wake(self, sender: int, time_ns: int) -> None:
        node = self.nodes[sender]
        time_ns = max(time_ns, self.now_ns) + self.lateness_ns(sender)
        if node.alive and (node.wakes_ns < 0 or time_ns < node.wakes_ns):
            node.wakes_ns = time_ns
            self.at(time_ns, lambda: self._awake(sender, node, time_ns))

    def _awake(self, sender: int, node: Node, time_ns: int) -> None:
        if not node.alive or node.wakes_ns != time_ns or self.nodes[sender] is not node:
            return
        if self.now_ns < node.stopped_ns:
            node.wakes_ns = until_ns = node.stopped_ns
            self.at(until_ns, lambda: self._awake(sender, node, until_ns))
            return
        node.wakes_ns = -1
        inbox, node.inbox = node.inbox, []
        # What came back is read first, and counts once for each member, as in live groups.
        for source in {source: None for frames, source in inbox if frames is None}:
            node.detector.refused(int(source.sender), self.now_ns)
        for frames, source in inbox:
            if frames is not None:
                node.detector.receive(frames, source, self.now_ns)
        if node.detector.next_deadline_ns() <= self.now_ns:
            node.detector.on_timer(self.now_ns)
        for datagram in node.detector.datagrams(self.now_ns):
            self._send(node, datagram)
        for whom, accused in node.detector.take_changes():
            self.changes.append((self.now_ns, sender, whom, accused))
            other = self.nodes[whom]
            self.ran.append(other.alive and other.stopped_ns <= self.now_ns)
        self._wake(sender, node.detector.next_deadline_ns())

    def _send(self, node: Node, datagram: Outgoing) -> None:
        sender = int(node.source.sender)
        others = [to for to in self.nodes if to != sender]
        for to in others if datagram.to == EVERYBODY else [datagram.to]:
            self.sent[sender] = self.sent.get(sender, 0) + 1
            if (sender, to) in self.cuts or to not in self.nodes:
                continue
            if self.loss == 0 or self.random.random() >= self.loss:
                self._post(node.source, to, datagram.frames)

    def _post(self, source: Source, to: int, frames: bytes | None) -> None:
        self.at(self.now_ns + self.delay_ns(), lambda: self._arrive(source, to, frames))

    def _arrive(self, source: Source, to: int, frames: bytes | None) -> None:
        node = self.nodes[to]
        if node.alive:
            node.inbox.append((frames, source))
            self._wake(to, self.now_ns)
        elif self.refuses and frames is not None and self.random.random() >= self.loss:
            self._post(node.source, int(source.sender), None)


def watching(count: int, seed: str, config: WatchConfig | None = None) -> Network:
    """A group in which everybody watches."""
    network = Network(seed)
    view = View.first(list(range(count)), 1)
    for sender in range(count):
        me = Source(sender, 1)
        seed_of = f"{seed}/{sender}"
        network.add(Watching(me, view, config or WatchConfig(), seed_of), me)
    return network
