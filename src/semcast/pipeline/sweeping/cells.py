"""Cells: points of a grid and seeds in; one named simulation for each pair out.

The name of a cell follows from what it computes and from nothing else: the scenario's settings
(not its file's name, comments or title), the content of the trace that it replays, the seed, and
the version of semcast. Whoever runs the same cell again finds it done. A cell carries its whole
scenario, so that no file is needed where it is run, but for a trace.
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from semcast import __version__
from semcast.errors import InputError
from semcast.pipeline.sweeping.grid import Point
from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.scenario import Scenario, TwoBufferScenario, trace_of

CELLS_MAX: Final = 100_000
_NAME_DIGITS: Final = 24
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Cell:
    """One simulation. `settings` are the changes to the scenario, for people."""

    cell: str
    point: str
    settings: tuple[tuple[str, str], ...]
    seed: int
    scenario: str  # JSON
    check: bool

    def replay(self, path: str) -> str:
        """The command that runs it again, from the scenario's file."""
        words = ["semcast", "sim", "run", path, "--seed", str(self.seed)]
        for name, value in self.settings:
            words += ["--set", f"{name}={value}"]
        return shlex.join(words)


def cells_of(points: Sequence[Point], seeds: Iterable[int], check: bool = True) -> list[Cell]:
    """All cells of a sweep; equal ones, such as of r=0.5 and r=0.50, are a mistake."""
    seeds = list(seeds)
    if len(points) * len(seeds) > CELLS_MAX:
        raise InputError(
            f"{len(points)} points of the grid times {len(seeds)} seeds are "
            f"{len(points) * len(seeds)} cells; the most is {CELLS_MAX}: give fewer"
        )
    digests: dict[str, str] = {}
    labels: dict[str, str] = {}
    cells = []
    for point in points:
        content, identity = written(point.scenario), _identity(point.scenario, digests)
        if identity in labels:
            raise InputError(f"--grid: {labels[identity]} and {point.label} are the same")
        labels[identity] = point.label
        for seed in seeds:
            name = _digest(json.dumps([__version__, identity, seed, check]).encode())
            cells.append(Cell(name, point.label, point.settings, seed, content, check))
    return cells


def written(scenario: Scenario) -> str:
    """A scenario as JSON that `sim.scenario.parse` reads; a trace is named by its whole path."""
    table = _without_nulls(asdict(scenario))
    assert isinstance(table, dict)
    trace = trace_of(scenario)
    if trace is not None:
        table["traffic"]["file"] = str(Path(trace.file).resolve())
    return json.dumps(table, sort_keys=True)


def _identity(scenario: Scenario, digests: dict[str, str]) -> str:
    """All that matters of a scenario, but for the seed."""
    table = json.loads(written(scenario))
    del table["title"], table["seed"]
    if trace_of(scenario) is not None:
        path = table["traffic"]["file"]
        if path not in digests:
            digests[path] = _digest_of_file(Path(path))
        table["traffic"]["file"] = digests[path]
    return json.dumps(table, sort_keys=True)


def keeps_journal(scenario: Scenario) -> bool:
    """Whether a run of it has a journal that could be written."""
    return not isinstance(scenario, TwoBufferScenario | GraphScenario)


def _without_nulls(value: object) -> object:
    """The same without null values, because TOML has none: what is not set is not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, tuple):
        return [_without_nulls(one) for one in value]
    return value


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_NAME_DIGITS]


def _digest_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(_CHUNK_BYTES):
            digest.update(content)
    return digest.hexdigest()
