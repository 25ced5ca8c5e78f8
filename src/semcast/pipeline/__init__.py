"""The data pipeline on Spark: traces and journals in, tables out. The only room with pyspark in it.

Stages are functions from `DataFrame` to `DataFrame` with declared schemas, one small file each; the
command line composes them, and so can a notebook:

    from semcast.pipeline.spark.session import open_session
    spark = open_session("my notebook", master="local[4]")

No pyspark is imported here, so that what needs none of it starts without.
"""

import sys
from pathlib import Path

# On an executor to which `ship` brought the package: what it needs and the worker may not have.
_spare = Path(__file__).resolve().parents[2] / "semcast-spare"
if _spare.is_dir() and str(_spare) not in sys.path:
    sys.path.append(str(_spare))
