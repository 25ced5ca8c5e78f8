"""One multicast down a propagation tree, walked message by message; no formula is used.

A tree in (parents, and which nodes are members), messages and delay out (PROP §3.2, §4).
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class GroupTree:
    """Node 0 is the primary destination; every leaf is a member, or it would not be sent to."""

    children: tuple[tuple[int, ...], ...]
    member: tuple[bool, ...]

    @property
    def members(self) -> int:
        return sum(self.member)

    @property
    def extra_nodes(self) -> int:
        return len(self.member) - self.members

    @property
    def forwarding_nodes(self) -> int:
        return sum(1 for children in self.children if children)

    @property
    def depth(self) -> int:
        depths = [0] * len(self.children)
        for node, children in enumerate(self.children):
            for child in children:  # children have larger numbers than their parent
                depths[child] = depths[node] + 1
        return max(depths)


def random_tree(stream: random.Random, nodes: int) -> GroupTree:
    children: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        children[stream.randrange(node)].append(node)
    # The primary destination is always a member (PG3); a node that forwards may be extra.
    member = [node == 0 or not children[node] or stream.random() < 0.7 for node in range(nodes)]
    return GroupTree(tuple(map(tuple, children)), tuple(member))


def over_links(tree: GroupTree, latency: int, processing: int) -> tuple[int, int]:
    """Messages and time of the last arrival; a node puts one message at a time on the network."""
    messages = 1
    arrival = {0: processing + latency}
    for node, children in enumerate(tree.children):
        for place, child in enumerate(children, start=1):
            messages += 1
            arrival[child] = arrival[node] + place * processing + latency
    return messages, max(arrival.values())


def over_broadcast(tree: GroupTree, step: int) -> tuple[int, int]:
    """One broadcast reaches all children of a node at once, but only one is on the medium."""
    messages, time = 1, step
    waiting = [0]
    while waiting:
        node = waiting.pop(0)
        if tree.children[node]:
            messages, time = messages + 1, time + step
            waiting += tree.children[node]
    return messages, time
