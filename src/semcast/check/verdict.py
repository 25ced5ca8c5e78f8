"""What is said of a whole run, by whoever judged it: counts, the first violations, what is missing.

`semcast check` and `semcast verify` print the same verdicts. A report of one process becomes one
here; `pipeline.verification` puts its own together.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from semcast.check.facts import NEVER, RunFacts
from semcast.check.history import History
from semcast.check.properties import PROPERTIES
from semcast.check.property import Property
from semcast.check.report import check_run
from semcast.check.violation import Missing, Violation
from semcast.journal import Journal

SHOWN_MAX: Final = 20
# A run of so many events takes one process a few seconds and some 300 MB.
EVENTS_MAX: Final = 250_000
# Why a node of a live run owes nothing in the end.
NO_END: Final = "its log has no end: killed, cut off, or still running"
LEFT: Final = "left before the end"


@dataclass
class RunVerdict:
    """What came of one run."""

    run: str
    events: int
    # Why what must hold in the end was not judged; empty if it was.
    not_at_rest: str = ""
    # By property: how many events were judged, and how often it is broken.
    judged: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    # The first violations of each property.
    shown: list[Violation] = field(default_factory=list)
    # Which messages are missing where, by what must hold in the end.
    missing: list[Missing] = field(default_factory=list)
    # Of a live run: the nodes of which that is not asked, and why; and what people call nodes.
    excused: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not any(self.broken.values())


def not_judged_yet(run: RunFacts) -> RunVerdict:
    """A verdict before anything was judged: it only says who is excused."""
    excused: dict[str, str] = {}
    if not run.header.one_order:
        for n, node in enumerate(run.nodes):
            if run.crash_at[n] != NEVER:
                excused[node] = NO_END
            elif not (run.correct >> n) & 1:
                excused[node] = LEFT
    pairs = (one.split(" ", 1) for one in run.header.names)
    names = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    return RunVerdict(run.header.run, sum(run.counts.values()), excused=excused, names=names)


def verdict_on(
    log: Journal | History,
    properties: Sequence[Property] = PROPERTIES,
    rest: bool | None = None,
    shown_max: int = SHOWN_MAX,
) -> RunVerdict:
    """Judge a journal that fits into memory, as `check_run` does."""
    history = History.of(log)
    report = check_run(history, properties, rest)
    verdict = not_judged_yet(history.run)
    verdict.not_at_rest, verdict.judged = report.not_at_rest, report.judged
    verdict.broken, verdict.missing = report.counts, report.missing
    so_far = Counter[str]()
    for one in report.violations:
        so_far[one.property] += 1
        if so_far[one.property] <= shown_max:
            verdict.shown.append(one)
    return verdict
