"""A trace in the lake in, its rows out: as they are there, or as those of a file."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.ingest.lake import Lake
from semcast.pipeline.ingest.paths import to_read, to_write

# `pos` counts the messages of the trace and `seq` those of the sender, both from 1; `source` is the
# input file.
TRACE_SCHEMA: Final = (
    "time_s double, sender string, key string, kind string, size int, "
    "seq bigint, pos bigint, trace string, source string"
)


def read_trace_rows(spark: SparkSession, lake: Lake, trace: str) -> DataFrame:
    """The rows of an ingested trace (TRACE_SCHEMA), in no particular order: `pos` says it."""
    reader = spark.read.schema(TRACE_SCHEMA).option("basePath", to_write(lake.traces))
    return reader.parquet(to_read(lake.trace_folder(trace)))


def as_rows(ingested: DataFrame) -> DataFrame:
    """Rows of an ingested trace as those of a file (`read.ROWS_SCHEMA`), for the same stages."""
    nothing = F.lit(None).cast("string")
    return ingested.select(
        F.lit(0).alias("file"),
        F.lit(0).cast("bigint").alias("start"),
        F.col("pos").alias("row"),
        *("time_s", "sender", "key", "kind", "size"),
        nothing.alias("reason"),
        nothing.alias("text"),
    )
