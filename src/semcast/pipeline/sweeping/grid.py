"""A grid: text such as "r=0,0.25,0.5 delay_ms=5..50..5" in, axes of settings and values out.

Settings are named as `semcast sim run --set` names them, with dots; the last part of the name, or
the end of it, is enough where only one setting of the scenario has it. Knows nothing of seeds.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Final

from semcast.errors import InputError
from semcast.sim.ranges import Settings
from semcast.sim.scenario import Scenario, load

VALUES_MAX: Final = 10_000
_NUMBER: Final = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_RANGE: Final = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?:\.\.{_NUMBER})?")
# Of the scenario, but not of what it does; seeds have an option of their own.
_NOT_SWEPT: Final = ("model", "title", "seed")
_EXAMPLE: Final = "for instance r=0,0.25,0.5 delay_ms=5..50..5"
_OPENING: Final = "[{"
_CLOSING: Final = "]}"


@dataclass(frozen=True)
class Axis:
    """One setting and the values that it takes."""

    name: str  # as the user wrote it
    setting: str  # with all its dots
    values: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One choice of values, and the scenario that it makes."""

    settings: tuple[tuple[str, str], ...]  # by dotted name, in the order of the axes
    scenario: Scenario

    @property
    def changes(self) -> tuple[str, ...]:
        """The same as arguments of `sim run --set`."""
        return tuple(f"{name}={value}" for name, value in self.settings)

    @property
    def label(self) -> str:
        """The point on one line."""
        return " ".join(self.changes)


def points_of(path: Path, grid: str) -> tuple[list[Axis], list[Point]]:
    """The axes of a grid, and the scenario at each of its points; an empty grid is one point."""
    axes = parse_grid(grid, load(path), tomllib.loads(path.read_text(encoding="utf-8")))
    points = []
    for values in product(*(axis.values for axis in axes)):
        settings = tuple((axis.setting, value) for axis, value in zip(axes, values, strict=True))
        changes = [f"{name}={value}" for name, value in settings]
        points.append(Point(settings, load(path, changes)))
    return axes, points


def parse_grid(grid: str, scenario: Scenario, written: Mapping[str, object]) -> list[Axis]:
    """The axes. `written` is the scenario's table: its own settings go first where names clash."""
    axes: list[Axis] = []
    for part in _split(grid, None):
        name, equals, text = part.partition("=")
        if not (name and equals and text):
            raise InputError(f"--grid has {part!r}; write name=values, {_EXAMPLE}")
        axis = Axis(name, setting_of(name, scenario, written), tuple(_values(name, text)))
        if any(axis.setting == other.setting for other in axes):
            raise InputError(f"--grid names {axis.setting} twice; put all its values together")
        axes.append(axis)
    return axes


# -- names -----------------------------------------------------------------------------------------


def setting_of(name: str, scenario: Scenario, written: Mapping[str, object]) -> str:
    """The dotted name of a setting that may be named by its end."""
    known = dict(_leaves(scenario))
    if name in known:
        return name
    if name == "seed":
        raise InputError("--grid names seed; say how many seeds by --seeds")
    ends = [one for one in known if one.endswith(f".{name}")]
    ends = ends or [one for one in known if one.endswith(f"_{name}")]
    found = ends if len(ends) == 1 else [one for one in ends if _is_written(one, written)]
    if len(found) == 1:
        return found[0]
    if ends:
        raise InputError(f"--grid: {name} may be {' or '.join(ends)}; write which")
    raise InputError(f"--grid: the scenario has no setting {name}; it has {', '.join(known)}")


def _leaves(settings: Settings, prefix: str = "") -> Iterator[tuple[str, object]]:
    """All settings that hold a value, by dotted name; members of lists by number."""
    for one in fields(settings):  # type: ignore[arg-type]
        name, value = f"{prefix}{one.name}", getattr(settings, one.name)
        if isinstance(value, Settings):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, tuple) and any(isinstance(item, Settings) for item in value):
            for at, item in enumerate(value):
                yield from _leaves(item, f"{name}.{at}.")
        elif name not in _NOT_SWEPT:
            yield name, value


def _is_written(name: str, written: Mapping[str, object]) -> bool:
    place: object = written
    for step in name.split("."):
        if isinstance(place, list):
            place = place[int(step)]
        elif isinstance(place, dict) and step in place:
            place = place[step]
        else:
            return False
    return True


# -- values ----------------------------------------------------------------------------------------


def _values(name: str, text: str) -> list[str]:
    values: list[str] = []
    for part in _split(text, ","):
        found = _RANGE.fullmatch(part)
        values += [part] if found is None else _range(name, part, found.groups())
        if len(values) > VALUES_MAX:
            raise InputError(f"--grid: {name} has more than {VALUES_MAX} values; give fewer")
    for value in values:
        if values.count(value) > 1:
            raise InputError(f"--grid: {name} has the value {value} twice")
    if not values:
        raise InputError(f"--grid: {name} has no values; write name=values, {_EXAMPLE}")
    return values


def _range(name: str, text: str, bounds: Sequence[str | None]) -> list[str]:
    """The values of a range, both ends included. Decimals make 0.3 of 0..1..0.1 exact."""
    low, high, step = (Decimal(bound or "1") for bound in bounds)
    if step <= 0 or high < low:
        raise InputError(
            f"--grid: {name}={text} is no range; write low..high..step with a step above 0"
        )
    if (high - low) / step >= VALUES_MAX:
        raise InputError(f"--grid: {name}={text} has more than {VALUES_MAX} values; give fewer")
    count = int((high - low) / step) + 1
    return [f"{(low + step * at).normalize():f}" for at in range(count)]


def _split(text: str, separator: str | None) -> list[str]:
    """The parts between separators (None: white space), but not those within brackets or quotes."""
    parts, part, depth, quote = [], "", 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        else:
            depth += (sign in _OPENING) - (sign in _CLOSING)
        between = sign.isspace() if separator is None else sign == separator
        if between and depth <= 0 and not quote:
            parts.append(part)
            part = ""
        else:
            part += sign
    return [one.strip() for one in [*parts, part] if one.strip()]
