"""A summary in, a picture out: one measure against the first axis, as SVG without any library.

A line for each choice of the other axes, with the 95% confidence interval at every point.
"""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 760
HEIGHT: Final = 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 200, 50, 60
_COLOURS: Final = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")
_TICKS: Final = 5


@dataclass(frozen=True)
class Dot:
    """One point of the grid: where it is on the first axis, and what was measured there."""

    x: str
    mean: float
    ci95: float


def plot(title: str, x_name: str, y_name: str, lines: Mapping[str, Sequence[Dot]]) -> str:
    """The SVG. Words on the first axis are set apart evenly."""
    places = _places([dot.x for dots in lines.values() for dot in dots])
    tops = [dot.mean + dot.ci95 for dots in lines.values() for dot in dots]
    lows = [dot.mean - dot.ci95 for dots in lines.values() for dot in dots]
    y_low, y_high = min([0.0, *lows]), max([*tops, 1e-9])
    x_low, x_high = min(places.values()), max(places.values())

    def across(x: str) -> float:
        share = (places[x] - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return HEIGHT - _BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - _TOP - _BOTTOM)

    parts = [_frame(title, x_name, y_name)]
    for at in range(_TICKS + 1):
        y = y_low + (y_high - y_low) * at / _TICKS
        parts.append(
            f'<path d="M{_LEFT} {up(y):.1f}H{WIDTH - _RIGHT}" stroke="#d0d7de"/>'
            + _text(_LEFT - 8, up(y) + 4, f"{y:.4g}", "end")
        )
    parts += [_text(across(x), HEIGHT - _BOTTOM + 20, x, "middle") for x in places]
    for number, (name, dots) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        steps = [f"{across(dot.x):.1f} {up(dot.mean):.1f}" for dot in dots]
        parts.append(f'<path d="M{" L".join(steps)}" fill="none" stroke="{colour}"/>')
        parts += [_whisker(across(dot.x), up, dot, colour) for dot in dots]
        parts.append(_text(WIDTH - _RIGHT + 12, _TOP + 18 * (number + 1), name, "start", colour))
    return "\n".join([*parts, "</svg>", ""])


def _whisker(x: float, up: Callable[[float], float], dot: Dot, colour: str) -> str:
    low, high = up(dot.mean - dot.ci95), up(dot.mean + dot.ci95)
    bar = f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="3"/>'
    return bar + f'<circle cx="{x:.1f}" cy="{up(dot.mean):.1f}" r="3" fill="{colour}"/>'


def _frame(title: str, x_name: str, y_name: str) -> str:
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        + _text(_LEFT, 24, title, "start")
        + _text(middle, HEIGHT - 14, x_name, "middle")
        + _text(_LEFT, _TOP - 8, y_name, "start")
    )


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#24292f") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
        f"{html.escape(text)}</text>"
    )


def _places(values: Sequence[str]) -> dict[str, float]:
    """Where each value is on its axis: numbers by size, words in their order."""
    seen = dict.fromkeys(values)
    try:
        places = {value: float(value) for value in seen}
    except ValueError:
        places = {}
    if places and all(map(math.isfinite, places.values())):
        return places
    return {value: float(at) for at, value in enumerate(seen)}
