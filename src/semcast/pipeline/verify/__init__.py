"""Whether runs kept their promises, as Spark jobs: `check` for journals of any size.

    verdicts = verify(spark, read_journals(spark, "journals"))
    assert all(verdict.ok for verdict in verdicts)

Every property of `check` has a file here with a stage that gives the same violations. Most are one
pass of a small kernel over events that Spark sorted by sender, by node or by time.
"""

from semcast.pipeline.verify.report import STAGES, RunVerdict, all_violations, verify

__all__ = ["STAGES", "RunVerdict", "all_violations", "verify"]
