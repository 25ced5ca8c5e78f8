"""What is drawn and measured of propagation graphs: random groups on sites (PROP §4.1).

Frozen settings with their ranges, as `sim.scenario` reads them; `docs/design/scenarios.md` explains
each. The defaults are a point of PROP Graph 1. Knows nothing of how a graph is generated.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from semcast.errors import ConfigError
from semcast.protocol.propagation.federated import GROUPS_MAX, SITES_MAX
from semcast.sim.ranges import Between, Settings
from semcast.sim.surroundings import Milliseconds

Sites = Annotated[int, Between(1, SITES_MAX)]
Groups = Annotated[int, Between(1, GROUPS_MAX)]
Runs = Annotated[int, Between(2, 1_000_000)]


@dataclass(frozen=True)
class WinnerMap(Settings):
    """Which protocol is best where: at each of these points."""

    sites: Annotated[tuple[int, ...], Between(1, SITES_MAX)] = (20, 50, 100, 200, 500, 1000)
    groups: Annotated[tuple[int, ...], Between(1, GROUPS_MAX)] = (10, 20, 40)
    # L/P: how many times as long a message is on the network as it takes to put it there.
    ratios: Annotated[tuple[float, ...], Between(0, 1e6)] = (0.1, 1.0, 10.0, 100.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sites", "groups", "ratios"):
            if not getattr(self, name):
                raise ConfigError(f"map.{name} is empty; name at least one")


@dataclass(frozen=True)
class GraphScenario(Settings):
    """Random groups, and the graphs that they have."""

    model: Literal["propagation-graph"] = "propagation-graph"
    title: str = ""
    seed: int = 1
    sites: Sites = 100
    groups: Groups = 40
    group_size: Sites = 5
    # All groups have that size, or it is the mean of an exponential distribution.
    sizes: Literal["fixed", "exponential"] = "fixed"
    rule: Literal["greedy", "spread", "fewest-extra", "latency"] = "greedy"
    # Rule "spread": how many leaves may hang on one site.
    children_max: Annotated[int, Between(1, SITES_MAX)] = 2
    # So many sets of groups are drawn, until all means are known well enough: with 95% confidence
    # within this share of the mean and, for extra nodes, within so many.
    runs_min: Runs = 200
    runs_max: Runs = 1000
    within_share: Annotated[float, Between(1e-6, 1)] = 0.1
    within_extra_nodes: Annotated[float, Between(1e-6, 1000)] = 0.5
    # L, P and T of Tables 1 and 2.
    latency_ms: Milliseconds = 10.0
    processing_ms: Milliseconds = 1.0
    broadcast_ms: Milliseconds = 12.0
    # If it is there, a run draws this map instead.
    map: WinnerMap | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs_max < self.runs_min:
            raise ConfigError(
                f"runs_max is {self.runs_max}; it must be at least runs_min, {self.runs_min}"
            )
        sites_min = min(self.map.sites) if self.map is not None else self.sites
        if self.sizes == "fixed" and self.group_size > sites_min:
            raise ConfigError(
                f"group_size is {self.group_size}, but there are only {sites_min} sites"
            )
