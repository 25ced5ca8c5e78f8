"""Whether a run has come to rest, so that what must hold in the end can be judged.

It has if every correct node has delivered or purged all that it received of correct senders, and
has taken for stable all that it keeps of theirs. A simulated run that ended too early shows here.
What the lives of a live group did not live to see is excused already (`journal.lives`), and without
one order of events nothing else can be told: those runs are judged. All of it is in the counts of
the first look (`survey.COUNTS`).
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.verify.facts import nodes_in
from semcast.pipeline.verify.frames import Frames

# Runs that have not come to rest, and why.
RESTLESS: Final = "run_no int, why string"
_CORRECT: Final = "run string, node string, sender string, run_no int, keeps boolean"


def restless(frames: Frames) -> DataFrame:
    """Stage: a row for each run that goes on (`RESTLESS`)."""
    rows = frames.counts.join(F.broadcast(_correct(frames)), ["run", "node", "sender"])
    gone = "event = 'deliver' or (event = 'purge' and where = 'delivery')"
    keeps = "event = 'multicast' or (event = 'receive' and keeps)"
    held = (
        rows.groupBy("run_no", "node", "sender")
        .agg(
            F.expr("coalesce(sum(times) filter (where event = 'receive'), 0)").alias("received"),
            F.expr(f"coalesce(sum(times) filter (where {gone}), 0)").alias("gone"),
            F.expr(f"coalesce(max(newest) filter (where {keeps}), 0)").alias("newest"),
            F.expr("coalesce(max(newest) filter (where event = 'stable'), 0)").alias("stable"),
        )
        .where("received > gone or newest > stable")
    )
    waiting = F.expr(
        """if(bool_or(received > gone),
              concat(min(node) filter (where received > gone), ' has not delivered all it holds'),
              concat(min(node), ' keeps what is not stable yet'))"""
    )
    return held.groupBy("run_no").agg(waiting.alias("why"))


def _correct(frames: Frames) -> DataFrame:
    """The correct nodes and senders of runs in one order (`_CORRECT`), and who keeps whose."""
    rows = []
    for no, name in frames.facts.senders:
        run = frames.facts.runs[no]
        if run.header.one_order and run.only(name) & run.correct:
            for n in nodes_in(run.correct):
                node = run.nodes[n]
                keeps = run.header.reliability == "group" and node != name
                rows.append((run.header.run, node, name, no, keeps))
    return frames.spark.createDataFrame(rows, _CORRECT)
