"""Accounting (SRM §4.3), as `check.accounting` has it: a kernel for each node keeps its books.

Whether covers really replace what was purged for them is asked for each pair of messages once, in
`covers`. Of an event with several faults the first is told, in the order in which check looks.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.accounting import PROPERTY as PROPERTY
from semcast.check.relation import NEVER
from semcast.pipeline.verify.books import BAD_COVER, CRASHED, BooksKernel
from semcast.pipeline.verify.covers import cover_faults
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import BY_NODE, Frames

_ABOUT: Final = "('multicast', 'receive', 'deliver', 'purge', 'skip', 'retransmit')"


def kernel(facts: Facts, nid: int) -> BooksKernel:
    """Keeps the books of one node."""
    return BooksKernel(facts, nid)


def violations(frames: Frames) -> DataFrame:
    """Stage: every event that the books of its node do not allow."""
    faults = frames.found(BY_NODE).where(F.col("property") == PROPERTY)
    faults = faults.drop("run_no", "n", "key", "place")
    faults = faults.unionByName(cover_faults(frames, PROPERTY, BAD_COVER))
    if any(at != NEVER for run in frames.facts.runs for at in run.crash_at):
        faults = faults.unionByName(_after_crashes(frames))
    first = Window.partitionBy("nid", "at").orderBy("precedence")
    one = faults.withColumn("place", F.row_number().over(first)).where("place = 1")
    return one.drop("nid", "at", "precedence", "place")


def _after_crashes(frames: Frames) -> DataFrame:
    """Stage: a crashed node does nothing any more."""
    crashed = F.broadcast(frames.nodes.where(F.col("crash_at") != NEVER))
    late = frames.events.join(crashed, ["run", "node"]).where("at > crash_at")
    text = F.concat("node", F.lit(" crashed, and yet there is a later event of it: "), "event")
    about = F.expr(
        f"filter(if(event in {_ABOUT}, array(struct(sender, seq), "
        "struct(by_sender as sender, by_seq as seq)), array()), one -> one.seq is not null)"
    )
    return late.select(
        "run",
        F.lit(PROPERTY).alias("property"),
        "node",
        about.alias("messages"),
        F.col("time_ns").alias("at_ns"),
        text.alias("text"),
        "nid",
        "at",
        F.lit(CRASHED).alias("precedence"),
    )
