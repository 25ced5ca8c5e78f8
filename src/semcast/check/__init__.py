"""Whether a run kept its promises: pure functions over a journal.

    report = check_run(journal)
    assert report.ok, str(report)

Each property has a file here, with a function `check(journal)` that returns violations. Tests, the
simulator and the pipeline call the same ones. Knows nothing of how a run was made.
"""

from semcast.check.history import History
from semcast.check.missing import Missing
from semcast.check.report import (
    PROPERTIES,
    Property,
    Report,
    check_all,
    check_liveness,
    check_run,
    check_safety,
)
from semcast.check.violation import MessageId, Violation

__all__ = [
    "PROPERTIES",
    "History",
    "MessageId",
    "Missing",
    "Property",
    "Report",
    "Violation",
    "check_all",
    "check_liveness",
    "check_run",
    "check_safety",
]
