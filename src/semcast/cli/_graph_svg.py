"""A propagation graph in, a drawing out: SVG, without any library.

Roots are at the top, and each site stands above the middle of its children. Below the name of a
site are the groups that it is the primary destination of. A dashed circle is an extra node of some
group.
"""

import html
from collections.abc import Mapping
from typing import Final

from semcast.protocol.propagation.graph import NO_SITE, Graph

_LETTER: Final = 7  # about the width of a letter, in pixels
_ROW: Final = 92
_RADIUS_MIN: Final = 16
_GAP: Final = 18
_MARGIN: Final = 24
_GROUPS_SHOWN_MAX: Final = 4


def draw(graph: Graph, labels: Mapping[int, str], title: str) -> str:
    """The SVG."""
    primaries: dict[int, list[str]] = {}
    for name, site in graph.primaries.items():
        primaries.setdefault(site, []).append(name)
    captions = {site: _caption(names) for site, names in primaries.items()}
    longest = max(len(labels[site]) for site in graph.sites)
    radius = max(_RADIUS_MIN, longest * _LETTER / 2 + 6)
    widest = max([2 * radius, *(len(text) * _LETTER * 0.8 for text in captions.values())])
    places = _places(graph, widest + _GAP, _MARGIN + widest / 2, _MARGIN + 24 + radius)
    width = max(x for x, _ in places.values()) + widest / 2 + _MARGIN
    height = max(y for _, y in places.values()) + radius + 14 + _MARGIN
    extra = {site for name in graph.groups for site in graph.extra_nodes(name)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        _text(_MARGIN, _MARGIN, title, "start", 12),
    ]
    for site, parent in graph.parents.items():
        if parent != NO_SITE:
            (x, y), (above, up) = places[site], places[parent]
            parts.append(
                f'<path d="M{above:.1f} {up + radius:.1f}L{x:.1f} {y - radius:.1f}" '
                'stroke="#57606a"/>'
            )
    for site, (x, y) in places.items():
        dashes = ' stroke-dasharray="4 3"' if site in extra else ""
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#ddf4ff" '
            f'stroke="#1f6feb"{dashes}/>' + _text(x, y + 4, labels[site], "middle", 12)
        )
        if site in captions:
            parts.append(_text(x, y + radius + 12, captions[site], "middle", 10))
    return "\n".join([*parts, "</svg>", ""])


def _caption(names: list[str]) -> str:
    more = len(names) - _GROUPS_SHOWN_MAX
    return " ".join([*names[:_GROUPS_SHOWN_MAX], *([f"+{more}"] if more > 0 else [])])


def _places(graph: Graph, step: float, left: float, top: float) -> dict[int, tuple[float, float]]:
    """Where each site stands. Sites without children are set side by side, from left to right."""
    depth: dict[int, int] = {}
    order: list[int] = []
    to_visit = list(reversed(graph.roots))
    while to_visit:
        site = to_visit.pop()
        parent = graph.parents[site]
        depth[site] = 0 if parent == NO_SITE else depth[parent] + 1
        order.append(site)
        to_visit += reversed(graph.children[site])
    across: dict[int, float] = {}
    leaves = [site for site in order if not graph.children[site]]
    across.update({site: left + at * step for at, site in enumerate(leaves)})
    for site in reversed(order):
        below = graph.children[site]
        if below:
            across[site] = (across[below[0]] + across[below[-1]]) / 2
    return {site: (across[site], top + depth[site] * _ROW) for site in order}


def _text(x: float, y: float, text: str, anchor: str, size: int) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#24292f">{html.escape(text)}</text>'
    )
