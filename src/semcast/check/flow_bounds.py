"""Flow control (SRM §5.3): no buffer ever holds more than it was given room for.

What a node holds follows from its events. The delivery buffer holds what was received and neither
delivered nor purged there. For retransmission a node keeps its own messages and, in S-RM, those it
received, until they are stable or purged there; that bound is per source, in messages, while bytes
are bounded for all sources together. Holds on every prefix.

A full buffer may take a message in place of those that it replaces, and may refuse one that is
obsolete already; the log then has its arrival first and the purges after it. So what a node holds
is looked at when those purges are through.
"""

import heapq
from collections import defaultdict
from typing import Final, final

from semcast.check.history import History, Step
from semcast.check.violation import Violation
from semcast.journal import Journal, parse_node

PROPERTY: Final = "Flow Bounds"


@final
class _Held:
    """Messages in one buffer, with their sizes."""

    def __init__(self) -> None:
        self.sizes: Final[dict[int, int]] = {}
        self.size_bytes = 0
        # Numbers and messages, lowest first, of what `release` may have to let go.
        self._by_seq: Final[list[tuple[int, int]]] = []

    def enter(self, message: int, size_bytes: int, seq: int | None = None) -> None:
        """A message comes; with its number, if `release` is to find it."""
        if message not in self.sizes:
            self.sizes[message] = size_bytes
            self.size_bytes += size_bytes
            if seq is not None:
                heapq.heappush(self._by_seq, (seq, message))

    def leave(self, message: int) -> int:
        """The bytes that this freed."""
        size_bytes = self.sizes.pop(message, 0)
        self.size_bytes -= size_bytes
        return size_bytes

    def release(self, seq: int) -> int:
        """Everything up to `seq` leaves; the bytes that this freed."""
        freed = 0
        while self._by_seq and self._by_seq[0][0] <= seq:
            freed += self.leave(heapq.heappop(self._by_seq)[1])
        return freed


@final
class _Node:
    """The buffers of one node."""

    def __init__(self) -> None:
        self.delivery: Final = _Held()
        # By sender.
        self.retained: Final[defaultdict[str, _Held]] = defaultdict(_Held)
        self.retained_bytes = 0
        # The step by which the last message came, until the purges that it causes are through.
        self.entered: Step | None = None


@final
class _Check:
    def __init__(self, history: History) -> None:
        self.history: Final = history
        self.header: Final = history.header
        self.nodes: Final = [_Node() for _ in history.nodes]
        self.found: Final[list[Violation]] = []
        senders = {parse_node(name)[0] for name in history.nodes}
        kept = len(senders) if self.header.reliability == "group" else 1
        self.retained_bytes_max: Final = self.header.window_bytes * kept

    def run(self) -> list[Violation]:
        for step in self.history.steps:
            node = self.nodes[step.node]
            entered = node.entered
            if entered is not None and not _caused(step, entered):
                node.entered = None
                self.judge(node, entered)
            self.follow(node, step)
        for node in self.nodes:
            if node.entered is not None:
                self.judge(node, node.entered)
        return self.found

    def follow(self, node: _Node, step: Step) -> None:
        event = self.history.event(step)
        if step.event == "multicast":
            self.retain(node, step)
        elif step.event == "receive":
            node.entered = step
            node.delivery.enter(step.message, event.size or 0)
            if self.header.reliability == "group" and event.sender != event.node:
                self.retain(node, step)
        elif step.event == "deliver" or (step.event == "purge" and event.where == "delivery"):
            node.delivery.leave(step.message)
        elif step.event == "purge" and event.where == "retransmit":
            name = self.history.messages[step.message]
            node.retained_bytes -= node.retained[name.sender].leave(step.message)
        elif step.event == "stable" and event.sender is not None and event.seq is not None:
            node.retained_bytes -= node.retained[event.sender].release(event.seq)

    def retain(self, node: _Node, step: Step) -> None:
        node.entered = step
        name = self.history.messages[step.message]
        size_bytes = self.history.event(step).size or 0
        held = node.retained[name.sender]
        if step.message not in held.sizes:
            held.enter(step.message, size_bytes, name.seq)
            node.retained_bytes += size_bytes

    def judge(self, node: _Node, entered: Step) -> None:
        """Whether anything is beyond its bound after a message came."""
        header = self.header
        name = self.history.messages[entered.message]
        retained = node.retained[name.sender]
        delivery = node.delivery
        if entered.event == "receive":
            self.bound(
                entered, len(delivery.sizes), header.delivery_messages, "messages", "delivery"
            )
            self.bound(entered, delivery.size_bytes, header.delivery_bytes, "bytes", "delivery")
        if entered.message in retained.sizes:
            where = f"retransmission of {name.sender}"
            self.bound(entered, len(retained.sizes), header.window_messages, "messages", where)
            bytes_max = self.retained_bytes_max
            self.bound(entered, node.retained_bytes, bytes_max, "bytes", "retransmission")

    def bound(self, entered: Step, held: int, held_max: int, unit: str, where: str) -> None:
        if not 0 < held_max < held:
            return
        event = self.history.event(entered)
        name = self.history.messages[entered.message]
        text = f"{event.node} holds {held} {unit} for {where} after {name}; the bound is {held_max}"
        self.found.append(Violation(PROPERTY, text, event.node, (name,), event.time_ns))


def _caused(step: Step, entered: Step) -> bool:
    """Whether the arrival of a message caused this: a purge for it, or of it."""
    return step.event == "purge" and entered.message in (step.message, step.by)


def check(log: Journal | History) -> list[Violation]:
    """Follow what every buffer of every node holds."""
    return _Check(History.of(log)).run()
