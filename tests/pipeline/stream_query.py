"""A query in a process of its own, from a group into Parquet, until its stdin is closed.

Run as `python -m tests.pipeline.stream_query`, with what to do as JSON.
"""

import json
import sys

from semcast.pipeline.spark.session import open_session
from semcast.pipeline.streaming import register


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = open_session("query", master="local[2]", conf={"spark.driver.memory": "1g"})
    register(spark)
    query = (
        spark.readStream.format("semcast")
        .options(**told["options"])
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", told["checkpoint"])
        .start(told["out"])
    )
    sys.stdin.read()
    query.processAllAvailable()
    query.stop()
    error = query.exception()
    spark.stop()
    sys.exit(str(error) if error else 0)


if __name__ == "__main__":
    main()
