"""Which protocol is best where: a scenario with a map in; for each point, who wins in what, out.

The delay is D of Table 1, with the depth and the extra nodes that random groups have there; the
load is what the busiest site sends and receives (PROP §4.1).
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.propagation.grids import PROTOCOLS, GraphOutcome, at_point, measure

COLOURS: Final = {"two_phase": "#bf8700", "centralized": "#8250df", "propagation": "#1a7f37"}
WORDS: Final = {
    "two_phase": "two-phase",
    "centralized": "centralized",
    "propagation": "propagation",
}
_CELL: Final = (84, 30)


@dataclass(frozen=True)
class Winner:
    """One point of the map. Delays are in units of P, the time to put a message on the network."""

    sites: int
    groups: int
    ratio: float  # L/P
    delays: dict[str, float]
    loads: dict[str, float]

    @property
    def delay(self) -> str:
        """Who has the least delay."""
        return min(PROTOCOLS, key=lambda name: self.delays[name])

    @property
    def delay_without_center(self) -> str:
        """Who has, of the two that have no central site."""
        return min(("two_phase", "propagation"), key=lambda name: self.delays[name])

    @property
    def load(self) -> str:
        """Whose busiest site has least to do."""
        return min(PROTOCOLS, key=lambda name: self.loads[name])


def winners(
    scenario: GraphScenario, seed: int, show: Callable[[float], None] | None = None
) -> list[Winner]:
    """Every point of the map; the groups of one point are drawn once, for all ratios."""
    wanted = scenario.map
    assert wanted is not None
    found = []
    pairs = [(sites, groups) for groups in wanted.groups for sites in wanted.sites]
    for at, (sites, groups) in enumerate(pairs):
        outcome = measure(at_point(scenario, sites, groups), seed)
        found += [_winner(outcome, sites, groups, ratio) for ratio in wanted.ratios]
        if show is not None:
            show((at + 1) / len(pairs))
    return found


def _winner(outcome: GraphOutcome, sites: int, groups: int, ratio: float) -> Winner:
    size = outcome.mean("centralized_messages")
    depth, extra = outcome.mean("depth"), outcome.mean("extra_nodes")
    delays = {
        "two_phase": 3 * ratio + 2 * size + 1,
        "centralized": 2 * ratio + size,
        "propagation": (depth + 1) * ratio + size + extra,
    }
    loads = {name: outcome.mean(f"{name}_load_max") for name in PROTOCOLS}
    return Winner(sites, groups, ratio, delays, loads)


def drawn(title: str, found: Sequence[Winner]) -> str:
    """The map as SVG: for each number of groups a table of sites and ratios, and one for load."""
    groups = sorted({one.groups for one in found})
    sites = sorted({one.sites for one in found})
    ratios = sorted({one.ratio for one in found})
    width = 130 + _CELL[0] * len(sites)
    table = _CELL[1] * (len(ratios) + 3)
    height = 60 + table * len(groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(12, 22, title),
    ]
    for at, name in enumerate(PROTOCOLS):
        parts.append(
            _box(12 + at * 110, 32, 12, 12, COLOURS[name]) + _text(30 + at * 110, 42, WORDS[name])
        )
    by_point = {(one.groups, one.sites, one.ratio): one for one in found}
    for number, count in enumerate(groups):
        top = 60 + number * table
        parts.append(_text(12, top + 20, f"{count} groups, sites:"))
        for column, site in enumerate(sites):
            x = 120 + column * _CELL[0]
            parts.append(_text(x + 4, top + 20, f"{site}"))
            rows = [by_point[count, site, ratio] for ratio in ratios]
            for row, one in enumerate(rows):
                parts.append(_cell(x, top + _CELL[1] * (row + 1), one.delay_without_center))
            parts.append(_cell(x, top + _CELL[1] * (len(ratios) + 1) + 6, rows[0].load))
        for row, ratio in enumerate(ratios):
            parts.append(_text(12, top + _CELL[1] * (row + 1) + 19, f"delay, L/P = {ratio:g}"))
        parts.append(_text(12, top + _CELL[1] * (len(ratios) + 1) + 25, "maximum load"))
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: float, y: float, name: str) -> str:
    width, height = _CELL
    return _box(x, y, width - 2, height - 2, COLOURS[name]) + _text(
        x + 6, y + 18, WORDS[name], "white"
    )


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, colour: str = "#24292f") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{html.escape(text)}</text>'
