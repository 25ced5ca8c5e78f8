"""Whether runs kept their promises, as Spark jobs: `check` for journals of any size.

    verdicts = judge_journals(spark, read_journals(spark, "journals"))
    assert all(verdict.ok for verdict in verdicts)

Nothing is judged here but by the kernels of `check`. A run that fits into one task's memory is
judged there whole, as `check` does it; of a larger one Spark sorts the events by node, by sender
and by time, and each task judges some groups of them.
"""

from semcast.check.verdict import RunVerdict
from semcast.pipeline.verification.report import judge_journals

__all__ = ["RunVerdict", "judge_journals"]
