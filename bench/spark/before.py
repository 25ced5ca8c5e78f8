"""The JSON of an earlier run in; its results out, so that a long measurement can be made in parts.

What is measured again counts as it is now. What was left out before is not carried on: the page
says by itself what it has no figure of.
"""

import json
from pathlib import Path
from typing import Any

from bench.spark.duck import Answer
from bench.spark.jobs import JOBS
from bench.spark.meter import Line, Peak
from bench.spark.queries import QUERIES
from bench.spark.run import Asked, Measured, Results


def read_before(path: Path) -> dict[str, Any]:
    """The object that `--json` saved; ValueError says in one line what is wrong."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"--add {path}: {error}") from error
    if not isinstance(found, dict) or "spark" not in found or "duckdb" not in found:
        raise ValueError(f"--add {path}: not written by --json of this benchmark")
    return found


def with_before(results: Results, before: dict[str, Any]) -> Results:
    """Both, each job at each size once, by command and then by size."""
    again = {(one.group, one.line.job, one.rows) for one in results.spark}
    old = map(_measured, before["spark"])
    spark = [one for one in old if (one.group, one.line.job, one.rows) not in again]
    asked = {(one.query.job, one.rows) for one in results.duckdb}
    known = map(_asked, before["duckdb"])
    duckdb = [one for one in known if (one.query.job, one.rows) not in asked]
    groups = list(JOBS)
    jobs = [query.job for query in QUERIES]
    return Results(
        sorted(spark + results.spark, key=lambda one: (groups.index(one.group), one.rows)),
        sorted(duckdb + results.duckdb, key=lambda one: (jobs.index(one.query.job), one.rows)),
        results.sweep or before.get("sweep", {}),
        list(results.left_out),
    )


def _measured(one: dict[str, Any]) -> Measured:
    peak = Peak(one["peak_jvm_bytes"], one["peak_python_bytes"])
    line = Line(one["job"], one["shared"], one["seconds"], peak, one["found"])
    line.processor_s = one["processor_s"]
    return Measured(one["group"], one["rows"], line)


def _asked(one: dict[str, Any]) -> Asked:
    (query,) = (some for some in QUERIES if (some.group, some.job) == (one["group"], one["job"]))
    return Asked(query, one["rows"], Answer(one["seconds"], one["peak_bytes"]))
