"""Rules: what makes one propagation graph better than another (PROP §4.1, "other techniques").

A rule is one or more ways to choose sites, the cost by which the best of the trees that they give
is kept, and how many children a site may have that need not hang on it. It knows nothing of how a
tree is found (`generator`).
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from semcast.errors import ConfigError
from semcast.protocol.propagation.choices import (
    Choice,
    FewestPassed,
    LatencyNs,
    MostGroups,
    Nearest,
    NearlyMost,
)
from semcast.protocol.propagation.graph import Graph

CHILDREN_MAX: Final = 2
# How many trees are compared to find one with few extra nodes, beside that of the greedy rule.
DRAWS: Final = 12


@mypyc_attr(allow_interpreted_subclasses=True)
class Cost(ABC):
    """What a graph costs: the less, the better."""

    @abstractmethod
    def of(self, graph: Graph) -> int:
        """The cost of a graph with one tree."""


@final
class ExtraNodes(Cost):
    """Extra nodes, over all groups (PG4)."""

    def of(self, graph: Graph) -> int:
        return sum(len(graph.extra_nodes(name)) for name in graph.groups)


@final
class MaximumLoad(Cost):
    """The load of the site that has most of it."""

    def of(self, graph: Graph) -> int:
        return max(graph.load(site) for site in graph.sites)


@final
class Delay(Cost):
    """The time from the primary destination to the farthest member, over all groups."""

    def __init__(self, latency_ns: LatencyNs) -> None:
        self._latency_ns: Final = latency_ns

    def of(self, graph: Graph) -> int:
        return sum(graph.delay_ns(name, self._latency_ns) for name in graph.groups)


@final
class Rule:
    """How to generate a graph."""

    def __init__(
        self, choices: tuple[Choice, ...], cost: Cost | None = None, children_max: int = 0
    ) -> None:
        """If there are several choices, the tree of least cost is kept; of equal ones, the first.

        `children_max` bounds the children without children of their own; further ones hang below
        them, where that makes no extra nodes. 0: there is no bound.
        """
        if not choices or (len(choices) > 1 and cost is None):
            raise ConfigError("a rule needs a choice, and a cost if there are several to compare")
        if children_max < 0:
            raise ConfigError(
                f"children_max is {children_max}; it must be 1 or more, or 0 for no bound"
            )
        self.choices: Final = choices
        self.cost: Final = cost
        self.children_max: Final = children_max


# PROP §3.1: the site in most groups comes first.
GREEDY: Final = Rule((MostGroups(),))
# PG4: the best of several trees, so never more extra nodes than the greedy rule gives.
FEWEST_EXTRA: Final = Rule(
    (MostGroups(), *(NearlyMost(draw) for draw in range(DRAWS))), ExtraNodes()
)


def spread(children_max: int = CHILDREN_MAX) -> Rule:
    """Trade load for depth (PROP Figure 5(b)): sites pass messages on for their siblings. The
    maximum load is never more than that of the greedy rule.
    """
    if children_max < 1:
        raise ConfigError(f"children_max is {children_max}; it must be at least 1")
    return Rule((MostGroups(), FewestPassed()), MaximumLoad(), children_max)


def by_latency(latency_ns: LatencyNs) -> Rule:
    """Use measured latencies. The sum of delays is never more than that of the greedy rule."""
    choices = (MostGroups(), Nearest(latency_ns, 1.0), Nearest(latency_ns, 0.5))
    return Rule(choices, Delay(latency_ns))
