"""What is missing where, as `check.missing` has it: violations in, a row for each member out."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.missing import FIRST_MAX
from semcast.pipeline.verify.frames import BY_SENDER, Frames
from semcast.pipeline.verify.owed import owed

# By run, member and sender: how many messages, and the first of them.
MISSING: Final = "run string, node string, sender string, messages bigint, first array<bigint>"


def missing(frames: Frames, names: Collection[str], runs: Collection[str]) -> DataFrame:
    """Stage: what is missing by these properties, of what must hold in the end (`MISSING`)."""
    found = frames.once("owed", owed) if frames.facts.ranked else frames.found(BY_SENDER)
    broken = found.where(F.col("property").isin(*names) & F.col("run").isin(*runs))
    about = broken.select("run", "node", F.col("messages")[0].alias("message"))
    lost = about.select("run", "node", "message.sender", "message.seq").distinct()
    here = Window.partitionBy("run", "node", "sender")
    # Only the first seqs are collected: a member may lack millions.
    placed = lost.withColumn("place", F.row_number().over(here.orderBy("seq")))
    first = F.sort_array(F.collect_list(F.when(F.col("place") <= FIRST_MAX, F.col("seq"))))
    return (
        placed.groupBy("run", "node", "sender")
        .agg(F.count("*").alias("messages"), first.alias("first"))
        .orderBy("run", "node", "sender")
    )
