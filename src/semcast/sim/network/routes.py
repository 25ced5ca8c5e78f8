"""Routes through a tree: a node and a destination in, the next link out.

Link 2v goes from node v up to its parent, link 2v + 1 from there down to v: the two directions of
a link differ in the last bit only. Nodes may be numbered in any order.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64

from semcast.errors import ConfigError


@final
class Routes:
    """The routes through one tree, whose root has a parent below 0."""

    def __init__(self, parents: list[int]) -> None:
        self.parents = vec[i64](parents)
        self.children: Final[list[list[int]]] = [[] for _ in parents]
        # INV-WALK: the nodes of the subtree of v come _first[v]-th to _last[v]-th in a walk,
        # parents before children and these in order.
        self._first = vec[i64]([0] * len(parents))
        self._last = vec[i64]([0] * len(parents))
        self._walk(self._check(parents))

    def end_of(self, link: i64) -> i64:
        """The node that a link leads to."""
        return link >> 1 if link & 1 else self.parents[link >> 1]

    def link_towards(self, node: i64, target: i64) -> i64:
        """The first link on the way from a node to another."""
        first = self._first[target]
        if first < self._first[node] or first > self._last[node]:
            return 2 * node
        # The target is in the subtree of the last child that does not come after it in the walk.
        children = self.children[node]
        low = 0
        high = len(children) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._first[children[middle]] <= first:
                low = middle
            else:
                high = middle - 1
        return 2 * children[low] + 1

    def _check(self, parents: list[int]) -> list[int]:
        """Find the children. Returns the nodes from the root down, or raises ConfigError."""
        roots = [node for node, parent in enumerate(parents) if parent < 0]
        for node, parent in enumerate(parents):
            if parent >= len(parents):
                raise ConfigError(f"the parent of node {node} is {parent}; there is no such node")
            if parent >= 0:
                self.children[parent].append(node)
        order = roots[:1]
        for node in order:  # it grows as we go
            order += self.children[node]
        if len(roots) != 1 or len(order) != len(parents):
            raise ConfigError("the parents of the nodes are no tree with one root")
        return order

    def _walk(self, order: list[int]) -> None:
        sizes = [1] * len(order)
        for node in reversed(order[1:]):
            sizes[self.parents[node]] += sizes[node]
        for node in order:
            self._last[node] = self._first[node] + sizes[node] - 1
            following = self._first[node] + 1
            for child in self.children[node]:
                self._first[child] = following
                following += sizes[child]
