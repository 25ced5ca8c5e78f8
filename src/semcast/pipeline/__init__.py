"""The data pipeline on Spark: traces and journals in, tables out. The only room with pyspark in it.

`profile`, `plan`, `sweep`, `analyse` and `verify` do what the commands of these names do, for
notebooks (`notebook`). They are made of stages: functions from `DataFrame` to `DataFrame` with
declared schemas, one small file each. No pyspark is imported before one of them is called, so that
what needs none of it works without.
"""

import sys
from pathlib import Path

from semcast.pipeline.ingest.inputs import TraceOptions
from semcast.pipeline.notebook import analyse, plan, profile, sweep, verify

__all__ = ["TraceOptions", "analyse", "plan", "profile", "sweep", "verify"]

# `ship` brings this folder to executors: it has what the package needs and a worker may lack.
_spare = Path(__file__).resolve().parents[2] / "semcast-spare"
if _spare.is_dir() and str(_spare) not in sys.path:
    sys.path.append(str(_spare))
