"""What is missing where, as `check.violation` has it: violations in, a row for each member out."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.violation import FIRST_MAX

# By run, member and sender: how many messages, and the first of them.
MISSING: Final = "run_no int, n int, sender string, messages bigint, first array<bigint>"


def missing(violations: DataFrame, names: Collection[str]) -> DataFrame:
    """Stage: what is missing by these properties, of what must hold in the end (`MISSING`)."""
    broken = violations.where(F.col("property").isin(*names))
    about = broken.select("run_no", "n", F.col("messages")[0].alias("message"))
    lost = about.select("run_no", "n", "message.sender", "message.seq").distinct()
    here = Window.partitionBy("run_no", "n", "sender")
    # Only the first seqs are collected: a member may lack millions.
    placed = lost.withColumn("place", F.row_number().over(here.orderBy("seq")))
    first = F.sort_array(F.collect_list(F.when(F.col("place") <= FIRST_MAX, F.col("seq"))))
    return placed.groupBy("run_no", "n", "sender").agg(
        F.count("*").alias("messages"), first.alias("first")
    )
