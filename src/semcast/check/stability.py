"""Stability (STAB §2): a node takes messages for stable, and so forgets them, only when everybody
who is there has all of them up to that one, or has skipped them. Holds on every prefix.

A node that comes later counts from its join point on. Only a log in one order can show any of this;
others are not judged.
"""

from typing import Final, final

from semcast.check.history import History, Step
from semcast.check.violation import MessageId, Violation
from semcast.journal import Journal

PROPERTY: Final = "Stability"


@final
class _Stream:
    """How far each node has come in the stream of one sender."""

    def __init__(self, nodes: int) -> None:
        # INV-UPTO: up to here a node has received or skipped everything.
        self.up_to: Final[dict[int, int]] = dict.fromkeys(range(nodes), 0)
        self._ahead: Final[set[tuple[int, int]]] = set()
        # INV-ALL: every node that counts has everything up to here.
        self.all_up_to = 0

    def has(self, node: int, seq: int) -> None:
        if node not in self.up_to:
            self.begin(node, 1)
        up_to = self.up_to[node]
        self._ahead.add((node, seq))
        while (node, up_to + 1) in self._ahead:
            up_to += 1
            self._ahead.remove((node, up_to))
        self.up_to[node] = up_to

    def begin(self, node: int, seq: int) -> None:
        self.up_to[node] = seq - 1
        self.all_up_to = min(self.all_up_to, seq - 1)


def check(log: Journal | History) -> list[Violation]:
    """Compare each stable event with how far everybody is."""
    history = History.of(log)
    return _Check(history).run() if history.header.one_order else []


@final
class _Check:
    def __init__(self, history: History) -> None:
        self.history: Final = history
        self.streams: Final[dict[str, _Stream]] = {}
        self.gone: Final[set[int]] = set()

    def run(self) -> list[Violation]:
        found = []
        for step in self.history.steps:
            if step.event in ("receive", "skip", "multicast"):
                name = self.history.messages[step.message]
                self.stream(name.sender).has(step.node, name.seq)
            elif step.event in ("crash", "leave"):
                self.gone.add(step.node)
            elif step.event in ("stable", "join"):
                found += self.on_progress(step)
        return found

    def stream(self, sender: str) -> _Stream:
        stream = self.streams.get(sender)
        if stream is None:
            stream = self.streams[sender] = _Stream(self.history.initial.bit_count())
        return stream

    def on_progress(self, step: Step) -> list[Violation]:
        event = self.history.event(step)
        if event.sender is None or event.seq is None:
            return []
        stream = self.stream(event.sender)
        if event.event == "join":
            if step.node not in stream.up_to:
                stream.begin(step.node, event.seq)
            return []
        if event.seq <= stream.all_up_to:
            return []
        behind = {
            node: seq
            for node, seq in stream.up_to.items()
            if seq < event.seq and node not in self.gone
        }
        if not behind:
            stream.all_up_to = event.seq
            return []
        node = min(behind, key=behind.__getitem__)
        stable = MessageId(event.sender, event.seq)
        text = (
            f"{event.node} takes {stable} for stable, but {self.history.nodes[node]} has "
            f"only what comes up to {behind[node]}"
        )
        return [Violation(PROPERTY, text, event.node, (stable,), event.time_ns)]
