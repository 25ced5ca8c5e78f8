"""The five stability protocols of STAB, executed on a real tree and counted message by message.

Shapes in, counts out; no formula is used. A message that is sent in one round is received in it,
and what it sets off is sent in the next (STAB §3, §4).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

ROOT = 0
Send = tuple[int, str, int | None]  # from, kind, to; None is a multicast
OnReceive = Callable[[int, str], list[Send]]


@dataclass
class Log:
    """What one execution did."""

    rounds: int = 0
    hops: Counter[str] = field(default_factory=Counter)  # by kind
    processed: Counter[int] = field(default_factory=Counter)  # by node
    sends: list[tuple[int, int, str]] = field(default_factory=list)  # round, node, kind


class BruteTree:
    """Nodes are numbered level by level, from left to right; every link is walked one by one."""

    def __init__(self, branching: int, height: int, leaf_degree: int) -> None:
        self.parent: list[int | None] = [None]
        self.depth = [0]
        self.children: list[list[int]] = [[]]
        level = [ROOT]
        for depth in range(1, height + 1):
            degree = branching if depth < height else leaf_degree
            level = [self._grow(node, depth) for node in level for _ in range(degree)]
        self.levels: list[list[int]] = [[] for _ in range(height + 1)]
        for node, depth in enumerate(self.depth):
            self.levels[depth].append(node)

    def _grow(self, parent: int, depth: int) -> int:
        node = len(self.parent)
        self.parent.append(parent)
        self.depth.append(depth)
        self.children.append([])
        self.children[parent].append(node)
        return node

    @property
    def size(self) -> int:
        return len(self.parent)

    def ancestors(self, node: int) -> Iterator[int]:
        at: int | None = node
        while at is not None:
            yield at
            at = self.parent[at]

    def hops(self, origin: int, target: int) -> int:
        """Up from each end until the two ways meet."""
        climbed = {node: steps for steps, node in enumerate(self.ancestors(origin))}
        for steps, node in enumerate(self.ancestors(target)):
            if node in climbed:
                return climbed[node] + steps
        raise AssertionError("two trees")

    def multicast_hops(self) -> int:
        """A copy goes over every link once, wherever the multicast starts."""
        return sum(len(children) for children in self.children)

    def snake(self) -> list[int]:
        """The members in Train's order: left to right at odd depths, right to left at even."""
        order: list[int] = []
        for depth, level in enumerate(self.levels):
            order += level if depth % 2 else reversed(level)
        return order

    def siblings(self, node: int) -> list[int]:
        parent = self.parent[node]
        assert parent is not None
        return self.children[parent]


def execute(tree: BruteTree, start: Send, on_receive: OnReceive) -> Log:
    log = Log()
    multicast_hops = tree.multicast_hops()
    now = [start]
    while now:
        log.rounds += 1
        following: list[Send] = []
        for origin, kind, target in now:
            log.sends.append((log.rounds, origin, kind))
            log.processed[origin] += 1
            log.hops[kind] += multicast_hops if target is None else tree.hops(origin, target)
            for receiver in range(tree.size) if target is None else (target,):
                log.processed[receiver] += 1
                following += on_receive(receiver, kind)
        now = following
    return log


def coordp(tree: BruteTree) -> Log:
    answers = 0

    def on_receive(node: int, kind: str) -> list[Send]:
        nonlocal answers
        if kind == "start" and node != ROOT:
            return [(node, "ack", ROOT)]
        if kind == "ack":
            answers += 1
            if answers == tree.size - 1:
                return [(ROOT, "info", None)]
        return []

    return execute(tree, (ROOT, "start", None), on_receive)


def fulldist(tree: BruteTree) -> Log:
    spoken = {ROOT}

    def on_receive(node: int, kind: str) -> list[Send]:
        assert kind == "info"
        if node in spoken:
            return []
        spoken.add(node)
        return [(node, "info", None)]

    return execute(tree, (ROOT, "info", None), on_receive)


def train(tree: BruteTree) -> Log:
    order = tree.snake()
    following = dict(zip(order, [*order[1:], ROOT], strict=True))

    def on_receive(node: int, kind: str) -> list[Send]:
        if node == ROOT:
            return [(ROOT, "info", following[ROOT])] if kind == "ack" else []
        return [(node, kind, following[node])]

    return execute(tree, (ROOT, "ack", following[ROOT]), on_receive)


def s_coordp(tree: BruteTree) -> Log:
    missing = [len(children) for children in tree.children]

    def up(node: int) -> list[Send]:
        if node == ROOT:
            return [(ROOT, "info", None)]
        return [(node, "ack", tree.parent[node])]

    def on_receive(node: int, kind: str) -> list[Send]:
        if kind == "start" and not tree.children[node]:
            return up(node)
        if kind == "ack":
            missing[node] -= 1
            if missing[node] == 0:
                return up(node)
        return []

    return execute(tree, (ROOT, "start", None), on_receive)


def s_train(tree: BruteTree) -> Log:
    """A member goes on when it has START, its last child's ACK2 and its left sibling's ACK1."""
    waits_for = []
    for node in range(tree.size):
        needed = {"start"} | ({"ack2"} if tree.children[node] else set())
        if node != ROOT and tree.siblings(node)[0] != node:
            needed.add("ack1")
        waits_for.append(needed)

    def on_receive(node: int, kind: str) -> list[Send]:
        if kind == "info":
            return []
        waits_for[node].remove(kind)
        if waits_for[node]:
            return []
        if node == ROOT:
            return [(ROOT, "info", None)]
        siblings = tree.siblings(node)
        place = siblings.index(node)
        if place + 1 < len(siblings):
            return [(node, "ack1", siblings[place + 1])]
        return [(node, "ack2", tree.parent[node])]

    return execute(tree, (ROOT, "start", None), on_receive)


PROTOCOLS: dict[str, Callable[[BruteTree], Log]] = {
    "CoordP": coordp,
    "FullDist": fulldist,
    "Train": train,
    "S_CoordP": s_coordp,
    "S_Train": s_train,
}
