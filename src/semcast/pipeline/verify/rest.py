"""Whether a run has come to rest, so that what must hold in the end can be judged.

It has if every correct node has delivered or purged all that it received of correct senders, and
has taken for stable all that it keeps of theirs. A simulated run that ended too early shows here.
What the lives of a live group did not live to see is excused already (`journal.lives`), and without
one order of events nothing else can be told: those runs are judged.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.verify.facts import nodes_in
from semcast.pipeline.verify.frames import (
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    RECEIVE,
    STABLE,
    Frames,
)

# Runs that have not come to rest, and why.
RESTLESS: Final = "run_no int, why string"


def restless(frames: Frames) -> DataFrame:
    """Stage: a row for each run that goes on (`RESTLESS`)."""
    rows = frames.only_runs(frames.by_node, lambda header: header.one_order)
    rows = rows.join(F.broadcast(_correct(frames)), ["nid", "sid"])
    keeps = f"kind = {MULTICAST} or (kind = {RECEIVE} and keeps)"
    held = (
        rows.groupBy("run_no", "nid", "sid", "keeps")
        .agg(
            F.expr(f"count_if(kind = {RECEIVE})").alias("received"),
            F.expr(f"count_if(kind in ({DELIVER}, {PURGE_DELIVERY}))").alias("gone"),
            F.expr(f"coalesce(max(seq) filter (where {keeps}), 0)").alias("newest"),
            F.expr(f"coalesce(max(seq) filter (where kind = {STABLE}), 0)").alias("stable"),
        )
        .where("received > gone or newest > stable")
    )
    waiting = F.expr(
        """if(bool_or(received > gone),
              concat(min(node) filter (where received > gone), ' has not delivered all it holds'),
              concat(min(node), ' keeps what is not stable yet'))"""
    )
    named = held.join(F.broadcast(frames.nodes.select("nid", "node")), "nid")
    return named.groupBy("run_no").agg(waiting.alias("why"))


def _correct(frames: Frames) -> DataFrame:
    """Correct nodes with correct senders, and whether the node keeps what it gets of that one."""
    facts = frames.facts
    nids = {place: nid for nid, place in enumerate(facts.nodes)}
    rows = []
    for sid, (no, name) in enumerate(facts.senders):
        run = facts.runs[no]
        if run.only(name) & run.correct:
            for n in nodes_in(run.correct):
                keeps = run.header.reliability == "group" and run.nodes[n] != name
                rows.append((nids[no, n], sid, keeps))
    return frames.spark.createDataFrame(rows, "nid int, sid int, keeps boolean")
