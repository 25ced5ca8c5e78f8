"""Live groups as streams of Spark: a group in, rows out, and rows in, messages out.

    from semcast.pipeline.streaming import register

    register(spark)
    rows = spark.readStream.format("semcast").options(group="quotes", size=3, spool="…").load()
    rows.writeStream.format("parquet").option("checkpointLocation", "…").start("quotes.parquet")

What is promised, and what each option and column means, is in docs/pipeline/stream.md.
"""

from semcast.pipeline.streaming.format import FORMAT, SemcastDataSource, register
from semcast.pipeline.streaming.segment import SCHEMA

__all__ = ["FORMAT", "SCHEMA", "SemcastDataSource", "register"]
