"""Several groups, one after the other: settings in; their outcomes and the rows of a table out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from semcast.model.epidemic.outcome import Outcome
from semcast.model.epidemic.rounds import run
from semcast.model.epidemic.settings import Epidemic

COLUMNS: Final = (
    "members, policy",
    "atomic",
    "receivers",
    "latency mean",
    "latency p99",
    "load mean",
    "load max",
    "waiting",
)


@final
@dataclass(frozen=True)
class SizeRun:
    """One group, and what came of it."""

    settings: Epidemic
    outcome: Outcome
    took_s: float


def run_sizes(
    grid: Sequence[Epidemic], progress: Callable[[int, float], None], clock: Callable[[], float]
) -> list[SizeRun]:
    """Run all of them. `progress` is told which one runs and how much of it is done."""
    found = []
    for at, settings in enumerate(grid):
        began_s = clock()
        outcome = run(settings, _share_of(at, progress))
        found.append(SizeRun(settings, outcome, clock() - began_s))
    return found


def row_of(one: SizeRun) -> list[str]:
    """The figures under `COLUMNS`."""
    outcome = one.outcome
    return [
        f"{one.settings.members:,}, {one.settings.policy}",
        _share(outcome.atomic_share),
        _share(outcome.receivers_share_mean),
        "–" if outcome.latency_mean_rounds is None else f"{outcome.latency_mean_rounds:.1f}",
        "–" if outcome.latency_p99_rounds is None else str(outcome.latency_p99_rounds),
        f"{outcome.load_mean_copies_round:.2f}",
        f"{outcome.load_max_copies_round:.2f}",
        f"{outcome.waiting_mean_copies:.1f}",
    ]


def _share_of(at: int, progress: Callable[[int, float], None]) -> Callable[[int, int], None]:
    return lambda done, rounds: progress(at, done / rounds)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
