"""Lines and bars in, drawings out: SVG text to put into a page. The only file with matplotlib.

No window is opened, no font is fetched, and the same numbers give the same text.
"""

import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from semcast.errors import InputError

Style = Literal["line", "steps", "bars", "points"]


@dataclass(frozen=True)
class Line:
    """One set of points of a plot, and what it is called."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Style = "line"


@dataclass(frozen=True)
class Plot:
    """A plot with its words. A page refers to it by `name`, in which no two are alike."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False


def require_report() -> None:
    """What draws and lays out pages is installed, or one line on how to get it."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"plots and pages need {' and '.join(missing)}, which is not installed; "
            "pip install 'semcast[report]'"
        )


def draw(plot: Plot) -> str:
    """The plot as one <svg> element."""
    require_report()
    importlib.import_module("matplotlib.figure")
    matplotlib = importlib.import_module("matplotlib")
    # Text stays text; ids come from the name, so that plots of one page do not share any.
    settings = {"svg.fonttype": "none", "svg.hashsalt": plot.name, "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure = matplotlib.figure.Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.subplots()
        for line in plot.lines:
            _add(axes, line)
        axes.set_title(plot.title, loc="left", fontsize=11)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        if plot.log_x:
            axes.set_xscale("log")
        if plot.log_y:
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
        if len(plot.lines) > 1:
            axes.legend(frameon=False, fontsize=9)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # A page has one document type of its own, and no address of another one.
    text = out.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)


def _add(axes: Any, line: Line) -> None:
    if line.style == "bars":
        axes.vlines(line.x, 0, line.y, label=line.label, linewidth=1.2)
    elif line.style == "steps":
        axes.step(line.x, line.y, where="post", label=line.label)
    elif line.style == "points":
        axes.plot(line.x, line.y, ".", label=line.label)
    else:
        axes.plot(line.x, line.y, label=line.label, linewidth=1.2)
