"""The largest rate that keeps atomicity: a scenario in, a rate out (PSRM §4.2, Figure 4).

Halves an interval of rates, with one run for each rate, until it is short enough; its lower end is
the answer. What is kept falls with the rate, but for chance, so a search with one seed errs by some
percent; a sweep takes the mean over several.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from semcast.errors import ConfigError
from semcast.sim.epidemic.gossip_scenario import GossipScenario, Search
from semcast.sim.epidemic.world import run
from semcast.sim.traffic import Chains


@dataclass(frozen=True)
class Found:
    """What a search found, and every rate that it tried, in order."""

    # None: atomicity is not kept at the lowest rate.
    largest_rate_msg_s: float | None
    # Whether it is kept even at the highest rate, so that the largest may be beyond.
    beyond: bool
    tried: tuple[tuple[float, float], ...]


def largest_rate(
    scenario: GossipScenario,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> Found:
    """Search as the scenario says, or as usual if it says nothing."""
    search = scenario.search or Search()
    tried: list[tuple[float, float]] = []

    # Rates are tried on the grid that halving the whole interval gives, as in the paper, so that
    # what is found does not depend on the way there.
    cells, cell_msg_s = 1, search.high_msg_s - search.low_msg_s
    while cell_msg_s > search.within_msg_s:
        cells, cell_msg_s = 2 * cells, cell_msg_s / 2
    # One, one for each step of the bracket, and one for each halving of it.
    most = 2 * cells.bit_length()

    def show(share_of_run: float) -> None:
        if progress is not None:
            progress((len(tried) + share_of_run) / most)

    def kept(rate_msg_s: float) -> bool:
        share = run(at_rate(scenario, rate_msg_s), seed, show).atomic_share or 0.0
        tried.append((rate_msg_s, share))
        return share >= search.kept_share

    def rate_at(cell: int) -> float:
        return search.low_msg_s + cell * cell_msg_s

    if not kept(rate_at(0)):
        return Found(None, False, tuple(tried))
    low, high = _bracket(cells, lambda cell: kept(rate_at(cell)))
    if low == cells:
        return Found(search.high_msg_s, True, tuple(tried))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(rate_at(middle)) else (low, middle)
    return Found(rate_at(low), False, tuple(tried))


def _bracket(cells: int, kept: Callable[[int], bool]) -> tuple[int, int]:
    """A cell that is kept and one that is not, by steps that double: rates beyond what links carry
    many times over cost most and are rarely wanted. (cells, cells): all are kept.
    """
    low, step = 0, 1
    while low + step < cells:
        if not kept(low + step):
            return low, low + step
        low, step = low + step, 2 * step
    return (cells, cells) if kept(cells) else (low, cells)


def at_rate(scenario: GossipScenario, rate_msg_s: float) -> GossipScenario:
    """The same with messages at another rate."""
    if not isinstance(scenario.traffic, Chains):
        raise ConfigError("only traffic of chains has a rate that can be searched for")
    traffic = replace(scenario.traffic, rate_msg_s=rate_msg_s)
    return replace(scenario, traffic=traffic, search=None)
