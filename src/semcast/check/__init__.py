"""Whether a run kept its promises: pure functions over a journal.

    report = check_run(journal)
    assert report.ok, str(report)

Each property has a file here: what it means, and a kernel that judges it. Tests, the simulator and
the pipeline run the same kernels. Knows nothing of how a run was made.
"""

from semcast.check.history import History
from semcast.check.properties import PROPERTIES
from semcast.check.property import Property
from semcast.check.report import (
    Report,
    check_all,
    check_run,
    check_safety,
    chosen,
    judge,
)
from semcast.check.verdict import EVENTS_MAX, RunVerdict, verdict_on
from semcast.check.violation import MessageId, Missing, Violation

__all__ = [
    "EVENTS_MAX",
    "PROPERTIES",
    "History",
    "MessageId",
    "Missing",
    "Property",
    "Report",
    "RunVerdict",
    "Violation",
    "check_all",
    "check_run",
    "check_safety",
    "chosen",
    "judge",
    "verdict_on",
]
